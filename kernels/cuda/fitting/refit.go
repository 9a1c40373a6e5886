package fitting

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
)

// passes is how often all models are fitted in turn: some share times, each of which begins
// where the last pass left the others.
const passes = 2

// clockConstant is what models call the clock under load as a part of the highest one.
const clockConstant = "clock"

// digits is how many of a constant are kept.
const digits = 4

// Comparison is figures with the constants of the start and with those fitted.
type Comparison struct{ Before, After Figures }

// Outcome is what fitting a model gave, for what it was fitted to and for what was held out.
type Outcome struct {
	Name         string
	Fitted, Held Comparison
}

// Options are what is fitted, and how long.
type Options struct {
	Models      []string // empty for all
	Evaluations int      // of a model, at most
	// Also are cards at whose constants a model's fit begins where they meet the times better than those of
	// the start.
	Also []*calibration.Card
	// Pull is by how many times constants are pulled to those of the start more than usually; 0 is 1.
	Pull float64
	// Left is how much time there is left for the fit, of which each model gets an equal part; nil is any time.
	Left func() time.Duration
}

// turn is when a model's turn ends: after an equal part of the time for so many turns that are still to come. It is nil
// where there is any time.
func (o Options) turn(turns int) (ended func() bool) {
	if o.Left == nil {
		return nil
	}
	left := o.Left()
	end := left - left/time.Duration(max(1, turns))
	return func() bool { return o.Left() <= max(0, end) }
}

// Result is a card's new constants and how good they are.
type Result struct {
	Start, Card *calibration.Card
	Models      []Outcome // that were fitted, by name
	Choices     []Outcome // of auto, among all families of an operation
	Kept        []string  // models that stay as they are
	// Fitted and Held are what auto's picks cost in products that were fitted to and that were held out.
	Fitted, Held []Picks
}

// Refit fits the models that are asked for, beginning at start. Where the clock was recorded with the times, what they
// show of it is the models' clock under load, and nothing else changes that.
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
		for i, name := range names {
			ended := o.turn((passes-pass)*len(names) - i)
			if ended != nil && ended() || share(o.Evaluations, pass) < 1 {
				continue
			}
			p, err := fitted[name], error(nil)
			if p == nil {
				p, err = newProblem(s, name, r.Card, start, o)
			}
			if err != nil {
				return nil, err
			}
			if p == nil {
				continue
			}
			p.stop = ended
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

// share is the part of the evaluations that a pass gets.
func share(evaluations, pass int) int { return (evaluations + passes - 1 - pass) / passes }

// choose tells what auto picks among all families.
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

// Describe makes the card that of the times, and says what its models were fitted to.
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

// String says what a model was fitted to.
func (o Outcome) String() string {
	f, h := o.Fitted.After, o.Held.After
	text := fmt.Sprintf("%d times of %d cases", f.Times, f.Cases)
	if f.Near == 0 {
		return text + ", none of them near the best"
	}
	text += fmt.Sprintf(": it meets those near the best within %s %% (root mean square), and what is picked by it is on average %s %% slower than the fastest candidate measured", Percent(f.RMS), Percent(f.Mean))
	if h.Near > 0 {
		text += fmt.Sprintf("; for %d further cases, to which it was not fitted, %s %% and %s %%", h.Cases, Percent(h.RMS), Percent(h.Mean))
	}
	return text
}

// Percent prints a part of 1 in hundredths.
func Percent(x float64) string { return strconv.FormatFloat(100*x, 'f', 1, 64) }

// rounded keeps the leading digits of a positive number.
func rounded(x float64) float64 {
	v, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', digits, 64), 64)
	if err != nil || math.IsInf(v, 0) {
		return x
	}
	return v
}
