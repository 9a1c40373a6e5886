// Package calibrate fits the constants of the models by which kernels are planned to the card at hand, in
// seconds: it times few products that tell each constant, times again what the fit would pick, and checks the
// constants on other products, beside those that were in force. It needs no GPU: a card is an interface.
package calibrate

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/fitting"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Card is what is calibrated.
type Card interface {
	// CardFacts describes the card; date is that of the day.
	CardFacts(date string) candidates.Card
	// MeasureDirectly measures what needs no model, in about so many seconds.
	MeasureDirectly(ctx context.Context, seconds float64) (Direct, error)
	// TimePlans times plans of a case in so many interleaved rounds.
	TimePlans(ctx context.Context, c candidates.Case, picks Picks, rounds int, seed uint64) ([]candidates.Time, error)
}

// Direct is what was measured without a model; zero where the card does not tell.
type Direct struct {
	ClockMHz  float64 `json:"clock_mhz"`  // while tensor cores are busy
	Launch    float64 `json:"launch"`     // seconds of a launch that does next to nothing
	Bandwidth float64 `json:"bandwidth"`  // bytes a second that are read of memory
	L2        float64 `json:"l2_b_cycle"` // bytes a cycle that L2 gives each multiprocessor
}

// Options are how a card is calibrated.
type Options struct {
	Limit   time.Duration // of all of it; see [Limit]
	Seed    uint64
	Program string // the version that is kept with the constants
	Now     func() time.Time
	// Progress receives what is done: a phase, or one case of a phase. It may be nil.
	Progress func(what string, oneCase bool)
}

// Limit is how long a calibration takes unless another limit is asked for.
const Limit = 20 * time.Second

// When phases end at the latest, as parts of the limit. A card that is faster leaves time over.
const (
	directEnd  = 0.10
	timedEnd   = 0.40
	fittedEnd  = 0.55
	againEnd   = 0.66
	refitEnd   = 0.80
	checkedEnd = 0.97
)

const (
	rounds      = 5
	checkRounds = 9
	evaluations = 160 // of a model in each fit, at most
	againPlans  = 4   // of a family for a case, that the first fit would pick
	// pull is stronger than where a card is fitted to minutes of times: what ships rests on many more than these.
	pull = 10
)

// leastCases is how many cases the fit needs at least.
const leastCases = 8

// bench is a calibration in progress.
type bench struct {
	card  Card
	on    candidates.Card
	arch  planning.Arch
	o     Options
	begun time.Time

	times []candidates.Time
	done  []candidates.Case // that were timed
	timed map[candidates.Case]Picks
}

// left is how long it is to the end of a part of the limit, past whether that is over.
func (b *bench) left(part float64) time.Duration {
	return time.Duration(part*float64(b.o.Limit)) - b.o.Now().Sub(b.begun)
}
func (b *bench) past(part float64) bool { return b.left(part) < 0 }

func (b *bench) tell(format string, args ...any) {
	if b.o.Progress != nil {
		b.o.Progress(fmt.Sprintf(format, args...), false)
	}
}

// Run calibrates a card. The constants of the result are not in force yet.
func Run(ctx context.Context, card Card, o Options) (*Result, error) {
	b := &bench{card: card, o: o, begun: o.Now(), timed: map[candidates.Case]Picks{}}
	b.on = card.CardFacts(b.begun.UTC().Format(time.DateOnly))
	b.arch = b.on.Arch()
	near, err := calibration.Nearest(b.arch.CC, b.arch.SMs, b.arch.Bandwidth)
	if err != nil {
		return nil, err
	}
	inForce, measured, err := calibration.InForce(b.arch.CC, b.arch.SMs, b.arch.Bandwidth)
	if err != nil {
		return nil, err
	}
	r := &Result{On: b.on, Near: near, Before: inForce, BeforeMeasured: measured}
	b.tell("clock, memory, L2 and launches")
	if r.Direct, err = card.MeasureDirectly(ctx, directEnd*o.Limit.Seconds()); err != nil {
		return nil, err
	}
	if err := b.time(ctx, inForce); err != nil {
		return nil, err
	}
	measuredNear := r.Direct.on(near, b.arch)
	origin := near
	if near.Card != b.on.Card {
		origin = near.Clone()
		origin.Models["common"] = measuredNear.Clone().Models["common"]
		origin.Models["common"].Constants["l2"] = near.Models["common"].Constants["l2"] // means what tensor memory copies reach
	}
	fitted, err := b.fit(origin, fittedEnd, inForce, measuredNear)
	if err != nil {
		return nil, err
	}
	if err := b.timeAgain(ctx, fitted.Card); err != nil {
		return nil, err
	}
	if fitted, err = b.fit(origin, refitEnd, fitted.Card, inForce); err != nil {
		return nil, err
	}
	r.Cases, r.Times = len(b.done), len(b.times)
	r.take(fitted, o.Program)
	if err := b.check(ctx, r); err != nil {
		return nil, err
	}
	r.All = b.times
	r.decide()
	r.Seconds = o.Now().Sub(b.begun).Seconds()
	return r, nil
}

// on is a card with what was measured in the place of its constants of the same meaning, as far as that can be.
func (d Direct) on(like *calibration.Card, a planning.Arch) *calibration.Card {
	c := like.Clone()
	set := func(model, constant string, value float64) {
		q := c.Models[model].Constants[constant]
		if old := q.Value; value > old/4 && value < 4*old {
			q.Value = value
			c.Models[model].Constants[constant] = q
		}
	}
	set("common", "launch", d.Launch)
	set("common", "l2", d.L2)
	if a.Bandwidth > 0 {
		set("common", "memory", d.Bandwidth/a.Bandwidth)
	}
	for _, model := range slices.Sorted(maps.Keys(c.Models)) {
		if _, ok := c.Models[model].Constants["clock"]; ok && a.ClockMHz > 0 {
			set(model, "clock", d.ClockMHz/a.ClockMHz)
		}
	}
	return c
}

// time times the first plans of each case, as long as there is time.
func (b *bench) time(ctx context.Context, by *calibration.Card) error {
	rng := rand.New(rand.NewPCG(b.o.Seed, picksStream))
	cases := Fitted(b.arch, b.o.Seed)
	for i, c := range cases {
		if len(b.done) >= leastCases && b.past(timedEnd) {
			break
		}
		if b.o.Progress != nil {
			b.o.Progress(fmt.Sprintf("%d of %d: %v", i+1, len(cases), c), true)
		}
		all, err := expect(b.arch, c, by)
		if err != nil {
			return err
		}
		if err := b.timePlans(ctx, c, choose(c, all, rng)); err != nil {
			return err
		}
	}
	if len(b.done) == 0 {
		return fmt.Errorf("no kernel that is planned by constants runs on %s", b.on.Card)
	}
	return nil
}

// timePlans times plans of a case and remembers that.
func (b *bench) timePlans(ctx context.Context, c candidates.Case, picks Picks) error {
	if picks.count() == 0 {
		return nil
	}
	times, err := b.card.TimePlans(ctx, c, picks, rounds, b.o.Seed)
	if err != nil {
		return err
	}
	b.times = append(b.times, times...)
	if b.timed[c] == nil {
		b.timed[c] = Picks{}
		b.done = append(b.done, c)
	}
	for family, indices := range picks {
		b.timed[c][family] = append(b.timed[c][family], indices...)
	}
	return nil
}

// timeAgain times the plans that new constants would pick and that were not timed: what a model is wrong about
// it picks.
func (b *bench) timeAgain(ctx context.Context, by *calibration.Card) error {
	b.tell("what the fit would pick")
	for _, c := range slices.Clone(b.done) {
		if b.past(againEnd) {
			return nil
		}
		all, err := expect(b.arch, c, by)
		if err != nil {
			return err
		}
		picks := Picks{}
		for _, plans := range all {
			picks.add(plans[:min(againPlans, len(plans))]...)
		}
		if err := b.timePlans(ctx, c, picks.without(b.timed[c])); err != nil {
			return err
		}
	}
	return nil
}

// fit fits constants to all that was timed, beginning at those of origin or of other cards.
func (b *bench) fit(origin *calibration.Card, end float64, others ...*calibration.Card) (*fitting.Result, error) {
	b.tell("fit to %d times of %d cases", len(b.times), len(b.done))
	s, err := fitting.NewSamples(b.arch, b.times)
	if err != nil {
		return nil, err
	}
	s.Sparse()
	return fitting.Refit(s, origin, fitting.Options{Evaluations: evaluations, Also: others, Pull: pull, Left: func() time.Duration { return b.left(end) }})
}
