package query

import (
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
)

// ofSeries is what every record has of its series.
func ofSeries(k results.SeriesKey, m int, name string) any {
	switch name {
	case "device":
		return k.Device
	case "kernel":
		return k.Kernel
	case "operation":
		return k.Operation.String()
	case "dtype":
		return string(k.DType)
	case "weights":
		if k.Weights != (kernels.WeightFormat{}) {
			return k.Weights.String()
		}
	case "layout":
		if k.Operation.HasWeights() {
			return k.Layout.String()
		}
	case "regime":
		return string(k.Regime)
	case "threads":
		return k.Threads
	case "m":
		return m
	case "n":
		return k.N
	case "k":
		return k.K
	}
	return nil
}

// known is a figure of which 0 says that nobody knows it.
func known(x float64) any {
	if x == 0 {
		return nil
	}
	return x
}

// ofFinding is what a finding has, but for its series.
func ofFinding(f rules.Finding, name string) any {
	switch name {
	case "rule":
		return string(f.Rule)
	case "status":
		return string(f.Status)
	case "cause":
		return string(f.Cause)
	case "loss":
		if f.Cause != rules.MeasurementError {
			return f.Loss.Mid
		}
	case "stake":
		return f.StakeUS
	case "from_m":
		return f.FromM
	case "to_m":
		return f.ToM
	case "rows":
		return f.Rows
	case "p":
		return f.AdjustedP
	}
	return nil
}

// ofRemedy is what a remedy has, but for its series and the time that it saves.
func ofRemedy(r rules.Remedy, name string) any {
	switch name {
	case "remedy":
		return string(r.Kind)
	case "gain":
		switch {
		case r.Executed:
			return r.Gain.Mid
		case r.PredictedUS > 0 && r.DirectUS > 0:
			return r.DirectUS / r.PredictedUS
		}
	case "executed":
		return r.Executed
	case "pays":
		return r.Pays
	}
	return nil
}

// ofRow is what a judged row has, but for its series.
func ofRow(r rules.RowVerdict, name string) any {
	switch name {
	case "us":
		return known(r.US.Mid)
	case "mfu":
		return known(r.MFU.Mid)
	case "clock":
		return known(r.ClockMHz)
	case "label":
		return r.Label
	case "verdict":
		return string(r.Verdict)
	case "samples":
		return r.Samples
	}
	return nil
}

// first is the first value that is one.
func first(values ...any) any {
	for _, v := range values {
		if v != nil {
			return v
		}
	}
	return nil
}

// OfFindings tells of the findings of an audit, and of the rows that lose most in them.
func OfFindings(a *rules.Audit) func(rules.Finding) Record {
	series := make(map[results.SeriesKey][]rules.RowVerdict, len(a.Series))
	for _, s := range a.Series {
		series[s.Key] = s.Rows
	}
	return func(f rules.Finding) Record {
		var worst *rules.RowVerdict
		rows := series[f.Series]
		if i, ok := slices.BinarySearchFunc(rows, f.WorstM, func(r rules.RowVerdict, m int) int { return r.M - m }); ok {
			worst = &rows[i]
		}
		return func(name string) any {
			v := first(ofSeries(f.Series, f.WorstM, name), ofFinding(f, name))
			if v == nil && f.Remedy != nil {
				v = ofRemedy(*f.Remedy, name)
			}
			if v == nil && worst != nil {
				v = ofRow(*worst, name)
			}
			return v
		}
	}
}

// OfRemedy tells of a remedy.
func OfRemedy(r rules.SplitRow) Record {
	return func(name string) any {
		switch name {
		case "us":
			return known(r.DirectUS)
		case "stake":
			return r.StakeUS
		case "p":
			return known(r.AdjustedP)
		}
		return first(ofSeries(r.Series, r.M, name), ofRemedy(r.Remedy, name))
	}
}

// ofStretch tells of an interval of M with one remedy by the row of it that gains least.
func ofStretch(s rules.Stretch) Record {
	var least rules.Remedy
	for i, p := range s.Proofs {
		if i == 0 || p.Gain.Lo < least.Gain.Lo {
			least = p
		}
	}
	row := OfRemedy(rules.SplitRow{Series: s.Series, Remedy: least})
	return func(name string) any {
		if name == "stake" {
			return s.StakeUS
		}
		return row(name)
	}
}

// OfCase tells of a case that diff compares.
func OfCase(c rules.CaseDiff) Record {
	return func(name string) any {
		switch name {
		case "us":
			return known(c.B.Mid)
		case "label":
			if c.LabelB != "" {
				return c.LabelB
			}
			return nil
		case "p":
			return c.AdjustedP
		case "change":
			return string(c.Change)
		case "ratio":
			return known(c.Ratio.Mid)
		}
		return ofSeries(c.Series, c.M, name)
	}
}

// OfFindingDiff tells of a finding of two runs: of B's, where B has it.
func OfFindingDiff(d rules.FindingDiff) Record {
	f := d.B
	if f == nil {
		f = d.A
	}
	return func(name string) any {
		switch {
		case name == "change":
			return string(d.Change)
		case f == nil:
			return nil
		}
		return first(ofSeries(f.Series, f.WorstM, name), ofFinding(*f, name))
	}
}

// OfMedian tells of the median of a row.
func OfMedian(m report.Median) Record {
	return func(name string) any {
		switch name {
		case "us":
			if m.AtClock.Mid > 0 {
				return m.AtClock.Mid
			}
			return known(m.US.Mid)
		case "mfu":
			return known(m.MFU)
		case "clock":
			return known(m.ClockMHz)
		case "label":
			return m.Label
		case "verdict":
			return string(m.Verdict)
		case "samples":
			return m.Samples
		}
		return ofSeries(m.Series, m.M, name)
	}
}

// OfSample tells of a line of an export.
func OfSample(e *results.Exported) Record {
	told := func(x *float64) any {
		if x == nil {
			return nil
		}
		return *x
	}
	return func(name string) any {
		switch name {
		case "device":
			return e.Device
		case "kernel":
			return e.Kernel
		case "operation":
			return e.Operation
		case "dtype":
			return string(e.DType)
		case "layout":
			return e.Layout
		case "regime":
			return string(e.Regime)
		case "threads":
			return e.Threads
		case "m":
			return e.M
		case "n":
			return e.N
		case "k":
			return e.K
		case "us":
			return e.US
		case "mfu":
			if e.Utils == nil {
				return told(e.MFU)
			}
			return told(e.Utils)
		case "clock":
			return told(e.ClockMHz)
		case "label":
			return string(e.Label)
		case "phase":
			return string(e.Phase)
		case "round":
			return e.Round
		case "launches":
			return e.Launches
		case "power":
			return told(e.PowerW)
		case "temperature":
			return told(e.TempC)
		case "throttle":
			return e.Throttle
		case "disturbance":
			return e.Disturbance
		}
		return nil
	}
}
