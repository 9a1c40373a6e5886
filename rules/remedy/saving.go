package remedy

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// Saving is the total saving of the stretches of one kernel on one device.
type Saving struct {
	Device string `json:"device"`
	Kernel string `json:"kernel"`
	// DirectUS is the time of all searched rows, and SavedUS the part of it that the stretches save, in
	// microseconds × weight of traffic.
	DirectUS float64 `json:"direct_us"`
	SavedUS  float64 `json:"saved_us"`
	// Weighed is true if the traffic is known; otherwise the weight is 1 for every row.
	Weighed bool `json:"weighed,omitempty"`
}

// PerSecond is the saving in milliseconds per second of traffic without the table.
func (s Saving) PerSecond() float64 {
	if !(s.DirectUS > 0) {
		return 0
	}
	return 1e3 * s.SavedUS / s.DirectUS
}

// weighing holds the rows' weights of traffic: the sum over all Ms that are nearest to a swept row. Ms
// outside the swept range have no row.
type weighing struct {
	known     bool // the traffic is known
	rows      map[results.SeriesKey]map[int]float64
	uncovered map[results.SeriesKey]float64 // share of the traffic that is left out
}

func newWeighing(data infer.Data) *weighing {
	w := &weighing{known: len(data.Traffic)+len(data.Recorded) > 0, rows: map[results.SeriesKey]map[int]float64{},
		uncovered: map[results.SeriesKey]float64{}}
	if !w.known {
		return w
	}
	for _, s := range data.Series {
		traffic := data.TrafficOf(s.Key.Subject)
		if len(traffic) == 0 {
			continue
		}
		var ms []int
		for _, r := range s.Rows {
			if _, ok := infer.RowMedian(r); ok {
				ms = append(ms, r.Case.M)
			}
		}
		w.uncovered[s.Key] = 1
		if len(ms) > 0 {
			var known results.Traffic
			known, w.uncovered[s.Key] = clip(traffic, ms[0], ms[len(ms)-1])
			w.rows[s.Key] = infer.RowWeights(ms, known)
		}
	}
	return w
}

// clip is the traffic of the Ms from first to last, and the share, by weight, of all other traffic.
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
			inside = append(inside, results.Load{M: last + 1}) // end of the weight
		}
	}
	return inside, 1 - kept/all
}

func (w *weighing) uncoveredOf(series []results.SeriesKey) float64 {
	if !w.known || len(series) == 0 {
		return 0
	}
	var sum float64
	for _, key := range series {
		sum += w.uncovered[key]
	}
	return sum / float64(len(series))
}

func (w *weighing) of(key results.SeriesKey, m int) float64 {
	if rows, ok := w.rows[key]; ok {
		return rows[m]
	}
	return infer.EvenWeight
}

func (r *Result) savings(w *weighing, times map[RowOf]float64) []Saving {
	var out []Saving
	type place struct{ device, kernel string }
	places := map[place]int{}
	at := func(key results.SeriesKey) *Saving {
		p := place{key.Device, key.Kernel}
		i, ok := places[p]
		if !ok {
			i = len(out)
			places[p], out = i, append(out, Saving{Device: key.Device, Kernel: key.Kernel, Weighed: w.known})
		}
		return &out[i]
	}
	direct := map[results.SeriesKey]float64{}
	// In order, to give equal runs equal sums.
	for _, row := range slices.SortedFunc(maps.Keys(times), func(a, b RowOf) int { return cmp.Compare(a.M, b.M) }) {
		direct[row.Series] += times[row] * w.of(row.Series, row.M)
	}
	for _, key := range r.Searched {
		at(key).DirectUS += direct[key]
	}
	for _, s := range r.Stretches {
		at(s.Series).SavedUS += s.StakeUS
	}
	return out
}
