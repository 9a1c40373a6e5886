package report

import (
	"fmt"
	"io"
	"math"
	"sort"

	"golang.org/x/perf/benchmath"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
)

// Median is the summary of one row of a series.
type Median struct {
	Series  results.SeriesKey `json:"series"`
	M       int               `json:"m"`
	Samples int               `json:"samples"`
	// US is the median time with its distribution-free 95 % interval, Lo and Hi
	// being the extremes when there are too few samples for one.
	US rules.Interval `json:"us"`
	// FLOPS and MFU belong to the median; MFU is 0 when no peak is known.
	FLOPS    float64 `json:"flops"`
	MFU      float64 `json:"mfu,omitempty"`
	ClockMHz float64 `json:"clock_mhz,omitempty"` // median of what is known
	// MFUAtClock is relative to the peak scaled to ClockMHz, 0 when it can't be told.
	MFUAtClock float64 `json:"mfu_at_clock,omitempty"`
	// Verdict and what follows it are those of an audit. AtClock is the time by which
	// the row was judged, at the common clock, where it is not the observed one; MFUAtClock
	// is then its. Elasticity is β, Modes are the two levels of a bimodal row.
	Verdict    rules.Verdict  `json:"verdict,omitempty"`
	AtClock    rules.Interval `json:"us_at_clock,omitzero"`
	Elasticity float64        `json:"elasticity,omitempty"`
	Modes      []float64      `json:"bimodal_us,omitempty"`
	Label      string         `json:"label,omitempty"`
	Failed     string         `json:"failed,omitempty"`
}

// summaryConfidence is the level of the intervals next to medians. They describe
// one row each; verdicts rest on intervals of their own, made by the rules.
const summaryConfidence = 0.95

// Medians summarises every row of the series, in their order.
func Medians(series []results.Series) []Median {
	var out []Median
	for _, s := range series {
		for _, r := range s.Rows {
			m := Median{Series: s.Key, M: r.Case.M, Label: r.Case.Label, Failed: r.Failed}
			var us, clock []float64
			for _, sample := range r.Samples {
				if isFinite(sample.US) && sample.US > 0 {
					us = append(us, sample.US)
				}
				if sample.ClockMHz > 0 {
					clock = append(clock, sample.ClockMHz)
				}
			}
			m.Samples = len(us)
			if len(us) > 0 {
				m.US = medianInterval(us)
				m.FLOPS = r.Case.FLOPs() / (m.US.Mid * 1e-6)
				if s.Peak.FLOPS > 0 {
					m.MFU = m.FLOPS / s.Peak.FLOPS
				}
			}
			m.ClockMHz = median(clock)
			if peak := s.Peak.At(m.ClockMHz); peak > 0 {
				m.MFUAtClock = m.FLOPS / peak
			}
			out = append(out, m)
		}
	}
	return out
}

// JudgedMedians is [Medians] with what an audit, nil for none, says of the rows.
func JudgedMedians(series []results.Series, audit *rules.Audit) []Median {
	out := Medians(series)
	if audit == nil {
		return out
	}
	type place struct {
		series results.SeriesKey
		m      int
	}
	rows := map[place]*rules.RowVerdict{}
	for i := range audit.Series {
		s := &audit.Series[i]
		for k := range s.Rows {
			if !s.Rows[k].Inferred { // the others, of which there may be millions, are no case
				rows[place{s.Key, s.Rows[k].M}] = &s.Rows[k]
			}
		}
	}
	for i := range out {
		m := &out[i]
		r := rows[place{m.Series, m.M}]
		if r == nil {
			continue
		}
		m.Verdict, m.Elasticity, m.Modes = r.Verdict, r.Elasticity, r.Modes
		if r.ObservedUS.Mid > 0 {
			m.AtClock = r.US
			if r.MFUAtClock.Mid > 0 {
				m.MFUAtClock = r.MFUAtClock.Mid
			}
		}
	}
	return out
}

// medianInterval is the median of positive values with its interval.
func medianInterval(values []float64) rules.Interval {
	sum := benchmath.AssumeNothing.Summary(benchmath.NewSample(append([]float64(nil), values...), nil), summaryConfidence)
	lo, hi := sum.Lo, sum.Hi
	if math.IsInf(lo, 0) || math.IsInf(hi, 0) {
		lo, hi = values[0], values[0]
		for _, v := range values {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	return rules.Interval{Lo: lo, Mid: sum.Center, Hi: hi}
}

// median is the middle of values, 0 for none. values is not changed.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	v := append([]float64(nil), values...)
	sort.Float64s(v)
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

// WriteMedians prints one row a case: median time with interval, rate and MFU.
// The benchmark format holds every sample instead. With an audit, nil for none, the time by
// which a row was judged stands next to the observed one, and what else was found of it.
func WriteMedians(w io.Writer, f Format, meta results.Meta, series []results.Series, audit *rules.Audit) error {
	if f == Bench {
		return WriteBench(w, meta, series)
	}
	return WriteSomeMedians(w, f, series, audit, JudgedMedians(series, audit), nil)
}

// WriteSomeMedians prints the given medians, which [JudgedMedians] has made of series and audit, as
// [WriteMedians] prints all; s, nil for none, says how they were selected. There is no benchmark format.
func WriteSomeMedians(w io.Writer, f Format, series []results.Series, audit *rules.Audit, medians []Median, s *rules.Selection) error {
	doc := &Document{Subject: "medians", Items: []any{}}
	for _, m := range medians {
		doc.Items = append(doc.Items, m)
	}
	if medians == nil {
		medians = []Median{}
	}
	value := struct {
		// Clocks are those of the times at clock in MHz, by device.
		Clocks    map[string]float64 `json:"clock_mhz,omitempty"`
		Selection *rules.Selection   `json:"selection,omitempty"`
		Cases     []Median           `json:"cases"`
	}{Selection: s, Cases: medians}
	if audit != nil {
		value.Clocks = audit.Clocks
	}
	doc.Value = value
	doc.Sheets = []Sheet{medianSheet(medians, audit)}
	if audit != nil {
		doc.Head = []Note{{auditText(audit), Faint}}
	}
	doc.Head = append(doc.Head, selectionNotes(s, "row", "rows")...)
	doc.Notes = peakNotes(series)
	return doc.Render(w, f)
}

// peakNotes says what MFU is relative to, for each device and dtype, and for operations that memory
// bounds.
func peakNotes(series []results.Series) []Note {
	var notes []Note
	seen := map[string]bool{}
	for _, s := range series {
		text := s.Key.Device + " " + string(s.Key.DType)
		if s.Peak.Memory.Rate > 0 {
			text = s.Key.Device + " " + s.Key.Operation.String()
		}
		text += ": " + PeakText(s.Peak)
		if !seen[text] {
			seen[text] = true
			notes = append(notes, Note{"MFU of " + text, Neutral})
		}
	}
	return notes
}

// PeakText says in words what MFU is relative to.
func PeakText(p kernels.Peak) string {
	if p.FLOPS <= 0 {
		return "relative to the fastest row, no peak is known"
	}
	if b := p.Memory; b.Rate > 0 {
		s := fmt.Sprintf("relative to the %s bandwidth of memory, %s, %s", b.Of, formatRate(b.Rate, "B/s"), p.Origin)
		if b.Of != kernels.Copying {
			s += "; that of copying is not known"
		}
		return s
	}
	if p.Origin == kernels.Relative {
		return "relative to the fastest row, " + formatOps(p.FLOPS, p.DType) + "; no peak is known"
	}
	s := "relative to " + formatOps(p.FLOPS, p.DType) + ", " + string(p.Origin)
	if p.Unit != "" {
		s += " (" + p.Unit + ")"
	}
	if p.ClockMHz > 0 {
		s += fmt.Sprintf(" at %.0f MHz", p.ClockMHz)
	}
	return s
}

// unlessZero is v, or nothing where 0 stands for unknown.
func unlessZero(v int) any {
	if v == 0 {
		return nil
	}
	return v
}

// seriesCell is a series in the field's notation.
func seriesCell(k results.SeriesKey) Cell { return word{text: SeriesText(k)} }

// SeriesText prints a series as "cpu/amx/bf16 n14336 k4096"; what is not
// default follows.
func SeriesText(k results.SeriesKey) string {
	return k.Text()
}
