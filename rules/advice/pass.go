package advice

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
)

// Source is where the times of a part come from.
type Source string

// The sources of times.
const (
	Swept    Source = "swept"
	Imported Source = "imported"
)

// Part is a part of a pass, and how long it takes over M tokens.
type Part struct {
	// Names are the products, or other operations, that the part stands for: several where one
	// series serves them.
	Names  []string `json:"names"`
	Source Source   `json:"source"`
	// Series is the series of a swept part.
	Series results.SeriesKey `json:"series,omitzero"`
	// Count is how often a pass has it.
	Count int `json:"count"`
	// FixedM is the M of a part that runs on the last rows of the sequences only, whatever the
	// pass's M is; 0 for a part that runs on all rows.
	FixedM int `json:"fixed_m,omitempty"`
	// Times are ascending in M; of a part with a FixedM there is one.
	Times []Time `json:"-"`
}

// Time is how long one of a part takes.
type Time struct {
	M       int
	Seconds float64
	// SE is the standard error of the time as a share of it, with DF degrees of freedom.
	SE, DF float64
	// Scatter is where SE comes from; empty is [rules.OwnScatter].
	Scatter  rules.ScatterOrigin
	Inferred bool
}

// weaker is the origin of two that says less of an error.
func weaker(a, b rules.ScatterOrigin) rules.ScatterOrigin {
	order := []rules.ScatterOrigin{"", rules.OwnScatter, rules.BorrowedScatter, rules.AssumedScatter}
	if slices.Index(order, a) > slices.Index(order, b) {
		return a
	}
	return b
}

// Name joins the names of what the part stands for.
func (p Part) Name() string { return strings.Join(p.Names, "+") }

// normalDF are degrees of freedom from which on Student's t is as good as normal.
const normalDF = 200

// Passes are the times of passes over Ms, with their errors: each has one of its own, and all share
// others.
type Passes struct {
	ms      []int // ascending
	seconds []float64
	// parts are the seconds of the parts among them.
	parts    []float64
	inferred []bool
	// own are the variances of what a time errs by itself, in squares of seconds, with df
	// degrees of freedom.
	own, df []float64
	// shared are errors that the times have together: one standard error moves each by as much.
	shared   [][]float64
	sharedDF []float64
	// scatter are the weakest origins of what is in the errors.
	scatter []rules.ScatterOrigin
}

// Sum adds the parts at the Ms that all of them know. The error names a part that leaves none.
func Sum(parts []Part) (*Passes, error) {
	if len(parts) == 0 {
		return nil, fmt.Errorf("advice: there are no parts")
	}
	p := &Passes{}
	first := true
	for _, part := range parts {
		if part.FixedM > 0 {
			continue
		}
		ms := make([]int, len(part.Times))
		for i, t := range part.Times {
			ms[i] = t.M
		}
		if first {
			p.ms, first = ms, false
			continue
		}
		before := p.ms
		p.ms = slices.DeleteFunc(slices.Clone(p.ms), func(m int) bool { _, ok := slices.BinarySearch(ms, m); return !ok })
		if len(p.ms) == 0 && len(before) > 0 {
			return nil, fmt.Errorf("advice: %s has no M in common with the parts before it", part.Name())
		}
	}
	if len(p.ms) == 0 {
		return nil, fmt.Errorf("advice: no part is known over M")
	}
	n := len(p.ms)
	p.seconds, p.inferred = make([]float64, n), make([]bool, n)
	p.own, p.df = make([]float64, n), make([]float64, n)
	p.scatter = make([]rules.ScatterOrigin, n)
	for i := range p.scatter {
		p.scatter[i] = rules.OwnScatter
	}
	errs := make([]spread, n)
	for _, part := range parts {
		if part.FixedM > 0 {
			t := part.Times[0]
			constant := float64(part.Count) * t.Seconds
			moved := make([]float64, n)
			for i := range p.ms {
				p.seconds[i] += constant
				moved[i] = constant * t.SE
				p.scatter[i] = weaker(p.scatter[i], t.Scatter)
			}
			p.share(moved, t.DF)
			continue
		}
		next := 0
		for i, m := range p.ms {
			for part.Times[next].M < m {
				next++
			}
			t := part.Times[next]
			all := float64(part.Count) * t.Seconds
			p.seconds[i] += all
			errs[i].add(all*t.SE*all*t.SE, t.DF)
			p.scatter[i] = weaker(p.scatter[i], t.Scatter)
			p.inferred[i] = p.inferred[i] || t.Inferred
		}
	}
	for i, e := range errs {
		p.own[i] = e.variance
		_, p.df[i] = e.deviation()
	}
	p.parts = slices.Clone(p.seconds)
	return p, nil
}

// share adds an error that all times have together.
func (p *Passes) share(errs []float64, df float64) {
	if slices.ContainsFunc(errs, func(v float64) bool { return v != 0 }) {
		p.shared, p.sharedDF = append(p.shared, errs), append(p.sharedDF, math.Max(df, 1))
	}
}

// sure says whether the errors of all of some sizes are known by their own samples. Without it nothing about them is certain.
func (p *Passes) sure(at ...int) bool {
	return !slices.ContainsFunc(at, func(i int) bool { return p.scatter[i] != rules.OwnScatter })
}

// last is the largest size.
func (p *Passes) last() int { return p.ms[len(p.ms)-1] }

// Ms are the sizes that are known.
func (p *Passes) Ms() []int { return p.ms }

// Seconds is the time over the i-th M with its interval.
func (p *Passes) Seconds(i int) rules.Interval {
	var e spread
	w := 1 / p.seconds[i]
	e.add(w*w*p.own[i], p.df[i])
	for k, of := range p.shared {
		e.add(w*of[i]*w*of[i], p.sharedDF[k])
	}
	sd, df := e.deviation()
	return around(math.Log(p.seconds[i]), sd, df)
}

// spread sums the variances of independent errors, each with its degrees of freedom.
type spread struct{ variance, perDF float64 }

func (e *spread) add(v, df float64) {
	e.variance += v
	e.perDF += v * v / math.Max(df, 1)
}

// deviation is the standard deviation of the sum, with degrees of freedom as Satterthwaite has them.
func (e spread) deviation() (sd, df float64) {
	if e.perDF == 0 {
		return 0, normalDF
	}
	return math.Sqrt(e.variance), e.variance * e.variance / e.perDF
}

// deviation is the standard error of the sum of times with weights, with its degrees of freedom.
func (p *Passes) deviation(weights []float64) (sd, df float64) {
	var e spread
	for i, w := range weights {
		if w != 0 {
			e.add(w*w*p.own[i], p.df[i])
		}
	}
	for k, of := range p.shared {
		sum := dot(weights, of)
		e.add(sum*sum, p.sharedDF[k])
	}
	return e.deviation()
}

// ratioDeviation is the standard error of log(t_i ÷ t_j).
func (p *Passes) ratioDeviation(i, j int) (sd, df float64) {
	var e spread
	a, b := 1/p.seconds[i], 1/p.seconds[j]
	e.add(a*a*p.own[i], p.df[i])
	e.add(b*b*p.own[j], p.df[j])
	for k, of := range p.shared {
		d := a*of[i] - b*of[j]
		e.add(d*d, p.sharedDF[k])
	}
	return e.deviation()
}

// confidence is that of all intervals.
const confidence = 0.95

// half is the half-width of an interval in standard errors.
func half(df float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: math.Min(math.Max(df, 1), normalDF)}.Quantile(1 - (1-confidence)/2)
}

// around is exp of a logarithm with its interval.
func around(log, sd, df float64) rules.Interval {
	h := 0.0
	if sd > 0 {
		h = half(df) * sd
	}
	return rules.Interval{Lo: math.Exp(log - h), Mid: math.Exp(log), Hi: math.Exp(log + h)}
}

// drawn are times as they might have been measured were seconds the truth.
func (p *Passes) drawn(normal func() float64) []float64 {
	out := slices.Clone(p.seconds)
	for i := range out {
		if p.own[i] > 0 {
			out[i] += math.Sqrt(p.own[i]) * normal()
		}
	}
	for _, of := range p.shared {
		z := normal()
		for i := range out {
			out[i] += z * of[i]
		}
	}
	for i := range out {
		out[i] = math.Max(out[i], p.seconds[i]/10) // no draw is a time of nothing
	}
	return out
}

// keep leaves the sizes from..to alone.
func (p *Passes) keep(from, to int) {
	p.ms, p.seconds, p.parts, p.inferred = p.ms[from:to], p.seconds[from:to], p.parts[from:to], p.inferred[from:to]
	p.own, p.df, p.scatter = p.own[from:to], p.df[from:to], p.scatter[from:to]
	for k := range p.shared {
		p.shared[k] = p.shared[k][from:to]
	}
}
