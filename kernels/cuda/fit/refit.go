package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
)

// passes is how often all models are fitted in turn: some share times, each of which begins
// where the last pass left the others.
const passes = 2

// digits is how many of a constant are kept.
const digits = 4

// comparison is figures with the constants of the start and with those fitted.
type comparison struct{ before, after figures }

// outcome is what fitting a model gave.
type outcome struct {
	name         string
	fitted, held comparison
}

// result is a card's new constants and how good they are.
type result struct {
	start, card *calibration.Card
	models      []outcome // that were fitted, by name
	choices     []outcome // of auto, among all families of an operation
	kept        []string  // models that stay as they are
}

// refit fits the models that are asked for, beginning at start.
func refit(s *samples, start *calibration.Card, o options) (*result, error) {
	r := &result{start: start, card: start.Clone()}
	fitted := map[string]*problem{}
	for pass := range passes {
		for _, name := range slices.Sorted(maps.Keys(start.Models)) {
			if len(o.models) > 0 && !slices.Contains(o.models, name) {
				continue
			}
			p, err := newProblem(s, name, r.card, start, share(o.evaluations, pass))
			if err != nil {
				return nil, err
			}
			if p == nil || p.left < 1 {
				continue
			}
			if err := p.solve(); err != nil {
				return nil, err
			}
			r.card = p.at(p.best)
			fitted[name] = p
		}
	}
	for name, m := range r.card.Models {
		if fitted[name] == nil {
			r.kept = append(r.kept, name)
			continue
		}
		for constant, q := range m.Constants {
			q.Value = rounded(q.Value)
			m.Constants[constant] = q
		}
	}
	slices.Sort(r.kept)
	for _, name := range slices.Sorted(maps.Keys(fitted)) {
		p := fitted[name]
		one := outcome{name: name}
		before, err := s.expected(p.touched.groups, start)
		if err != nil {
			return nil, err
		}
		after, err := s.expected(p.touched.groups, r.card)
		if err != nil {
			return nil, err
		}
		on := p.touched
		one.fitted = comparison{assess(on.groups, before, on.moved, false), assess(on.groups, after, on.moved, false)}
		one.held = comparison{assess(on.groups, before, on.moved, true), assess(on.groups, after, on.moved, true)}
		r.models = append(r.models, one)
	}
	return r, r.choose(s)
}

// share is the part of the evaluations that a pass gets.
func share(evaluations, pass int) int { return (evaluations + passes - 1 - pass) / passes }

// choose tells what auto picks among all families.
func (r *result) choose(s *samples) error {
	for _, o := range kernels.Operations() {
		var groups []*group
		for _, g := range s.groups {
			if g.c.Operation == o {
				groups = append(groups, g)
			}
		}
		if len(groups) == 0 {
			continue
		}
		before, err := s.expected(groups, r.start)
		if err != nil {
			return err
		}
		after, err := s.expected(groups, r.card)
		if err != nil {
			return err
		}
		all, started := joined(groups, before)
		_, refitted := joined(groups, after)
		r.choices = append(r.choices, outcome{
			name:   "auto, " + o.String(),
			fitted: comparison{assess(all, started, nil, false), assess(all, refitted, nil, false)},
			held:   comparison{assess(all, started, nil, true), assess(all, refitted, nil, true)},
		})
	}
	return nil
}

// describe makes the card that of the times, and says what its models were fitted to.
func (r *result) describe(on candidates.Card) {
	c := r.card
	c.Format, c.Card, c.Capability, c.SMs, c.Bandwidth = calibration.Format, on.Card, on.Capability, on.SMs, on.Bandwidth
	c.Driver, c.Date = on.Driver, on.Date
	for _, o := range r.models {
		m := c.Models[o.name]
		m.FittedTo = o.String()
		c.Models[o.name] = m
	}
	if r.start.Card == on.Card {
		return
	}
	for _, name := range r.kept {
		m := c.Models[name]
		m.FittedTo = fmt.Sprintf("not fitted on this card, as on %s: %s", r.start.Card, m.FittedTo)
		c.Models[name] = m
	}
}

// String says what a model was fitted to.
func (o outcome) String() string {
	f, h := o.fitted.after, o.held.after
	text := fmt.Sprintf("%d times of %d cases", f.times, f.cases)
	if f.near == 0 {
		return text + ", none of them near the best"
	}
	text += fmt.Sprintf(": it meets those near the best within %s %% (root mean square), and what is picked by it is on average %s %% slower than the fastest candidate measured", percent(f.rms), percent(f.mean))
	if h.near > 0 {
		text += fmt.Sprintf("; for %d further cases, to which it was not fitted, %s %% and %s %%", h.cases, percent(h.rms), percent(h.mean))
	}
	return text
}

// percent prints a part of 1 in hundredths.
func percent(x float64) string { return strconv.FormatFloat(100*x, 'f', 1, 64) }

// rounded keeps the leading digits of a positive number.
func rounded(x float64) float64 {
	v, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', digits, 64), 64)
	if err != nil || math.IsInf(v, 0) {
		return x
	}
	return v
}
