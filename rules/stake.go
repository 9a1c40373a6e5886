package rules

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Time at stake is what slow rows cost, or a remedy saves, in microseconds for one pass over the rows: loss ×
// time × weight of traffic. It ranks every list of findings and remedies, so a small loss of a long product
// comes before a large loss of a short one.

// timeAtStake is loss, a share of the time, × time in microseconds × weight; 0 if there is no loss or the
// result is not a number.
func timeAtStake(loss, us, weight float64) float64 {
	v := loss * us * weight
	if !(v > 0) || math.IsInf(v, 1) {
		return 0
	}
	return v
}

// stake is the time at stake over the rows of a candidate. For rows measured again it uses the new loss.
func (c *Candidate) stake() float64 {
	var sum float64
	for _, j := range c.Rows {
		loss := j.Loss.Mid
		if t := c.tests[j]; t != nil && t.confirmed {
			loss = t.loss.Mid
		}
		sum += timeAtStake(loss, math.Exp(j.Curve.Points[j.Point].US.Y), j.Curve.Weight(j.M()))
	}
	return sum
}

// losses are the losses of a candidate's rows by M. For rows measured again they are the new ones.
func (c *Candidate) losses() map[int]stats.Interval {
	out := map[int]stats.Interval{}
	for _, j := range c.Rows {
		out[j.M()] = j.Loss
		if t := c.tests[j]; t != nil && t.confirmed {
			out[j.M()] = t.loss
		}
	}
	return out
}

// stake is the time that the remedy saves for a row of the given weight: measured if it was executed, else
// predicted.
func (r Remedy) stake(weight float64) float64 {
	if r.Executed {
		return timeAtStake(1-1/r.Gain.Mid, r.DirectUS, weight)
	}
	return timeAtStake(1-r.PredictedUS/r.DirectUS, r.DirectUS, weight)
}

// Weigh sets the time at stake of every remedy and stretch under the traffic of the data, and sorts them by
// it. Remedies that pay come first, then executed ones that don't, then predictions.
func (r *SplitsResult) Weigh(data infer.Data) {
	w := newWeighing(data)
	for _, rows := range [][]SplitRow{r.Splits, r.Rejected} {
		for i := range rows {
			rows[i].StakeUS = rows[i].stake(w.of(rows[i].Series, rows[i].M))
		}
		RankRemedies(rows)
	}
	r.TrafficUncovered = w.uncoveredOf(r.Searched)
	r.Savings = nil
	if len(r.Stretches) == 0 {
		return
	}
	times := medianTimes(data)
	for i := range r.Stretches {
		s := &r.Stretches[i]
		for k := range s.Proofs {
			s.Proofs[k].StakeUS = s.Proofs[k].stake(w.of(s.Series, s.Proofs[k].M))
		}
		s.StakeUS = s.stake(times, w)
	}
	r.Savings = r.savings(w, times)
	slices.SortStableFunc(r.Stretches, func(a, b Stretch) int {
		return cmp.Or(cmp.Compare(b.StakeUS, a.StakeUS), strings.Compare(a.Series.String(), b.Series.String()),
			cmp.Compare(a.FromM, b.FromM))
	})
}

// RankRemedies sorts remedies for output: those that pay, then executed ones that don't, then predictions;
// within each by time at stake.
func RankRemedies(rows []SplitRow) {
	class := func(r SplitRow) int {
		switch {
		case r.Pays:
			return 0
		case r.Executed:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(rows, func(a, b SplitRow) int {
		if c := cmp.Or(cmp.Compare(class(a), class(b)), cmp.Compare(b.StakeUS, a.StakeUS)); c != 0 {
			return c
		}
		return cmp.Or(strings.Compare(a.Series.String(), b.Series.String()), cmp.Compare(a.M, b.M))
	})
}

type rowOf struct {
	series results.SeriesKey
	m      int
}

// medianTimes are the plain median times of all rows of a run, in microseconds.
func medianTimes(data infer.Data) map[rowOf]float64 {
	out := map[rowOf]float64{}
	for _, s := range data.Series {
		for _, r := range s.Rows {
			if us, ok := infer.RowMedian(r); ok {
				out[rowOf{s.Key, r.Case.M}] = us
			}
		}
	}
	return out
}

// stake is the time that a stretch saves over its rows: measured at executed rows, predicted from the sweep
// at others. If the sweep lacks what the remedy runs, the nearest executed row stands for it.
func (s Stretch) stake(times map[rowOf]float64, w *weighing) float64 {
	proven := map[int]Remedy{}
	for _, p := range s.Proofs {
		proven[p.M] = p
	}
	var sum float64
	for _, m := range s.Ms {
		weight := w.of(s.Series, m)
		if p, ok := proven[m]; ok {
			sum += p.stake(weight)
			continue
		}
		direct := times[rowOf{s.Series, m}]
		if direct <= 0 {
			continue
		}
		if s.Pad == table.Copied || s.Kind == RemedyAlgorithm {
			if near := s.nearest(m); near != nil {
				sum += timeAtStake(1-1/near.Gain.Mid, direct, weight)
			}
			continue
		}
		sum += timeAtStake(1-s.swept(times, m)/direct, direct, weight)
	}
	return sum
}

func (s Stretch) nearest(m int) *Remedy {
	var out *Remedy
	for i, p := range s.Proofs {
		if out == nil || max(p.M-m, m-p.M) < max(out.M-m, m-out.M) {
			out = &s.Proofs[i]
		}
	}
	return out
}

// swept is the time of a stretch's remedy at an M from the sweep's times, in microseconds; +Inf if part of it
// was not swept.
func (s Stretch) swept(times map[rowOf]float64, m int) (us float64) {
	add := func(series results.SeriesKey, m int) {
		t, ok := times[rowOf{series, m}]
		if !ok {
			t = math.Inf(1)
		}
		us += t
	}
	switch s.Kind {
	case RemedySplit:
		rest := m
		for _, part := range s.Fixed {
			add(s.Series, part)
			rest -= part
		}
		add(s.Series, rest)
	case RemedyPad, RemedyPadN, RemedyPadK:
		add(s.Series, s.PadTo)
	case RemedyOther:
		other := s.Series
		other.Kernel = s.Kernel
		add(other, m)
	}
	return us
}
