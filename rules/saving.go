package rules

import (
	"sort"

	"github.com/gemmaudit/gemmaudit/results"
)

// Saving is what all stretches of one kernel together save: those of its series on a device.
type Saving struct {
	Device string `json:"device"`
	Kernel string `json:"kernel"`
	// DirectUS is the time of all rows that were searched, and SavedUS what the stretches save of it,
	// in microseconds × weight of traffic.
	DirectUS float64 `json:"direct_us"`
	SavedUS  float64 `json:"saved_us"`
	// Weighed says that the weight is of traffic that is known; else it is 1 for every row.
	Weighed bool `json:"weighed,omitempty"`
}

// PerSecond is how many milliseconds are saved of a second of the traffic, as the engine runs
// it without the table.
func (s Saving) PerSecond() float64 {
	if !(s.DirectUS > 0) {
		return 0
	}
	return 1e3 * s.SavedUS / s.DirectUS
}

// weighing gives the rows of a run their weights of traffic: the sum over all Ms to which a row is
// nearest of those that were swept. Of Ms below the first row and above the last nothing is known: they are left out.
type weighing struct {
	traffic   results.Traffic
	rows      map[results.SeriesKey]map[int]float64
	uncovered map[results.SeriesKey]float64 // share of the traffic that is left out
}

func newWeighing(data Data) *weighing {
	w := &weighing{traffic: data.Traffic, rows: map[results.SeriesKey]map[int]float64{}, uncovered: map[results.SeriesKey]float64{}}
	if len(w.traffic) == 0 {
		return w
	}
	for _, s := range data.Series {
		var ms []int
		for _, r := range s.Rows {
			if _, ok := rowMedian(r); ok {
				ms = append(ms, r.Case.M)
			}
		}
		w.uncovered[s.Key] = 1
		if len(ms) > 0 {
			var known results.Traffic
			known, w.uncovered[s.Key] = clip(w.traffic, ms[0], ms[len(ms)-1])
			w.rows[s.Key] = rowWeights(ms, known)
		}
	}
	return w
}

// clip is the traffic of the Ms from first to last, and the share of all, by weight, that is of others.
func clip(traffic results.Traffic, first, last int) (inside results.Traffic, outside float64) {
	var all, kept float64
	for i, load := range traffic {
		to := load.M
		if i+1 < len(traffic) {
			to = traffic[i+1].M - 1
		}
		all += load.Weight * float64(to-load.M+1)
		from, to := max(load.M, first), min(to, last)
		if from > to {
			continue
		}
		kept += load.Weight * float64(to-from+1)
		inside = append(inside, results.Load{M: from, Weight: load.Weight})
		if to == last {
			inside = append(inside, results.Load{M: last + 1}) // where the weight ends
		}
	}
	return inside, 1 - kept/all
}

// uncoveredOf is the mean share of the traffic that is left out of series.
func (w *weighing) uncoveredOf(series []results.SeriesKey) float64 {
	if len(w.traffic) == 0 || len(series) == 0 {
		return 0
	}
	var sum float64
	for _, key := range series {
		sum += w.uncovered[key]
	}
	return sum / float64(len(series))
}

// of is the weight of a row; 1 where nothing is known of the traffic.
func (w *weighing) of(key results.SeriesKey, m int) float64 {
	if len(w.traffic) == 0 {
		return evenWeight
	}
	return w.rows[key][m]
}

// weigh gives the rows of a curve, the inferred ones too, their weights of traffic.
func (c *curve) weigh(traffic results.Traffic) {
	if len(traffic) == 0 {
		return
	}
	ms := make([]int, len(c.points))
	for i := range c.points {
		ms[i] = c.points[i].m
	}
	c.weights = rowWeights(ms, traffic)
}

// weight is that of a row; 1 where nothing is known of the traffic.
func (c *curve) weight(m int) float64 {
	if c.weights == nil {
		return evenWeight
	}
	return c.weights[m]
}

// rowWeights shares traffic out to Ms, ascending: each M of it to the nearest, to the smaller of two
// that are as near. Traffic beyond the first and the last goes to them.
func rowWeights(ms []int, traffic results.Traffic) map[int]float64 {
	out := make(map[int]float64, len(ms))
	if len(ms) == 0 {
		return out
	}
	// The weight of a listed M holds up to the next one; the last is alone.
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
			last := to // of those that are nearest to ms[at]
			if at+1 < len(ms) {
				last = min(to, (ms[at]+ms[at+1])/2)
			}
			out[ms[at]] += load.Weight * float64(last-from+1)
			from = last + 1
		}
	}
	return out
}

// savings sums up what stretches save, by device and kernel of the series that were searched.
func (r *SplitsResult) savings(w *weighing, times map[rowOf]float64) []Saving {
	var out []Saving
	type place struct{ device, kernel string }
	places := map[place]int{}
	at := func(key results.SeriesKey) *Saving {
		p := place{key.Device, key.Kernel}
		i, ok := places[p]
		if !ok {
			i = len(out)
			places[p], out = i, append(out, Saving{Device: key.Device, Kernel: key.Kernel, Weighed: len(w.traffic) > 0})
		}
		return &out[i]
	}
	direct := map[results.SeriesKey]float64{}
	for row, us := range times {
		direct[row.series] += us * w.of(row.series, row.m)
	}
	for _, key := range r.Searched {
		at(key).DirectUS += direct[key]
	}
	for _, s := range r.Stretches {
		at(s.Series).SavedUS += s.StakeUS
	}
	return out
}
