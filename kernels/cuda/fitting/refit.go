package fitting

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

// passes is how often all models are fitted in turn. Models share times, and each pass starts from the
// others' last constants.
const passes = 2

// clockConstant is the models' name for the clock under load as a fraction of the highest one.
const clockConstant = "clock"

const digits = 4

// Comparison has the figures with start and fitted constants.
type Comparison struct{ Before, After Figures }

// Outcome is the result of fitting a model, on fitted and held-out shapes.
type Outcome struct {
	Name         string
	Fitted, Held Comparison
}

// Options select the models and limit the fit.
type Options struct {
	Models      []string // empty for all
	Evaluations int      // at most, for each model
}

// Result is a card's new constants and their quality.
type Result struct {
	Start, Card *calibration.Card
	Models      []Outcome // fitted models, sorted by name
	Choices     []Outcome // of auto, among all families of an operation
	Kept        []string  // models that keep their constants
	// Fitted and Held are the losses of auto's picks in fitted and held-out products.
	Fitted, Held []Picks
}

// Refit fits the requested models, starting at start. If the clock was recorded with the times, it determines
// the models' clock under load, which is then not fitted.
func Refit(s *Samples, start *calibration.Card, o Options) (*Result, error) {
	r := &Result{Start: start, Card: start.Clone()}
	fitted := map[string]*problem{}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(start.Models)), func(name string) bool {
		return len(o.Models) > 0 && !slices.Contains(o.Models, name)
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
			if share(o.Evaluations, pass) < 1 {
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
			if err := p.solve(r.Card, share(o.Evaluations, pass)); err != nil {
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
		one := Outcome{Name: name}
		before, err := s.expected(p.touched.groups, start)
		if err != nil {
			return nil, err
		}
		after, err := s.expected(p.touched.groups, r.Card)
		if err != nil {
			return nil, err
		}
		on := p.touched
		one.Fitted = Comparison{assess(on.groups, before, on.moved, false), assess(on.groups, after, on.moved, false)}
		one.Held = Comparison{assess(on.groups, before, on.moved, true), assess(on.groups, after, on.moved, true)}
		r.Models = append(r.Models, one)
	}
	return r, r.choose(s)
}

func share(evaluations, pass int) int { return (evaluations + passes - 1 - pass) / passes }

func (r *Result) choose(s *Samples) error {
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
		if o == kernels.GEMM {
			r.Fitted, r.Held = picks(all, started, refitted, false), picks(all, started, refitted, true)
		}
		r.Choices = append(r.Choices, Outcome{
			Name:   "auto, " + o.String(),
			Fitted: Comparison{assess(all, started, nil, false), assess(all, refitted, nil, false)},
			Held:   Comparison{assess(all, started, nil, true), assess(all, refitted, nil, true)},
		})
	}
	return nil
}

// Describe sets the card's identity from the times, and each model's summary of its fit.
func (r *Result) Describe(on candidates.Card) {
	c := r.Card
	c.Format, c.Card, c.Capability, c.SMs, c.Bandwidth = calibration.Format, on.Card, on.Capability, on.SMs, on.Bandwidth
	c.Driver, c.Date = on.Driver, on.Date
	for _, o := range r.Models {
		m := c.Models[o.Name]
		m.FittedTo = o.String()
		c.Models[o.Name] = m
	}
	if r.Start.Card == on.Card {
		return
	}
	for _, name := range r.Kept {
		m := c.Models[name]
		m.FittedTo = fmt.Sprintf("not fitted on this card, as on %s: %s", r.Start.Card, m.FittedTo)
		c.Models[name] = m
	}
}

// String summarizes a model's fitted times.
func (o Outcome) String() string {
	f, h := o.Fitted.After, o.Held.After
	text := fmt.Sprintf("%d times of %d cases", f.Times, f.Cases)
	if f.Near == 0 {
		return text + ", none of them near the best"
	}
	text += fmt.Sprintf(": it meets those near the best within %s %% (root mean square), and what is picked by it is on average %s %% "+
		"slower than the fastest candidate measured", Percent(f.RMS), Percent(f.Mean))
	if h.Near > 0 {
		text += fmt.Sprintf("; for %d held-out cases %s %% and %s %%", h.Cases, Percent(h.RMS), Percent(h.Mean))
	}
	return text
}

// Percent formats a fraction as percent.
func Percent(x float64) string { return strconv.FormatFloat(100*x, 'f', 1, 64) }

func rounded(x float64) float64 {
	v, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', digits, 64), 64)
	if err != nil || math.IsInf(v, 0) {
		return x
	}
	return v
}
