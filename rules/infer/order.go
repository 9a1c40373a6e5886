package infer

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/phrase"
)

const (
	// fixedPlace is the standard deviation of a row's place in its rounds, relative to random places, below
	// which rows keep their places: then effects of time and of M can't be separated.
	fixedPlace = 0.75
	// explainsZ is the normal quantile of the test whether time explains rows: level 2 %.
	explainsZ = 2.05
)

// Placing is the measuring order of a curve's rows, if it is the same in each round, or if rows were measured
// one after the other.
type Placing struct {
	ByM bool
	// Explains is set if rows measured next to each other are alike beyond the effect of M.
	Explains bool
	Open     int
}

// Places are the mean places of a series' rows in their rounds, from 0 to 1, by row; NaN for rows without
// samples. fixed is false if each round has its own order, or if samples are too few.
func Places(s results.Series) (mean []float64, fixed bool) {
	type one struct {
		row int
		seq int64
	}
	rounds := map[int][]one{}
	for i, r := range s.Rows {
		for j := range r.Samples {
			if x := &r.Samples[j]; x.Usable() {
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

func (c *Curve) place(least int) {
	mean, fixed := Places(c.Series)
	if !fixed {
		return
	}
	c.Placed = &Placing{}
	if _, is := Ordered(c.Series); is {
		c.Placed.ByM = true
		return
	}
	var m []int
	var y, at []float64
	for i := range c.Points {
		if p := &c.Points[i]; !p.Inferred && p.Judged(least) {
			m, y, at = append(m, p.M), append(y, -p.Rate()), append(at, mean[p.Row])
		}
	}
	c.Placed.Explains = timeExplains(m, y, at)
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
	return AlikeInTime(v, places)
}

// AlikeInTime tests whether values measured next to each other in time are alike; at is the time.
func AlikeInTime(v, at []float64) bool {
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

// Untimely is the reason why verdicts on curves measured in a fixed order are undecided, or empty.
func (p *Estimates) Untimely() (why string, all bool) {
	open, explains, of := 0, false, 0
	for _, c := range p.Curves {
		if len(c.Points) > 1 {
			of++
		}
		if c.Placed != nil && c.Placed.Open > 0 {
			open++
			explains = explains || c.Placed.Explains
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
		why = fmt.Sprintf("%s: %s", phrase.Count(open, "series"), why)
	}
	return why, open == of
}
