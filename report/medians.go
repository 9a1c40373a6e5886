package report

import (
	"fmt"
	"io"
	"math"

	"golang.org/x/perf/benchmath"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Median summarizes one row of a series.
type Median struct {
	Series  results.SeriesKey `json:"series"`
	M       int               `json:"m"`
	Samples int               `json:"samples"`
	// US is the median time with its distribution-free 95 % interval. With too few samples for one, Lo and Hi
	// are the extremes.
	US stats.Interval `json:"us"`
	// FLOPS and MFU follow from the median; MFU is 0 if no peak is known.
	FLOPS    float64 `json:"flops"`
	MFU      float64 `json:"mfu,omitempty"`
	ClockMHz float64 `json:"clock_mhz,omitempty"` // median of the known clocks
	// MFUAtClock is relative to the peak scaled to ClockMHz, 0 if unknown.
	MFUAtClock float64 `json:"mfu_at_clock,omitempty"`
	// Verdict and the following fields come from an audit. AtClock is the row's time at the common clock, if
	// it differs from the observed time; MFUAtClock then refers to it. Elasticity is β, Modes holds the two
	// levels of a bimodal row.
	Verdict    rules.Verdict  `json:"verdict,omitempty"`
	AtClock    stats.Interval `json:"us_at_clock,omitzero"`
	Elasticity float64        `json:"elasticity,omitempty"`
	Modes      []float64      `json:"bimodal_us,omitempty"`
	Label      string         `json:"label,omitempty"`
	Failed     string         `json:"failed,omitempty"`
}

// summaryConfidence is the level of the medians' intervals. Each describes one row; verdicts use separate
// intervals computed by the rules.
const summaryConfidence = 0.95

// Medians summarizes every row of the series, in order.
func Medians(series []results.Series) []Median {
	var out []Median
	for _, s := range series {
		for _, r := range s.Rows {
			m := Median{Series: s.Key, M: r.Case.M, Label: r.Case.Label, Failed: r.Failed}
			var us, clock []float64
			for _, sample := range r.Samples {
				if IsFinite(sample.US) && sample.US > 0 {
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
			m.ClockMHz = stats.Median(clock)
			if peak := s.Peak.At(m.ClockMHz); peak > 0 {
				m.MFUAtClock = m.FLOPS / peak
			}
			out = append(out, m)
		}
	}
	return out
}

// JudgedMedians is [Medians] joined with the verdicts of an audit, which may be nil.
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
			if !s.Rows[k].Inferred { // skip inferred rows: there may be millions
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

func medianInterval(values []float64) stats.Interval {
	sum := benchmath.AssumeNothing.Summary(benchmath.NewSample(append([]float64(nil), values...), nil), summaryConfidence)
	lo, hi := sum.Lo, sum.Hi
	if math.IsInf(lo, 0) || math.IsInf(hi, 0) {
		lo, hi = values[0], values[0]
		for _, v := range values {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	return stats.Interval{Lo: lo, Mid: sum.Center, Hi: hi}
}

// WriteMedians prints one row per case: median time with interval, rate and MFU. The benchmark format holds
// every sample instead. With an audit (may be nil), it adds the judged time and the verdict.
func WriteMedians(w io.Writer, f Format, meta results.Meta, series []results.Series, audit *rules.Audit) error {
	if f == Bench {
		return WriteBench(w, meta, series)
	}
	return WriteSomeMedians(w, f, series, audit, JudgedMedians(series, audit), nil)
}

// WriteSomeMedians prints medians made by [JudgedMedians] from series and audit, in the form of
// [WriteMedians]. s (may be nil) describes the selection. The benchmark format is unsupported.
func WriteSomeMedians(w io.Writer, f Format, series []results.Series, audit *rules.Audit, medians []Median, s *rules.Selection) error {
	doc := &Document{Subject: "medians", Items: items(medians)}
	if medians == nil {
		medians = []Median{}
	}
	value := struct {
		// Clocks holds the common clock of the times in MHz, by device.
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

// peakNotes names the peak behind MFU for each device and data type, and the bandwidth for memory-bound
// operations.
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

// PeakText describes the peak behind MFU.
func PeakText(p kernels.Peak) string {
	if p.FLOPS <= 0 {
		return "relative to the fastest row, no peak is known"
	}
	if b := p.Memory; b.Rate > 0 {
		s := fmt.Sprintf("relative to the %s bandwidth of memory, %s, %s", b.Of, formatRate(b.Rate, "B/s"), p.Origin)
		if b.Of != kernels.Copying {
			s += "; copy bandwidth unknown"
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

// unlessZero is v, or nil if v is 0, which means unknown.
func unlessZero(v int) any { return when(v != 0, v) }

func seriesCell(k results.SeriesKey) Cell { return word{text: k.Text()} }
