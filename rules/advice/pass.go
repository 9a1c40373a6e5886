package advice

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Source is the origin of a part's times.
type Source string

// The sources of times.
const (
	Swept    Source = "swept"
	Imported Source = "imported"
)

// Part is a part of a pass with its times over M.
type Part struct {
	// Names lists the products or other operations of the part: several if they share a series.
	Names  []string `json:"names"`
	Source Source   `json:"source"`
	// Series is the series of a swept part.
	Series results.SeriesKey `json:"series,omitzero"`
	// Count is the number of times per pass.
	Count int `json:"count"`
	// FixedM is the M of a part that runs only on the last rows of the sequences; 0 for a part on all rows.
	FixedM int `json:"fixed_m,omitempty"`
	// Times are ascending in M; a part with a FixedM has one.
	Times []Time `json:"-"`
}

// Time is the time of one execution of a part.
type Time struct {
	M       int
	Seconds float64
	// SE is the standard error as a share of the time, with DF degrees of freedom.
	SE, DF float64
	// Scatter is the origin of SE; empty is [infer.OwnScatter].
	Scatter  infer.ScatterOrigin
	Inferred bool
}

func weaker(a, b infer.ScatterOrigin) infer.ScatterOrigin {
	order := []infer.ScatterOrigin{"", infer.OwnScatter, infer.BorrowedScatter, infer.AssumedScatter}
	if slices.Index(order, a) > slices.Index(order, b) {
		return a
	}
	return b
}

// Name joins the names of the part's operations.
func (p Part) Name() string { return strings.Join(p.Names, "+") }

const normalDF = 200

// Passes are the times of passes over Ms. Each has its own error and shares others.
type Passes struct {
	ms       []int // ascending
	seconds  []float64
	parts    []float64
	inferred []bool
	// own are the independent variances in squared seconds, with df degrees of freedom.
	own, df []float64
	// shared are common errors: each row is the change of all times per standard error.
	shared   [][]float64
	sharedDF []float64
	scatter  []infer.ScatterOrigin
}

// Sum adds the parts at their common Ms. The error names a part without a common M.
func Sum(parts []Part) (*Passes, error) {
	if len(parts) == 0 {
		return nil, fmt.Errorf("advice: no parts")
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
			return nil, fmt.Errorf("advice: %s has no M in common with the other parts", part.Name())
		}
	}
	if len(p.ms) == 0 {
		return nil, fmt.Errorf("advice: no part is known for several M")
	}
	n := len(p.ms)
	p.seconds, p.inferred = make([]float64, n), make([]bool, n)
	p.own, p.df = make([]float64, n), make([]float64, n)
	p.scatter = make([]infer.ScatterOrigin, n)
	for i := range p.scatter {
		p.scatter[i] = infer.OwnScatter
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

func (p *Passes) share(errs []float64, df float64) {
	if slices.ContainsFunc(errs, func(v float64) bool { return v != 0 }) {
		p.shared, p.sharedDF = append(p.shared, errs), append(p.sharedDF, math.Max(df, 1))
	}
}

// Without errors from its own samples no statement about a size is certain.
func (p *Passes) sure(at ...int) bool {
	return !slices.ContainsFunc(at, func(i int) bool { return p.scatter[i] != infer.OwnScatter })
}

func (p *Passes) last() int { return p.ms[len(p.ms)-1] }

// Ms returns the known sizes.
func (p *Passes) Ms() []int { return p.ms }

// Seconds is the time over the i-th M with its interval.
func (p *Passes) Seconds(i int) stats.Interval {
	var e spread
	w := 1 / p.seconds[i]
	e.add(w*w*p.own[i], p.df[i])
	for k, of := range p.shared {
		e.add(w*of[i]*w*of[i], p.sharedDF[k])
	}
	sd, df := e.deviation()
	return around(math.Log(p.seconds[i]), sd, df)
}

type spread struct{ variance, perDF float64 }

func (e *spread) add(v, df float64) {
	e.variance += v
	e.perDF += v * v / math.Max(df, 1)
}

// The degrees of freedom are Satterthwaite's.
func (e spread) deviation() (sd, df float64) {
	if e.perDF == 0 {
		return 0, normalDF
	}
	return math.Sqrt(e.variance), e.variance * e.variance / e.perDF
}

// deviation is the standard error of a weighted sum of times, with its degrees of freedom.
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

const confidence = 0.95

// half is the half-width of an interval in standard errors.
func half(df float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: math.Min(math.Max(df, 1), normalDF)}.Quantile(1 - (1-confidence)/2)
}

func around(log, sd, df float64) stats.Interval {
	h := 0.0
	if sd > 0 {
		h = half(df) * sd
	}
	return stats.Interval{Lo: math.Exp(log - h), Mid: math.Exp(log), Hi: math.Exp(log + h)}
}

// drawn simulates measured times, with seconds as the truth.
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
		out[i] = math.Max(out[i], p.seconds[i]/10)
	}
	return out
}

func (p *Passes) keep(from, to int) {
	p.ms, p.seconds, p.parts, p.inferred = p.ms[from:to], p.seconds[from:to], p.parts[from:to], p.inferred[from:to]
	p.own, p.df, p.scatter = p.own[from:to], p.df[from:to], p.scatter[from:to]
	for k := range p.shared {
		p.shared[k] = p.shared[k][from:to]
	}
}
