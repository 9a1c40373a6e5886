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
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Under a power limit the clock depends on the load of the preceding milliseconds. A few cases measured again
// ran at 1786 MHz instead of the sweep's 1432 MHz. Blocks of other cases, the fillers, then run between the
// measured ones. Many cases keep the device at its limit without fillers.
const (
	// thermalBand is the maximum deviation from the sweep's clock, as a share, after averaging out the
	// governor's variation.
	thermalBand = 0.015
	// In the share wanderShare of the sweep's blocks, the recent clock was within the limit that counts as
	// off at once.
	wanderShare = 0.995
	// thermalMemory is how long a block affects the clock, in seconds: its autocorrelation halves in 5 ms.
	// Over thermalTrend, the variation of 4 % averages out to half of thermalBand.
	thermalMemory = 10e-3
	thermalTrend  = 300e-3
	// leastMixture cases count as a mixture like the sweep until their clocks differ. With fewer, fillers
	// always run: so few blocks reveal a deviation too late.
	leastMixture = 24
	// Fillers run between leastSpell measured blocks after the clock deviates. If it soon deviates again, the
	// spell doubles, up to mostSpell.
	leastSpell = 16
	mostSpell  = 1024
	// extraFill limits the fillers beyond the first that restore the clock before a measured block.
	extraFill = 4 * time.Millisecond
	// After fillers of restRepaid, a rest affects only the temperature, not the clock.
	restRepaid = 500 * time.Millisecond
	// restForgiven needs no fillers: the gap while the caller picks the next case.
	restForgiven = 20 * time.Millisecond
	// A sweep counts as power-limited if at least the share leastLimited of its samples is at the limit.
	leastLimited = 0.05
	// drawShare is the share of fillers that count as drawing most, or least.
	drawShare = 0.1
)

type filler struct {
	c    results.Case
	last results.Sample // of the sweep, with the block's launches and their time
	mhz  float64
	rate float64 // of arithmetic, in operations per microsecond
}

// thermal keeps a device in the sweep's thermal state. It judges a case's power by its arithmetic rate, since
// power meters average over hundreds of blocks.
type thermal struct {
	mhz     float64 // median of the sentinels in the sweep
	usual   map[results.CaseKey]float64
	fillers []*filler
	src     *rand.PCG

	ready []*filler
	order []*filler
	ratio float64 // recent clock ÷ usual clock of what ran; 0 unknown
	trend float64 // ratio over a longer time

	// Of the sweep: the mean of trend, and the maximum deviation of ratio from it in all but the rarest
	// blocks.
	level, wander float64
	few           bool // fewer cases are measured than make a mixture
	spell         int  // measured blocks with fillers after the clock deviates
	left          int
	quiet         int // measured blocks since the last spell
}

// newThermal returns nil if the device reported no clock or no power limit held it back.
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

// learnWander filters the sweep's clock like the clock of later measurements.
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

// medianClock is the median clock of the samples that have one, else 0.
func medianClock(samples []results.Sample) float64 {
	var mhz []float64
	for _, s := range samples {
		if s.ClockMHz > 0 {
			mhz = append(mhz, s.ClockMHz)
		}
	}
	return stats.Median(mhz)
}

func (t *thermal) saw(c results.Case, span kernels.Span) {
	usual := t.usual[c.Key()]
	if usual == 0 {
		usual = t.mhz // a split or padded product: use the sentinels' clock
	}
	if span.ClockMHz > 0 && usual > 0 {
		t.follow(span.ClockMHz/usual, span.Seconds)
	}
}

// follow filters in clock ÷ usual clock of a block of that many seconds.
func (t *thermal) follow(now, seconds float64) {
	if t.ratio == 0 {
		t.ratio = now
	}
	t.ratio += (1 - math.Exp(-seconds/thermalMemory)) * (now - t.ratio)
	t.trend += (1 - math.Exp(-seconds/thermalTrend)) * (now - t.trend)
}

func (t *thermal) settled() bool { return math.Abs(t.ratio-1) <= thermalBand }

// wanted reports whether to run fillers before the next measured block.
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
		t.left, t.trend = 0, t.level // the measured cases get another chance
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

// next uses all fillers equally often, except with back: then it picks one that draws most or least, to
// restore the clock.
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

func (t *thermal) drop(f *filler) {
	is := func(o *filler) bool { return o == f }
	t.ready, t.order = slices.DeleteFunc(t.ready, is), slices.DeleteFunc(t.order, is)
	t.fillers = slices.DeleteFunc(t.fillers, is)
}

// stock collects the fillers in memory, and loads further weights of the sweep while there is room.
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
		// A case whose weights can't be loaded is no filler; its own measurement reports the error.
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

// fill returns the filler's expected time. A filler that fails is not run again.
func (l *lab) fill(ctx context.Context, f *filler) (time.Duration, error) {
	s := l.station(f.c)
	if s.perBlock == 0 {
		s.learn(f.last.US/1e6, f.last.Launches)
	}
	if !l.compiled(s) {
		if err := l.compile(ctx, s); err != nil {
			if deviceLost(err) || errors.Is(err, errHalted) {
				return 0, err
			}
			l.thermal.drop(f)
			return 0, nil
		}
	}
	return time.Duration(s.seconds * float64(s.perBlock) * 1e9),
		l.begin(ctx, s, s.perBlock, false, func(_ time.Time, span kernels.Span, err error) error {
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

// keepWarm runs fillers between measured blocks: none while the clock matches the sweep's, else one, and a
// few more to restore it.
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

// warmToSweep brings an idle device back into the sweep's state. It returns a note if the clock has not
// settled after most.
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
		note = fmt.Sprintf("the clock differs by %+.1f %% from the sweep after %v of its cases", 100*(t.ratio-1),
			ran.Round(time.Millisecond))
	}
	return note, nil
}
