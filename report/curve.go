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
)

// Curve is one series with its verdicts, as plots show it.
type Curve struct {
	Key  results.SeriesKey
	Peak kernels.Peak
	// Bandwidth is the one of memory that the operation is held against.
	Bandwidth kernels.Bandwidth
	// ClockMHz is the clock at which the rows' times are, 0 where they are as observed.
	ClockMHz float64
	// Threshold is the share of the reference that was expected, 0 when unknown.
	Threshold float64
	// Rows are ascending in M. Rows of a series that no audit has judged have an
	// empty verdict and no expectation.
	Rows     []rules.RowVerdict
	Findings []rules.Finding
	// Linear keeps the axis over M linear however wide the range of M is.
	Linear bool
}

// NewCurve joins a series with its part of an audit; audit may be nil, and may
// lack rows, which are then summarised from the samples.
func NewCurve(s results.Series, audit *rules.Audit) Curve {
	return newCurves([]results.Series{s}, audit)[0]
}

// newCurves is [NewCurve] of each series.
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

// newCurve joins a series with its findings and rows of an audit.
func newCurve(s results.Series, audit *rules.Audit, findings []*rules.Finding, rows []rules.RowVerdict) Curve {
	c := Curve{Key: s.Key, Peak: s.Peak, Bandwidth: s.Bandwidth, Rows: rows}
	if audit != nil {
		c.Threshold = audit.Threshold
		for _, f := range findings {
			c.Findings = append(c.Findings, *f)
		}
		// A plot reads from left to right.
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
		r.MFU = rules.Interval{Lo: flops / (m.US.Hi * 1e-6) / peak, Mid: flops / (m.US.Mid * 1e-6) / peak, Hi: flops / (m.US.Lo * 1e-6) / peak}
		if at := m.MFUAtClock; at > 0 {
			scale := at / r.MFU.Mid
			r.ClockMHz, r.MFUAtClock = m.ClockMHz, rules.Interval{Lo: scale * r.MFU.Lo, Mid: at, Hi: scale * r.MFU.Hi}
		}
		c.Rows = append(c.Rows, r)
	}
	return c
}

// suffix tells the files of a curve's linear plots from the others.
func (c *Curve) suffix() string {
	if c.Linear {
		return " linear"
	}
	return ""
}

// adjusted says whether the time of any row is another than was observed.
func (c *Curve) adjusted() bool {
	return slices.ContainsFunc(c.Rows, func(r rules.RowVerdict) bool { return r.ObservedUS.Mid > 0 })
}

// atClock is a label with the clock of the times, where there is one.
func (c *Curve) atClock(label, clock string) string {
	if c.ClockMHz > 0 {
		return fmt.Sprintf("%s%s at %.0f MHz", label, clock, c.ClockMHz)
	}
	return label
}

// hasIntervals says whether any row has more than a point estimate.
func (c *Curve) hasIntervals() bool {
	for _, r := range c.Rows {
		if r.US.Hi > r.US.Lo {
			return true
		}
	}
	return false
}

// batches is the range of M, 0, 0 for an empty curve.
func (c *Curve) batches() (lo, hi int) {
	if len(c.Rows) == 0 {
		return 0, 0
	}
	return c.Rows[0].M, c.Rows[len(c.Rows)-1].M
}

// A stroke is one x of a line with a band around it, in canvas units.
type stroke struct {
	x, lo, mid, hi vg.Length
	rows           int
}

// maxStrokes is how many points a line of a figure may have: two to a point
// of width. More are gathered into columns, of which the line shows the
// median and the band the range; otherwise thousands of rows become a blob.
const maxStrokes = 1100

// columnWidth is the width of such a column.
const columnWidth = vg.Length(0.9)

// gather thins strokes that are ascending in x. gathered says whether the band
// now is the range of neighbouring rows rather than each row's own interval.
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
