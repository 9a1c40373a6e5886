package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// Under a power limit the clock of a device follows what has run in the milliseconds
// before. A few cases measured again on their own draw another power than a sweep over
// all of them, and run at another clock: 1786 MHz where the sweep was at 1432 MHz. Then
// blocks of other cases, the fillers, are run between the measured ones. Many cases are a
// mixture that holds the device at its limit by itself, and fillers would only take time.
const (
	// thermalBand is how far the clock may be from the sweep's, as a share, once what the
	// governor of a card wanders by from block to block is averaged out.
	thermalBand = 0.015
	// wanderShare is the share of the sweep's blocks in which the clock lately was nearer
	// to its usual value than what counts as off at once.
	wanderShare = 0.995
	// thermalMemory is how long what a block drew is felt, in seconds: half of the
	// autocorrelation of the clock is gone after 5 ms. thermalTrend is the time over
	// which its wandering, by 4 % from block to block, averages out to half of thermalBand.
	thermalMemory = 10e-3
	thermalTrend  = 300e-3
	// leastMixture is how many cases are taken for a mixture like the sweep until their
	// clocks say otherwise. Between fewer, fillers always run: the clock of so few blocks
	// tells too late that it is off.
	leastMixture = 24
	// Fillers run between leastSpell measured blocks once the clock is off. Every time
	// that it is off again soon after, the spell is twice as long, up to mostSpell: what is
	// measured does not hold the clock.
	leastSpell = 16
	mostSpell  = 1024
	// extraFill bounds the fillers before a measured block that bring the clock back,
	// beyond the first.
	extraFill = 4 * time.Millisecond
	// restRepaid is the longest run of fillers that makes up for a rest: after that
	// long under load, what is left of a rest is in the temperature, not in the clock.
	restRepaid = 500 * time.Millisecond
	// restForgiven is a rest that needs no fillers: what lies between two calls when
	// the caller only decides what comes next.
	restForgiven = 20 * time.Millisecond
	// leastLimited is the share of a sweep's samples that a power limit must have held
	// back for the sweep to have been in that state.
	leastLimited = 0.05
	// drawShare is the share of the fillers that count as those that draw most, and
	// as those that draw least.
	drawShare = 0.1
)

// filler is a case of the sweep that runs between measured blocks.
type filler struct {
	c    results.Case
	last results.Sample // of the sweep: how many launches a block had, and of how long
	mhz  float64        // median clock in the sweep
	rate float64        // of arithmetic, operations a microsecond
}

// thermal keeps a device in the state in which the sweep ran. What a case draws is
// judged by its arithmetic rate: power meters average over up to a second, which is
// hundreds of blocks.
type thermal struct {
	mhz     float64                     // median of the sentinels in the sweep
	usual   map[results.CaseKey]float64 // median clock in the sweep
	fillers []*filler
	src     *rand.PCG

	ready []*filler // whose operands are in memory, by rate
	order []*filler // of those the ones to come, shuffled
	ratio float64   // recent clock ÷ usual clock of what ran; 0 unknown
	trend float64   // that over a longer time

	// Of the sweep: the mean of what trend follows, and how far from it ratio was in all
	// but the rarest blocks.
	level, wander float64
	few           bool // fewer cases are measured than make a mixture
	spell         int  // how many measured blocks have fillers once the clock is off
	left          int  // of the spell in progress, 0 for none
	quiet         int  // measured blocks since the last spell
}

// newThermal learns the state of a sweep from its samples of one device. It is nil
// where the device told no clock or no power limit held it back.
func newThermal(cases []results.Case, sweep, sentinels []results.Sample, seed uint64) *thermal {
	of := make(map[int64][]results.Sample, len(cases))
	limited := 0
	for _, s := range sweep {
		of[s.CaseID] = append(of[s.CaseID], s)
		if s.Throttle.Has(kernels.PowerCap) {
			limited++
		}
	}
	if len(sweep) == 0 || float64(limited) < leastLimited*float64(len(sweep)) {
		return nil
	}
	t := &thermal{usual: map[results.CaseKey]float64{}, src: source(seed, streamFillers), spell: leastSpell, quiet: math.MaxInt32}
	if t.mhz = medianClock(sentinels); t.mhz == 0 {
		t.mhz = medianClock(sweep)
	}
	for _, c := range cases {
		samples := of[c.ID]
		mhz := medianClock(samples)
		if mhz == 0 || len(c.Parts) > 0 || c.PadTo > 0 {
			continue
		}
		f := &filler{c: c, last: samples[len(samples)-1], mhz: mhz}
		f.rate = c.FLOPs() / f.last.US
		t.usual[c.Key()] = mhz
		t.fillers = append(t.fillers, f)
	}
	if len(t.fillers) == 0 {
		return nil
	}
	slices.SortStableFunc(t.fillers, func(a, b *filler) int { return cmp.Compare(a.rate, b.rate) })
	t.learnWander(cases, sweep)
	return t
}

// learnWander follows the clock through the sweep as it is followed when cases are measured
// again.
func (t *thermal) learnWander(cases []results.Case, sweep []results.Sample) {
	usual := make(map[int64]float64, len(cases))
	for _, c := range cases {
		usual[c.ID] = t.usual[c.Key()]
	}
	var ratios []float64
	var sum, all float64
	for _, s := range sweep {
		if mhz := usual[s.CaseID]; s.ClockMHz > 0 && mhz > 0 {
			seconds := s.US / 1e6 * float64(s.Launches)
			t.follow(s.ClockMHz/mhz, seconds)
			ratios = append(ratios, t.ratio)
			sum, all = sum+seconds*s.ClockMHz/mhz, all+seconds
		}
	}
	t.level = sum / all
	for i, r := range ratios {
		ratios[i] = math.Abs(r - t.level)
	}
	slices.Sort(ratios)
	t.wander = max(2*thermalBand, ratios[int(wanderShare*float64(len(ratios)-1))])
	t.ratio, t.trend = 0, t.level
}

// medianClock is the median clock of the samples that tell one, else 0.
func medianClock(samples []results.Sample) float64 {
	var mhz []float64
	for _, s := range samples {
		if s.ClockMHz > 0 {
			mhz = append(mhz, s.ClockMHz)
		}
	}
	if len(mhz) == 0 {
		return 0
	}
	return median(mhz)
}

// saw takes a block into account.
func (t *thermal) saw(c results.Case, span kernels.Span) {
	usual := t.usual[c.Key()]
	if usual == 0 {
		usual = t.mhz // a split or padded: as good a guess as any
	}
	if span.ClockMHz > 0 && usual > 0 {
		t.follow(span.ClockMHz/usual, span.Seconds)
	}
}

// follow takes in clock ÷ usual clock of a block of that many seconds.
func (t *thermal) follow(now, seconds float64) {
	if t.ratio == 0 {
		t.ratio = now
	}
	t.ratio += (1 - math.Exp(-seconds/thermalMemory)) * (now - t.ratio)
	t.trend += (1 - math.Exp(-seconds/thermalTrend)) * (now - t.trend)
}

// settled says whether the clock is that of the sweep.
func (t *thermal) settled() bool { return math.Abs(t.ratio-1) <= thermalBand }

// wanted says whether fillers belong before the next measured block.
func (t *thermal) wanted() bool {
	if t.few {
		return true
	}
	at := math.Abs(t.ratio-t.level) > t.wander
	switch {
	case t.left > 1:
		t.left--
	case t.left == 1 && at:
	case t.left == 1:
		t.left, t.trend = 0, t.level // what is measured gets another chance
	case at || math.Abs(t.trend-t.level) > thermalBand:
		if t.quiet < 4*t.spell {
			t.spell = min(2*t.spell, mostSpell)
		} else {
			t.spell = leastSpell
		}
		t.left, t.quiet = t.spell, 0
	default:
		t.quiet++
	}
	return t.left > 0
}

// next is the filler to run: any of the sweep, each as often as any other, or, to bring the
// clock back, one of those that draw most or least.
func (t *thermal) next(back bool) *filler {
	few := int(math.Ceil(drawShare * float64(len(t.ready))))
	switch {
	case back && t.ratio > 1+thermalBand:
		return t.ready[len(t.ready)-1-below(t.src, few)]
	case back && t.ratio > 0 && t.ratio < 1-thermalBand:
		return t.ready[below(t.src, few)]
	}
	if len(t.order) == 0 {
		t.order = slices.Clone(t.ready)
		shuffle(t.src, t.order)
	}
	f := t.order[len(t.order)-1]
	t.order = t.order[:len(t.order)-1]
	return f
}

// drop takes a filler out that fails.
func (t *thermal) drop(f *filler) {
	is := func(o *filler) bool { return o == f }
	t.ready, t.order = slices.DeleteFunc(t.ready, is), slices.DeleteFunc(t.order, is)
	t.fillers = slices.DeleteFunc(t.fillers, is)
}

// stock finds the fillers whose operands are in memory beside those of the cases to be
// measured. Weights of the sweep that are not there are loaded while there is room.
func (l *lab) stock(ctx context.Context, mine []results.Case) error {
	t := l.thermal
	if t == nil {
		return nil
	}
	all := make([]results.Case, len(t.fillers))
	for i, f := range t.fillers {
		all[i] = f.c
	}
	ds := demands(all, l.spec.LastLevelCacheBytes)
	fit(ds, l.budget)
	for _, d := range ds {
		if l.sets[d.key] != nil || l.used+d.bytes(d.copies) > l.budget {
			continue
		}
		// One that can't be had is no filler, and will say why as a case.
		if _, err := l.load(ctx, []demand{d}); err != nil {
			return err
		}
	}
	var ready []*filler
	operands := slices.Clone(mine)
	for _, f := range t.fillers {
		if l.admit(f.c) {
			ready, operands = append(ready, f), append(operands, f.c)
		}
	}
	if err := l.reserve(ctx, operands); err != nil {
		if deviceLost(err) || errors.Is(err, errHalted) {
			return err
		}
		if err := l.reserve(ctx, mine); err != nil {
			return err
		}
	}
	ready = slices.DeleteFunc(ready, func(f *filler) bool { return !l.holds(f.c) })
	t.ready, t.order = ready, nil
	return nil
}

// fill runs a filler and returns how long it is expected to take. One that fails is not run
// again.
func (l *lab) fill(ctx context.Context, f *filler) (time.Duration, error) {
	s := l.station(f.c)
	if s.perBlock == 0 {
		s.learn(f.last.US/1e6, f.last.Launches)
	}
	return time.Duration(s.seconds * float64(s.perBlock) * 1e9), l.begin(ctx, s, s.perBlock, false, func(_ time.Time, span kernels.Span, err error) error {
		if deviceLost(err) || errors.Is(err, errHalted) {
			return err
		}
		if err != nil {
			l.thermal.drop(f)
			return nil
		}
		l.thermal.saw(f.c, span)
		return nil
	})
}

// keepWarm runs what belongs before measured blocks that follow each other: nothing while the
// clock is the sweep's, else one filler, and a few that bring it back.
func (l *lab) keepWarm(ctx context.Context) error {
	t := l.thermal
	if t == nil || !t.wanted() {
		return nil
	}
	var extra time.Duration
	for first := true; len(t.ready) > 0 && (first || !t.settled() && extra < extraFill); first = false {
		took, err := l.fill(ctx, t.next(!first))
		if err != nil {
			return err
		}
		if !first {
			extra += took
		}
	}
	return nil
}

// warmToSweep brings a device that has rested back into the state of the sweep. It
// returns a note when that was not to be had within most.
func (l *lab) warmToSweep(ctx context.Context, most time.Duration, now func() time.Time) (note string, err error) {
	t := l.thermal
	if t == nil || len(t.ready) == 0 {
		return "", nil
	}
	least := restRepaid
	if began := now(); !l.idle.IsZero() {
		rest := began.Sub(l.idle)
		if rest <= restForgiven {
			return "", nil
		}
		least = min(least, rest)
	}
	var ran time.Duration
	for (ran < least || !t.settled()) && ran < max(most, least) && len(t.ready) > 0 {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		took, err := l.fill(ctx, t.next(ran >= least))
		if err != nil {
			return "", err
		}
		ran += took
	}
	if len(t.ready) > 0 && !t.settled() {
		note = fmt.Sprintf("the clock is %+.1f %% from that of the sweep after %v of its cases", 100*(t.ratio-1), ran.Round(time.Millisecond))
	}
	return note, nil
}
