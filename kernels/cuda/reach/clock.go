package reach

import (
	"cmp"
	"math"
	"slices"
)

// Samples are compared at a common clock: log t + β·log(clock ÷ reference), where β is 0 where memory binds and 1
// where the SMs do. β of a row is the slope within rows, pooled with the rows of its series that come
// nearest in operations a cycle: few samples of one row say little.
const (
	neighbours = 24 // on either side
	// A sample that is further from its row's median than stray, and than its clock could explain, is no part of a slope.
	stray     = 0.03
	strayMore = 1.5
)

// times are the samples of a row: logarithms of microseconds, as observed and at the common clock, by round.
type times struct {
	*Row
	observed, common map[int]float64
	sxx, sxy         float64 // of deviations from the row's medians: x of log clock, y of log time
	dx               []float64
	rate             float64 // operations a cycle, of 16-bit types
}

// timed brings all rows to a common clock.
func timed(rows []Row) []*times {
	var clocks []float64
	for _, r := range rows {
		for _, s := range r.Samples {
			if s.MHz > 0 {
				clocks = append(clocks, s.MHz)
			}
		}
	}
	reference := median(clocks)
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

// slope is how time follows the clock: 0 where the clock does not move.
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
	mx, my := median(x), median(y)
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

// adjust brings the samples to the reference clock. A sample of unknown clock stays as it is.
func (t *times) adjust(beta float64) {
	for i, s := range t.Samples {
		t.common[s.Round] = math.Log(s.US) + beta*t.dx[i]
	}
}

// median is the middle of x, or the mean of the two middle ones; 0 of nothing.
func median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(x))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
