package reach

import (
	"cmp"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Samples are compared at a common clock: log t + β·log(clock ÷ reference). β is 0 if memory-bound and 1 if
// SM-bound. A row's β is the slope within rows, pooled with the series' rows of similar operations per cycle,
// because one row has few samples.
const (
	neighbours = 24 // on either side
	// A sample further from its row's median than stray plus the effect of its clock is excluded from slopes.
	stray     = 0.03
	strayMore = 1.5
)

// times are the samples of a row by round: log-microseconds, observed and at the common clock.
type times struct {
	*Row
	observed, common map[int]float64
	sxx, sxy         float64 // of deviations from the row's medians: x of log clock, y of log time
	dx               []float64
	rate             float64 // operations per cycle, in 16-bit terms
}

func timed(rows []Row) []*times {
	var clocks []float64
	for _, r := range rows {
		for _, s := range r.Samples {
			if s.MHz > 0 {
				clocks = append(clocks, s.MHz)
			}
		}
	}
	reference := stats.Median(clocks)
	bySeries := map[Series][]*times{}
	all := make([]*times, len(rows))
	for i := range rows {
		t := newTimes(&rows[i], reference)
		all[i] = t
		bySeries[t.Series] = append(bySeries[t.Series], t)
	}
	for _, of := range bySeries {
		slices.SortStableFunc(of, func(a, b *times) int { return cmp.Compare(a.rate, b.rate) })
		for i, t := range of {
			var xx, xy float64
			for _, o := range of[max(0, i-neighbours):min(len(of), i+neighbours+1)] {
				xx, xy = xx+o.sxx, xy+o.sxy
			}
			t.adjust(slope(xx, xy))
		}
	}
	return all
}

// slope returns β, or 0 if the clock is constant.
func slope(xx, xy float64) float64 {
	if xx <= 0 {
		return 0
	}
	return min(max(-xy/xx, 0), 1)
}

func newTimes(r *Row, reference float64) *times {
	t := &times{Row: r, observed: map[int]float64{}, common: map[int]float64{}, dx: make([]float64, len(r.Samples))}
	var x, y []float64
	for i, s := range r.Samples {
		t.observed[s.Round] = math.Log(s.US)
		y = append(y, math.Log(s.US))
		if s.MHz > 0 && reference > 0 {
			t.dx[i] = math.Log(s.MHz / reference)
			x = append(x, t.dx[i])
		}
	}
	mx, my := stats.Median(x), stats.Median(y)
	for i, s := range r.Samples {
		dx, dy := t.dx[i]-mx, y[i]-my
		if s.MHz > 0 && math.Abs(dy) <= stray+strayMore*math.Abs(dx) {
			t.sxx, t.sxy = t.sxx+dx*dx, t.sxy+dx*dy
		}
	}
	if len(y) > 0 {
		t.rate = r.FLOPs() * float64(r.DType.Size()) / math.Exp(my+mx)
	}
	return t
}

// adjust brings the samples to the reference clock. A sample without a clock is unchanged.
func (t *times) adjust(beta float64) {
	for i, s := range t.Samples {
		t.common[s.Round] = math.Log(s.US) + beta*t.dx[i]
	}
}
