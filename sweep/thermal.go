package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// Under a power limit the clock of a device follows what has run in the milliseconds
// before. A few cases measured again on their own draw another power than a sweep over
// all of them, and run at another clock: 1786 MHz where the sweep was at 1432 MHz. So
// blocks of other cases, the fillers, are run between the measured ones.
const (
	// thermalBand is how far the clock may be from the sweep's, as a share, before
	// fillers are chosen by what they draw. It is what the governor of a card wanders
	// by within some tens of blocks.
	thermalBand = 0.015
	// thermalMemory is how long what a block drew is felt, in seconds: half of the
	// autocorrelation of the clock is gone after 5 ms.
	thermalMemory = 10e-3
	// extraFill bounds the fillers before a measured block that bring the clock back,
	// beyond the one that always runs.
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
	mhz     float64            // median of the sentinels in the sweep
	usual   map[string]float64 // median clock in the sweep by identity
	fillers []*filler
	src     *rand.PCG

	ready []*filler // whose operands are in memory, by rate
	order []*filler // of those the ones to come, shuffled
	ratio float64   // recent clock ÷ usual clock of what ran; 0 unknown
}

// newThermal learns the state of a sweep from its samples of one device. It is nil
// where the device told no clock or no power limit held it back.
func newThermal(cases []results.Case, sweep, sentinels []results.Sample, seed uint64) *thermal {
	of := make(map[int64][]results.Sample, len(cases))
	limited := 0
	for _, s := range sweep {
		of[s.CaseID] = append(of[s.CaseID], s)
		if strings.Contains(s.Throttle, kernels.PowerCap) {
			limited++
		}
	}
	if len(sweep) == 0 || float64(limited) < leastLimited*float64(len(sweep)) {
		return nil
	}
	t := &thermal{usual: map[string]float64{}, src: source(seed, streamFillers)}
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
		f.rate = c.Shape().FLOPs() / f.last.US
		t.usual[identity(c)] = mhz
		t.fillers = append(t.fillers, f)
	}
	if len(t.fillers) == 0 {
		return nil
	}
	slices.SortStableFunc(t.fillers, func(a, b *filler) int { return cmp.Compare(a.rate, b.rate) })
	return t
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
	usual := t.usual[identity(c)]
	if usual == 0 {
		usual = t.mhz // a split or padded: as good a guess as any
	}
	if span.ClockMHz <= 0 || usual <= 0 {
		return
	}
	now, weight := span.ClockMHz/usual, 1-math.Exp(-span.Seconds/thermalMemory)
	if t.ratio == 0 {
		weight = 1
	}
	t.ratio += weight * (now - t.ratio)
}

// settled says whether the clock is that of the sweep.
func (t *thermal) settled() bool { return math.Abs(t.ratio-1) <= thermalBand }

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
		if lost(err) || errors.Is(err, errHalted) {
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

// fill runs a filler and returns how long it took. One that fails is not run again.
func (l *lab) fill(ctx context.Context, f *filler) (time.Duration, error) {
	s := l.station(f.c)
	if s.perBlock == 0 {
		s.learn(f.last.US/1e6, f.last.Launches)
	}
	span, err := l.block(ctx, s, s.perBlock)
	if lost(err) || errors.Is(err, errHalted) {
		return 0, err
	}
	if err != nil {
		l.thermal.drop(f)
		return 0, nil
	}
	l.thermal.saw(f.c, span)
	return time.Duration(span.Seconds * 1e9), nil
}

// keepWarm runs what belongs before a measured block: one filler, and while the clock
// is not the sweep's, a few that bring it back.
func (l *lab) keepWarm(ctx context.Context) error {
	t := l.thermal
	var extra time.Duration
	for first := true; t != nil && len(t.ready) > 0 && (first || !t.settled() && extra < extraFill); first = false {
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
		ran += max(took, time.Microsecond) // fillers that fail end too
	}
	if len(t.ready) > 0 && !t.settled() {
		note = fmt.Sprintf("the clock is %+.1f %% from that of the sweep after %v of its cases", 100*(t.ratio-1), ran.Round(time.Millisecond))
	}
	return note, nil
}
