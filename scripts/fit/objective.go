package main

import (
	"maps"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
)

// The objective is the mean robust square of log-time errors, plus the mean regret, plus a pull toward the
// start. Half of the regret is within the family, half among all families. The pull keeps constants that
// hardly affect the times.
const (
	// robust is the error beyond which errors count linearly, because models are inexact.
	robust = 0.1
	// regretWeight makes a regret of 1 % equivalent to an error of 10 %.
	regretWeight = 1
	pullWeight   = 3e-4
)

type problem struct {
	samples   *samples
	model     string
	card      *calibration.Card // start of the fit and all other models; never changed
	constants []string          // that move something
	touched   touched           // by the constants
	fitted    touched           // groups that are not held out
	rivals    []rival           // of each fitted group
	weights   float64           // sum over fitted times
	start     []float64         // logarithms of the constants
	origin    []float64         // target of the pull
	best      []float64         // of all evaluated points
	least     float64           // the objective there
	left      int               // evaluations
}

type touched struct {
	groups []*group
	moved  [][]bool // the dependent times of each group
}

func (t *touched) add(g *group, moved []bool) {
	t.groups, t.moved = append(t.groups, g), append(t.moved, moved)
}

// sway is the factor, in both directions, that shows which times depend on a constant.
const sway = 1.3

// newProblem finds the times that depend on a model's constants, starting at card and pulled toward origin.
// It returns nil if no fitted time depends on any.
func newProblem(s *samples, model string, card, origin *calibration.Card) (*problem, error) {
	p := &problem{samples: s, model: model, card: card}
	all := slices.Sorted(maps.Keys(card.Models[model].Constants))
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
	for i, g := range p.fitted.groups {
		for j, t := range g.times {
			if p.fitted.moved[i][j] {
				p.weights += t.weight
			}
		}
	}
	return p, nil
}

func (p *problem) logs(c *calibration.Card) []float64 {
	var x []float64
	for _, name := range p.constants {
		x = append(x, math.Log(c.Models[p.model].Constants[name].Value))
	}
	return x
}

// moved marks the times whose expectation changes with the model's constants. Several constants change by
// different ratios, because some matter only relative to others. before is the expectation with card's
// constants.
func (s *samples) moved(groups []*group, before []expectation, card *calibration.Card, model string,
	constants ...string) ([][]bool, error) {
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

func scale(c *calibration.Card, model, constant string, by float64) {
	q := c.Models[model].Constants[constant]
	q.Value *= by
	c.Models[model].Constants[constant] = q
}

func (p *problem) at(x []float64) *calibration.Card {
	c := p.card.Clone()
	for i, name := range p.constants {
		q := c.Models[p.model].Constants[name]
		q.Value = math.Exp(x[i])
		c.Models[p.model].Constants[name] = q
	}
	return c
}

type point struct {
	x         []float64
	residuals []float64 // expected less measured, for fitted times
	smooth    float64   // the objective without regret
	objective float64
}

// farthest is the maximum factor from the pull's target. Real constants are closer, and it stops constants
// without effect from drifting.
const farthest = 10

func (p *problem) evaluate(x []float64) (point, error) {
	p.left--
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
		at.smooth += pullWeight * (x[i] - p.origin[i]) * (x[i] - p.origin[i])
	}
	at.objective = at.smooth + regretWeight*regret/float64(len(groups))
	if at.objective < p.least {
		p.best, p.least = slices.Clone(x), at.objective
	}
	return at, nil
}

// huber is quadratic for small errors and linear for large ones.
func huber(r float64) float64 {
	if r = math.Abs(r); r > robust {
		return robust * (2*r - robust)
	}
	return r * r
}

// fittedWeights returns weights that make squares approximate huber near the residuals.
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
