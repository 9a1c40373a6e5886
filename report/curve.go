package report

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"gonum.org/v1/plot/vg"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Curve is one series with its verdicts, for plots.
type Curve struct {
	Key  results.SeriesKey
	Peak kernels.Peak
	// Bandwidth is the memory bandwidth in the operation's roofline.
	Bandwidth kernels.Bandwidth
	// ClockMHz is the clock of the rows' times, 0 if the times are as observed.
	ClockMHz float64
	// Threshold is the expected share of the reference, 0 if unknown.
	Threshold float64
	// Rows ascend in M. In a series without an audit they have an empty verdict and no expectation.
	Rows     []rules.RowVerdict
	Findings []rules.Finding
	// Linear keeps the M axis linear however wide the range.
	Linear bool
}

// NewCurve joins a series with its part of an audit. audit may be nil or lack rows; those rows are summarized
// from the samples.
func NewCurve(s results.Series, audit *rules.Audit) Curve {
	return newCurves([]results.Series{s}, audit)[0]
}

func newCurves(series []results.Series, audit *rules.Audit) []Curve {
	curves := make([]Curve, len(series))
	findings, rows := map[results.SeriesKey][]*rules.Finding{}, map[results.SeriesKey][]rules.RowVerdict{}
	if audit != nil {
		findings = rules.FindingsBySeries(audit.Findings)
		for i := range audit.Series {
			rows[audit.Series[i].Key] = audit.Series[i].Rows
		}
	}
	for i, s := range series {
		curves[i] = newCurve(s, audit, findings[s.Key], rows[s.Key])
	}
	return curves
}

func newCurve(s results.Series, audit *rules.Audit, findings []*rules.Finding, rows []rules.RowVerdict) Curve {
	c := Curve{Key: s.Key, Peak: s.Peak, Bandwidth: s.Bandwidth, Rows: rows}
	if audit != nil {
		c.Threshold = audit.Threshold
		for _, f := range findings {
			c.Findings = append(c.Findings, *f)
		}
		// Plots read from left to right.
		order := rules.AllRules()
		slices.SortStableFunc(c.Findings, func(a, b rules.Finding) int {
			return cmp.Or(cmp.Compare(slices.Index(order, a.Rule), slices.Index(order, b.Rule)), cmp.Compare(a.FromM, b.FromM))
		})
	}
	if len(c.Rows) > 0 {
		c.ClockMHz = audit.Clocks[s.Key.Device]
		return c
	}
	peak := s.Peak.FLOPS
	medians := Medians([]results.Series{s})
	if peak <= 0 {
		for _, m := range medians {
			peak = max(peak, m.FLOPS)
		}
	}
	for _, m := range medians {
		if m.Samples == 0 {
			continue
		}
		r := rules.RowVerdict{M: m.M, US: m.US, Samples: m.Samples, Label: m.Label}
		flops := s.Key.FLOPs(m.M)
		r.MFU = stats.Interval{Lo: flops / (m.US.Hi * 1e-6) / peak, Mid: flops / (m.US.Mid * 1e-6) / peak,
			Hi: flops / (m.US.Lo * 1e-6) / peak}
		if at := m.MFUAtClock; at > 0 {
			scale := at / r.MFU.Mid
			r.ClockMHz, r.MFUAtClock = m.ClockMHz, stats.Interval{Lo: scale * r.MFU.Lo, Mid: at, Hi: scale * r.MFU.Hi}
		}
		c.Rows = append(c.Rows, r)
	}
	return c
}

func (c *Curve) suffix() string {
	if c.Linear {
		return " linear"
	}
	return ""
}

func (c *Curve) adjusted() bool {
	return slices.ContainsFunc(c.Rows, func(r rules.RowVerdict) bool { return r.ObservedUS.Mid > 0 })
}

func (c *Curve) atClock(label, clock string) string {
	if c.ClockMHz > 0 {
		return fmt.Sprintf("%s%s at %.0f MHz", label, clock, c.ClockMHz)
	}
	return label
}

func (c *Curve) hasIntervals() bool {
	return slices.ContainsFunc(c.Rows, func(r rules.RowVerdict) bool { return r.US.Hi > r.US.Lo })
}

// lineLegend explains the curve's line and band: each row's, called name, or the medians of gathered rows.
func (c *Curve) lineLegend(f *Figure, name, gathered string) {
	band := alpha(blue, 0.22)
	if len(c.Rows) > maxStrokes {
		f.legend = []legendItem{{gathered + ", median of neighbouring rows", blue, lineMark}, {"their range", band, areaMark}}
		return
	}
	f.key(true, name, blue, lineMark)
	f.key(c.hasIntervals(), "confidence interval", band, areaMark)
}

// batches returns the range of M; 0, 0 for an empty curve.
func (c *Curve) batches() (lo, hi int) {
	if len(c.Rows) == 0 {
		return 0, 0
	}
	return c.Rows[0].M, c.Rows[len(c.Rows)-1].M
}

// stroke is one x of a line with a band around it, in canvas units.
type stroke struct {
	x, lo, mid, hi vg.Length
	rows           int
}

// maxStrokes is the maximum number of points per line: two per typographic point of width. More rows are
// gathered into columns, drawn as their median with their range as the band; otherwise thousands of rows
// become a blob.
const maxStrokes = 1100

const columnWidth = vg.Length(0.9)

// gather thins strokes that ascend in x. gathered reports whether the band is now the range of neighboring
// rows instead of each row's interval.
func gather(strokes []stroke) (out []stroke, gathered bool) {
	if len(strokes) <= maxStrokes {
		return strokes, false
	}
	for i := 0; i < len(strokes); {
		j := i
		var mids []float64
		column := stroke{lo: strokes[i].mid, hi: strokes[i].mid}
		for j < len(strokes) && strokes[j].x < strokes[i].x+columnWidth {
			mids = append(mids, float64(strokes[j].mid))
			column.lo, column.hi = min(column.lo, strokes[j].mid), max(column.hi, strokes[j].mid)
			column.rows += strokes[j].rows
			j++
		}
		sort.Float64s(mids)
		column.mid = vg.Length(mids[len(mids)/2])
		column.x = (strokes[i].x + strokes[j-1].x) / 2
		out = append(out, column)
		i = j
	}
	return out, true
}
