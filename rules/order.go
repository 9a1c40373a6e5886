package rules

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

const (
	// fixedPlace is the standard deviation of a row's place in its rounds, relative to random places, below
	// which rows keep their places: then effects of time and of M can't be separated.
	fixedPlace = 0.75
	// explainsZ is the normal quantile of the test whether time explains rows: level 2 %.
	explainsZ = 2.05
	// dipRows is how many rows before and after a slow row may be searched for a faster one: a machine that
	// slows down for some time affects more rows.
	dipRows = 8
)

// placing is the measuring order of a curve's rows, if it is the same in each round, or if rows were measured
// one after the other.
type placing struct {
	byM bool
	// explains is set if rows measured next to each other are alike beyond the effect of M.
	explains bool
	open     int
}

// placesOf are the mean places of a series' rows in their rounds, from 0 to 1, by row; NaN for rows without
// samples. fixed is false if each round has its own order, or if samples are too few.
func placesOf(s results.Series) (mean []float64, fixed bool) {
	type one struct {
		row int
		seq int64
	}
	rounds := map[int][]one{}
	for i, r := range s.Rows {
		for j := range r.Samples {
			if x := &r.Samples[j]; usable(x) {
				rounds[x.Round] = append(rounds[x.Round], one{i, x.Seq})
			}
		}
	}
	sum, squares, count := make([]float64, len(s.Rows)), make([]float64, len(s.Rows)), make([]float64, len(s.Rows))
	for _, round := range slices.Sorted(maps.Keys(rounds)) { // sums of floats depend on their order
		of := rounds[round]
		if len(of) < orderRows {
			continue
		}
		slices.SortFunc(of, func(a, b one) int { return cmp.Compare(a.seq, b.seq) })
		for k, x := range of {
			at := (float64(k) + 0.5) / float64(len(of))
			sum[x.row], squares[x.row], count[x.row] = sum[x.row]+at, squares[x.row]+at*at, count[x.row]+1
		}
	}
	mean = make([]float64, len(s.Rows))
	spread, freedom := 0.0, 0.0
	for i, n := range count {
		if mean[i] = sum[i] / n; n > 1 {
			spread, freedom = spread+squares[i]-sum[i]*mean[i], freedom+n-1
		}
	}
	// A random place has a variance of 1/12.
	return mean, freedom >= orderRows && math.Sqrt(12*math.Max(0, spread)/freedom) < fixedPlace
}

func (c *curve) place(least int) {
	mean, fixed := placesOf(c.series)
	if !fixed {
		return
	}
	c.placed = &placing{}
	if _, is := ordered(c.series); is {
		c.placed.byM = true
		return
	}
	var m []int
	var y, at []float64
	for i := range c.points {
		if p := &c.points[i]; !p.inferred && p.judged(least) {
			m, y, at = append(m, p.m), append(y, -p.rate()), append(at, mean[p.row])
		}
	}
	c.placed.explains = timeExplains(m, y, at)
}

// timeExplains tests whether values measured one after the other lie on the same side of the lines between
// their neighbors in M. It uses the rank correlation of consecutive values.
func timeExplains(m []int, y, at []float64) bool {
	if len(y) < orderRows {
		return false
	}
	type one struct{ rest, at float64 }
	rest := make([]one, 0, len(y))
	for i := range y {
		// At the ends the two nearest points define the line.
		from, to := max(0, i-1), min(len(y)-1, i+1)
		line := (y[from] + y[to]) / 2
		switch i {
		case 0:
			line = y[1]
		case len(y) - 1:
			line = y[len(y)-2]
		default:
			w := (math.Log(float64(m[i])) - math.Log(float64(m[from]))) / (math.Log(float64(m[to])) - math.Log(float64(m[from])))
			line = (1-w)*y[from] + w*y[to]
		}
		rest = append(rest, one{y[i] - line, at[i]})
	}
	v, places := make([]float64, len(rest)), make([]float64, len(rest))
	for i := range rest {
		v[i], places[i] = rest[i].rest, rest[i].at
	}
	return alikeInTime(v, places)
}

// alikeInTime tests whether values measured next to each other in time are alike; at is the time.
func alikeInTime(v, at []float64) bool {
	if len(v) < orderRows {
		return false
	}
	order := make([]int, len(v))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(at[i], at[j]) })
	sorted := make([]float64, len(v))
	for k, i := range order {
		sorted[k] = v[i]
	}
	return serial(sorted)*math.Sqrt(float64(len(v))) > explainsZ
}

func serial(v []float64) float64 {
	order := make([]int, len(v))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(v[i], v[j]) })
	rank := make([]float64, len(v))
	middle := float64(len(v)-1) / 2
	for k, i := range order {
		rank[i] = float64(k) - middle
	}
	var products, squares float64
	for i := range rank {
		squares += rank[i] * rank[i]
		if i > 0 {
			products += rank[i] * rank[i-1]
		}
	}
	return products / squares
}

// inTime makes verdicts undecided that rest on rows measured at other times. If time explains rows, these are
// all verdicts. If the order is by M, they are those that the rows measured just before and just after do not
// support.
func (f *evidence) inTime(r Rule, c *curve, rows []judgement) {
	if c.placed == nil || r != Monotonic && r != SplitRule && r != Pad {
		return
	}
	for i := range rows {
		j := &rows[i]
		rests := c.placed.explains && j.tested && j.verdict != Undecided
		if c.placed.byM && j.verdict == Anomalous {
			bound := -math.Log1p(-j.lossBound)
			rests = !f.slowerThan(c, i, -1, bound) || !f.slowerThan(c, i, 1, bound)
		}
		if rests {
			j.verdict = Undecided
			c.placed.open++
		}
	}
}

// slowerThan reports whether a row is slower by more than bound, in logs, than one of the dipRows rows on one
// side, or has no judged row there.
func (f *evidence) slowerThan(c *curve, at, side int, bound float64) bool {
	alone := true
	for k := 1; k <= dipRows; k++ {
		by := at + k*side
		if by < 0 || by >= len(c.points) {
			break
		}
		if !c.points[by].judged(f.cfg.MinSamples) {
			continue
		}
		alone = false
		slow, fast := c.points[at].us, c.points[by].us
		slow.Y, fast.Y = -c.points[at].rate(), -c.points[by].rate()
		if d := stats.Difference(slow, fast); d.Y-f.decisive(d) > bound {
			return true
		}
	}
	return alone
}

// untimely is the reason why verdicts on curves measured in a fixed order are undecided, or empty.
func (p *prepared) untimely() (why string, all bool) {
	open, explains, of := 0, false, 0
	for _, c := range p.curves {
		if len(c.points) > 1 {
			of++
		}
		if c.placed != nil && c.placed.open > 0 {
			open++
			explains = explains || c.placed.explains
		}
	}
	switch {
	case open == 0:
		return "", false
	case explains:
		why = "its rows were measured one after the other, and consecutive rows are correlated: the speed of the machine changed"
	default:
		why = "its rows were measured in order of M, so differences may come from M or from drift"
	}
	if open < of {
		why = fmt.Sprintf("%s: %s", plural(open, "series"), why)
	}
	return why, open == of
}
