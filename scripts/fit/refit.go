package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
)

// passes is how often all models are fitted in turn. Models share times, and each pass starts from the
// others' last constants.
const passes = 2

// clockConstant is the models' name for the clock under load as a fraction of the highest one.
const clockConstant = "clock"

const digits = 4

// comparison has the figures with start and fitted constants.
type comparison struct{ Before, After figures }

// outcome is the result of fitting a model, on fitted and held-out shapes.
type outcome struct {
	Name         string
	Fitted, Held comparison
}

// result is a card's new constants and their quality.
type result struct {
	Start, Card *calibration.Card
	Models      []outcome // fitted models, sorted by name
	Choices     []outcome // of auto, among all families of an operation
	Kept        []string  // models that keep their constants
}

// refit fits the named models, or all, starting at start, with at most so many evaluations for each. If the
// clock was recorded with the times, it determines the models' clock under load, which is then not fitted.
func refit(s *samples, start *calibration.Card, models []string, evaluations int) (*result, error) {
	r := &result{Start: start, Card: start.Clone()}
	fitted := map[string]*problem{}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(start.Models)), func(name string) bool {
		return len(models) > 0 && !slices.Contains(models, name)
	})
	if clock := s.clock(); clock > 0 {
		for _, name := range names {
			if q, ok := r.Card.Models[name].Constants[clockConstant]; ok {
				q.Value = clock
				r.Card.Models[name].Constants[clockConstant] = q
			}
		}
	}
	for pass := range passes {
		for _, name := range names {
			if share(evaluations, pass) < 1 {
				continue
			}
			p, err := fitted[name], error(nil)
			if p == nil {
				p, err = newProblem(s, name, r.Card, start)
			}
			if err != nil {
				return nil, err
			}
			if p == nil {
				continue
			}
			if err := p.solve(r.Card, share(evaluations, pass)); err != nil {
				return nil, err
			}
			r.Card = p.at(p.best)
			fitted[name] = p
		}
	}
	for name, m := range r.Card.Models {
		if fitted[name] == nil {
			r.Kept = append(r.Kept, name)
			continue
		}
		for constant, q := range m.Constants {
			q.Value = rounded(q.Value)
			m.Constants[constant] = q
		}
	}
	slices.Sort(r.Kept)
	for _, name := range slices.Sorted(maps.Keys(fitted)) {
		p := fitted[name]
		one := outcome{Name: name}
		before, err := s.expected(p.touched.groups, start)
		if err != nil {
			return nil, err
		}
		after, err := s.expected(p.touched.groups, r.Card)
		if err != nil {
			return nil, err
		}
		on := p.touched
		one.Fitted = comparison{assess(on.groups, before, on.moved, false), assess(on.groups, after, on.moved, false)}
		one.Held = comparison{assess(on.groups, before, on.moved, true), assess(on.groups, after, on.moved, true)}
		r.Models = append(r.Models, one)
	}
	return r, r.choose(s)
}

func share(evaluations, pass int) int { return (evaluations + passes - 1 - pass) / passes }

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
		before, err := s.expected(groups, r.Start)
		if err != nil {
			return err
		}
		after, err := s.expected(groups, r.Card)
		if err != nil {
			return err
		}
		all, started := joined(groups, before)
		_, refitted := joined(groups, after)
		r.Choices = append(r.Choices, outcome{
			Name:   "auto, " + o.String(),
			Fitted: comparison{assess(all, started, nil, false), assess(all, refitted, nil, false)},
			Held:   comparison{assess(all, started, nil, true), assess(all, refitted, nil, true)},
		})
	}
	return nil
}

// describe sets the card's identity from the times, and each model's summary of its fit.
func (r *result) describe(on gpu) {
	c := r.Card
	c.Format, c.Card, c.Capability, c.SMs, c.Bandwidth = calibration.Format, on.name, on.arch.CC, on.arch.SMs, on.arch.Bandwidth
	c.Driver, c.Date = on.driver, on.date
	for _, o := range r.Models {
		m := c.Models[o.Name]
		m.FittedTo = o.String()
		c.Models[o.Name] = m
	}
	if r.Start.Card == on.name {
		return
	}
	for _, name := range r.Kept {
		m := c.Models[name]
		m.FittedTo = fmt.Sprintf("not fitted on this card, as on %s: %s", r.Start.Card, m.FittedTo)
		c.Models[name] = m
	}
}

// String summarizes a model's fitted times.
func (o outcome) String() string {
	f, h := o.Fitted.After, o.Held.After
	text := fmt.Sprintf("%d times of %d cases", f.Times, f.Cases)
	if f.Near == 0 {
		return text + ", none of them near the best"
	}
	text += fmt.Sprintf(": it meets those near the best within %s %% (root mean square), and what is picked by it is on average %s %% "+
		"slower than the fastest candidate measured", percent(f.RMS), percent(f.Mean))
	if h.Near > 0 {
		text += fmt.Sprintf("; for %d held-out cases %s %% and %s %%", h.Cases, percent(h.RMS), percent(h.Mean))
	}
	return text
}

// percent formats a fraction as percent.
func percent(x float64) string { return strconv.FormatFloat(100*x, 'f', 1, 64) }

func rounded(x float64) float64 {
	v, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', digits, 64), 64)
	if err != nil || math.IsInf(v, 0) {
		return x
	}
	return v
}
