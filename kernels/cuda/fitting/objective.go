package fitting

import (
	"cmp"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
)

// What is minimized: the mean of robust squares of log time, plus the mean regret, half of it
// within the family and half of it among all families, plus a
// pull towards where the fit began, so that constants to which no time is sensitive stay.
const (
	// robust is the error beyond which errors count in proportion: few models are right
	// about everything.
	robust = 0.1
	// regretWeight makes a regret of 1 % as bad as an error of 10 %.
	regretWeight = 1
	pullWeight   = 3e-4
)

// problem is a model with what its constants move.
type problem struct {
	samples   *Samples
	model     string
	card      *calibration.Card // where the fit begins, and all other models; never changed
	constants []string          // that move something
	touched   touched           // by the constants
	fitted    touched           // what is not held out of that
	rivals    []rival           // of each group that is fitted to
	weights   float64           // sum of what is fitted to
	start     []float64         // logarithms of the constants
	others    [][]float64       // where the fit may begin instead
	origin    []float64         // to where they are pulled
	best      []float64         // of all points that were tried
	least     float64           // the objective there
	left      int               // evaluations
	stop      func() bool       // nil for never
	stopped   bool              // by that
	pull      float64
}

// touched are groups of which some times depend on a model's constants.
type touched struct {
	groups []*group
	moved  [][]bool // the times, of each group, that do
}

func (t *touched) add(g *group, moved []bool) {
	t.groups, t.moved = append(t.groups, g), append(t.moved, moved)
}

// sway is by how much a constant is moved, both ways, to see which times depend on it.
const sway = 1.3

// newProblem finds out what a model's constants move, beginning at card and pulled towards
// origin. It is nil where no time that may be fitted to depends on any.
func newProblem(s *Samples, model string, card, origin *calibration.Card, o Options) (*problem, error) {
	p := &problem{samples: s, model: model, card: card, pull: pullWeight * cmp.Or(o.Pull, 1)}
	all := card.Models[model].Order(model)
	before, err := s.expected(s.groups, card)
	if err != nil {
		return nil, err
	}
	moved, err := s.moved(s.groups, before, card, model, all...)
	if err != nil {
		return nil, err
	}
	var beforeFitted []expectation
	for i, g := range s.groups {
		if !slices.Contains(moved[i], true) {
			continue
		}
		p.touched.add(g, moved[i])
		if !g.held {
			p.fitted.add(g, moved[i])
			beforeFitted = append(beforeFitted, before[i])
		}
	}
	if len(p.fitted.groups) == 0 {
		return nil, nil
	}
	for _, name := range all {
		moved, err := s.moved(p.fitted.groups, beforeFitted, card, model, name)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(moved, func(times []bool) bool { return slices.Contains(times, true) }) {
			p.constants = append(p.constants, name)
		}
	}
	p.origin = p.logs(origin)
	for _, other := range o.Also {
		p.others = append(p.others, p.logs(other))
	}
	for i, g := range p.fitted.groups {
		for j, t := range g.times {
			if p.fitted.moved[i][j] {
				p.weights += t.weight
			}
		}
	}
	return p, nil
}

// logs are the logarithms of a card's constants.
func (p *problem) logs(c *calibration.Card) []float64 {
	var x []float64
	for _, name := range p.constants {
		x = append(x, math.Log(c.Models[p.model].Constants[name].Value))
	}
	return x
}

// moved tells the times that are expected to be others when constants of a model are larger or
// smaller. Several of them are moved by different ratios, since some only matter by theirs.
// before is what is expected with those of card.
func (s *Samples) moved(groups []*group, before []expectation, card *calibration.Card, model string, constants ...string) ([][]bool, error) {
	moved := make([][]bool, len(groups))
	for i, g := range groups {
		moved[i] = make([]bool, len(g.times))
	}
	for _, by := range []float64{sway, 1 / sway} {
		other := card.Clone()
		for i, name := range constants {
			scale(other, model, name, math.Pow(by, 1+float64(i)/float64(len(constants))))
		}
		after, err := s.expected(groups, other)
		if err != nil {
			return nil, err
		}
		for i := range groups {
			for j := range moved[i] {
				moved[i][j] = moved[i][j] || before[i].logs[j] != after[i].logs[j]
			}
		}
	}
	return moved, nil
}

// scale multiplies a constant.
func scale(c *calibration.Card, model, constant string, by float64) {
	q := c.Models[model].Constants[constant]
	q.Value *= by
	c.Models[model].Constants[constant] = q
}

// at is the card with the constants whose logarithms are x.
func (p *problem) at(x []float64) *calibration.Card {
	c := p.card.Clone()
	for i, name := range p.constants {
		q := c.Models[p.model].Constants[name]
		q.Value = math.Exp(x[i])
		c.Models[p.model].Constants[name] = q
	}
	return c
}

// point is what is known of a set of constants.
type point struct {
	x         []float64
	residuals []float64 // expected less measured, of what is fitted to
	smooth    float64   // the objective without regret
	objective float64
}

// farthest is the factor by which a constant may become another one than where it is pulled to:
// further away none was ever found, and what no time tells would wander off.
const farthest = 10

// evaluate tries a set of constants and remembers the best of all.
func (p *problem) evaluate(x []float64) (point, error) {
	p.left--
	if p.stop != nil && p.stop() {
		p.left, p.stopped = 0, true
		return point{x: x, smooth: math.Inf(1), objective: math.Inf(1)}, nil
	}
	for i := range x {
		if math.Abs(x[i]-p.origin[i]) > math.Log(farthest) {
			return point{x: x, smooth: math.Inf(1), objective: math.Inf(1)}, nil
		}
	}
	groups := p.fitted.groups
	expected, err := p.samples.expected(groups, p.at(x))
	if err != nil {
		return point{}, err
	}
	at := point{x: x}
	regret := 0.
	for i, g := range groups {
		for j, t := range g.times {
			if p.fitted.moved[i][j] {
				r := expected[i].logs[j] - t.log
				at.residuals = append(at.residuals, r)
				at.smooth += t.weight * huber(r) / p.weights
			}
		}
		regret += (g.regret(expected[i]) + g.regretBeside(p.rivals[i], expected[i])) / 2
	}
	for i := range x {
		at.smooth += p.pull * (x[i] - p.origin[i]) * (x[i] - p.origin[i])
	}
	at.objective = at.smooth + regretWeight*regret/float64(len(groups))
	if at.objective < p.least {
		p.best, p.least = slices.Clone(x), at.objective
	}
	return at, nil
}

// huber is the square of small errors, and in proportion to large ones.
func huber(r float64) float64 {
	if r = math.Abs(r); r > robust {
		return robust * (2*r - robust)
	}
	return r * r
}

// fittedWeights are the weights of the residuals, for the squares that huber is near r.
func (p *problem) fittedWeights(residuals []float64) []float64 {
	var all []float64
	for i, g := range p.fitted.groups {
		for j, t := range g.times {
			if p.fitted.moved[i][j] {
				r := math.Abs(residuals[len(all)])
				all = append(all, t.weight/p.weights*robust/max(r, robust))
			}
		}
	}
	return all
}
