package infer

import (
	"sort"

	"github.com/gemmaudit/gemmaudit/results"
)

func (c *Curve) weigh(data Data) {
	if !c.Series.Key.OverM() {
		for i := range c.Points {
			of, m := c.Series.Key.At(c.Points[i].M)
			if traffic := data.TrafficOf(of); len(traffic) > 0 {
				if c.weights == nil {
					c.weights = make(map[int]float64, len(c.Points))
				}
				c.weights[c.Points[i].M] = RowWeights([]int{m}, traffic)[m]
			}
		}
		return
	}
	traffic := data.TrafficOf(c.Series.Key.Subject)
	if len(traffic) == 0 {
		return
	}
	ms := make([]int, len(c.Points))
	for i := range c.Points {
		ms[i] = c.Points[i].M
	}
	c.weights = RowWeights(ms, traffic)
}

// Weight is the traffic of a row, 1 if the traffic is unknown.
func (c *Curve) Weight(m int) float64 {
	if c.weights == nil {
		return EvenWeight
	}
	return c.weights[m]
}

// RowWeights assigns each M of the traffic to the nearest of ms, which ascends; of two equally near, to the
// smaller. Traffic outside the range goes to the first or the last.
func RowWeights(ms []int, traffic results.Traffic) map[int]float64 {
	out := make(map[int]float64, len(ms))
	if len(ms) == 0 {
		return out
	}
	// The weight of a listed M applies up to the next one; the last is a single M.
	for i, load := range traffic {
		to := load.M
		if i+1 < len(traffic) {
			to = traffic[i+1].M - 1
		}
		for from := load.M; from <= to; {
			at := sort.SearchInts(ms, from)
			if at == len(ms) || at > 0 && from-ms[at-1] <= ms[at]-from {
				at--
			}
			last := to // the last M nearest to ms[at]
			if at+1 < len(ms) {
				last = min(to, (ms[at]+ms[at+1])/2)
			}
			out[ms[at]] += load.Weight * float64(last-from+1)
			from = last + 1
		}
	}
	return out
}

// EvenWeight is every row's weight if the traffic is unknown.
const EvenWeight = 1
