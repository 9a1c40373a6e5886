package remedy

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// Time at stake is what slow rows cost, or a remedy saves, in microseconds for one pass over the rows: loss ×
// time × weight of traffic. It ranks every list of findings and remedies, so a small loss of a long product
// comes before a large loss of a short one.

// Weigh sets the time at stake of every remedy and stretch under the traffic of the data, and sorts them by
// it. Remedies that pay come first, then executed ones that don't, then predictions.
func (r *Result) Weigh(data infer.Data) {
	w := newWeighing(data)
	for _, rows := range [][]Row{r.Splits, r.Rejected} {
		for i := range rows {
			rows[i].StakeUS = rows[i].Stake(w.of(rows[i].Series, rows[i].M))
		}
		Rank(rows)
	}
	r.TrafficUncovered = w.uncoveredOf(r.Searched)
	r.Savings = nil
	if len(r.Stretches) == 0 {
		return
	}
	times := MedianTimes(data)
	for i := range r.Stretches {
		s := &r.Stretches[i]
		for k := range s.Proofs {
			s.Proofs[k].StakeUS = s.Proofs[k].Stake(w.of(s.Series, s.Proofs[k].M))
		}
		s.StakeUS = s.stake(times, w)
	}
	r.Savings = r.savings(w, times)
	slices.SortStableFunc(r.Stretches, func(a, b Stretch) int {
		return cmp.Or(cmp.Compare(b.StakeUS, a.StakeUS), strings.Compare(a.Series.String(), b.Series.String()),
			cmp.Compare(a.FromM, b.FromM))
	})
}

// Rank sorts remedies for output: those that pay, then executed ones that don't, then predictions;
// within each by time at stake.
func Rank(rows []Row) {
	class := func(r Row) int {
		switch {
		case r.Pays:
			return 0
		case r.Executed:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(rows, func(a, b Row) int {
		if c := cmp.Or(cmp.Compare(class(a), class(b)), cmp.Compare(b.StakeUS, a.StakeUS)); c != 0 {
			return c
		}
		return cmp.Or(strings.Compare(a.Series.String(), b.Series.String()), cmp.Compare(a.M, b.M))
	})
}

// RowOf names a row: its series and M.
type RowOf struct {
	Series results.SeriesKey
	M      int
}

// MedianTimes are the plain median times of all rows of a run, in microseconds.
func MedianTimes(data infer.Data) map[RowOf]float64 {
	out := map[RowOf]float64{}
	for _, s := range data.Series {
		for _, r := range s.Rows {
			if us, ok := infer.RowMedian(r); ok {
				out[RowOf{s.Key, r.Case.M}] = us
			}
		}
	}
	return out
}

// stake is the time that a stretch saves over its rows: measured at executed rows, predicted from the sweep
// at others. If the sweep lacks what the remedy runs, the nearest executed row stands for it.
func (s Stretch) stake(times map[RowOf]float64, w *weighing) float64 {
	proven := map[int]rules.Remedy{}
	for _, p := range s.Proofs {
		proven[p.M] = p
	}
	var sum float64
	for _, m := range s.Ms {
		weight := w.of(s.Series, m)
		if p, ok := proven[m]; ok {
			sum += p.Stake(weight)
			continue
		}
		direct := times[RowOf{s.Series, m}]
		if direct <= 0 {
			continue
		}
		if s.Pad == table.Copied || s.Kind == rules.RemedyAlgorithm {
			if near := s.Nearest(m); near != nil {
				sum += rules.TimeAtStake(1-1/near.Gain.Mid, direct, weight)
			}
			continue
		}
		sum += rules.TimeAtStake(1-s.swept(times, m)/direct, direct, weight)
	}
	return sum
}

// Nearest is the executed row nearest to an M, nil without one.
func (s Stretch) Nearest(m int) *rules.Remedy {
	var out *rules.Remedy
	for i, p := range s.Proofs {
		if out == nil || max(p.M-m, m-p.M) < max(out.M-m, m-out.M) {
			out = &s.Proofs[i]
		}
	}
	return out
}

// swept is the time of a stretch's remedy at an M from the sweep's times, in microseconds; +Inf if part of it
// was not swept.
func (s Stretch) swept(times map[RowOf]float64, m int) (us float64) {
	add := func(series results.SeriesKey, m int) {
		t, ok := times[RowOf{series, m}]
		if !ok {
			t = math.Inf(1)
		}
		us += t
	}
	switch s.Kind {
	case rules.RemedySplit:
		rest := m
		for _, part := range s.Fixed {
			add(s.Series, part)
			rest -= part
		}
		add(s.Series, rest)
	case rules.RemedyPad, rules.RemedyPadN, rules.RemedyPadK:
		add(s.Series, s.PadTo)
	case rules.RemedyOther:
		other := s.Series
		other.Kernel = s.Kernel
		add(other, m)
	}
	return us
}
