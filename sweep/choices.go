package sweep

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// Told is what the kernels of a plan say that they would run, without anything being timed.
type Told struct {
	// Choices are those of the series of which something was told.
	Choices map[results.SeriesKey]results.Choices
	// Untold says of the others, and of series of which some Ms could not be told, why.
	Untold map[results.SeriesKey]string
	// Asked is how many Ms were asked about, of all series.
	Asked int
}

// mostUntold is how many Ms of a series may fail to be told before it is left alone: what
// fails so often fails everywhere, and may take long each time.
const mostUntold = 8

// Asking is what is asked about, and how. Its zero value asks about all series and waits for ever.
type Asking struct {
	// Of says which series are asked about; nil takes all.
	Of func(PlannedSeries) bool
	// Progress, which may be nil, is told how many Ms have been asked about.
	Progress func(asked int)
	// CaseTimeout is how long an answer may take; 0 is for ever. What takes longer hangs: see [FaultError].
	CaseTimeout time.Duration
}

// AskChoices asks the devices what they would run at every M of series of the plan. All shards of
// a plan ask the same, so that their answers agree. Devices are asked side by side; none may
// measure meanwhile. The error is that of ctx, or a [*FaultError] without cases.
func AskChoices(ctx context.Context, devices []kernels.Device, plan *Plan, how Asking) (Told, error) {
	told := Told{Choices: map[results.SeriesKey]results.Choices{}, Untold: map[results.SeriesKey]string{}}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	for _, d := range devices {
		group.Go(func() error {
			for _, s := range plan.Series {
				if s.Device != d.Spec().ID || how.Of != nil && !how.Of(s) {
					continue
				}
				choices, asked, err := askSeries(ctx, d, s, how.CaseTimeout)
				if hung(err) {
					return err
				}
				if ended := ctx.Err(); ended != nil {
					return ended
				}
				mu.Lock()
				if told.Asked += asked; len(choices) > 0 {
					told.Choices[s.SeriesKey] = choices
				}
				if err != nil {
					told.Untold[s.SeriesKey] = err.Error()
				}
				if how.Progress != nil {
					how.Progress(told.Asked)
				}
				mu.Unlock()
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return Told{}, err
	}
	return told, nil
}

// askSeries asks about the Ms of one series. The error says why the first M that was not
// told was not. An M that is not supported ends a stretch and is no error, unless all are.
func askSeries(ctx context.Context, d kernels.Device, s PlannedSeries, limit time.Duration) (choices results.Choices, asked int, err error) {
	k, err := kernels.FindImplementation(d, s.Operation, s.Kernel)
	if err != nil {
		return nil, 0, err
	}
	answers, err := askTogether(ctx, k, s, limit)
	if err != nil {
		return nil, 0, err
	}
	var refused, failed error
	var told []toldM
	failures, joined := 0, false
	for i, a := range answers {
		m := s.Ms[i]
		var no *kernels.Unsupported
		var never *kernels.Untold
		switch {
		case a.err == nil:
			told = append(told, toldM{m, a.choice, joined})
		case errors.As(a.err, &never):
			return nil, 0, a.err
		case errors.As(a.err, &no):
			refused = a.err
		default:
			if failures++; failed == nil {
				failed = fmt.Errorf("m%d: %w", m, a.err)
			}
			if failures == mostUntold {
				return joinTold(told, s.N), i + 1, failed
			}
		}
		joined = a.err == nil
	}
	if failed == nil && len(told) == 0 {
		failed = refused
	}
	return joinTold(told, s.N), len(answers), failed
}

// mostTellers bounds the goroutines that ask about one series, and together is how many Ms one
// of them asks about at a time.
const mostTellers, together = 8, 64

// answer is what was told for one M, or why nothing was.
type answer struct {
	choice kernels.Choice
	err    error
}

// askTogether asks about the Ms of a series from several goroutines, where the kernel allows for
// that: a library's heuristic takes some 90 us for one. The answers are those of the first Ms, up to
// the one that makes any further question needless. The error is that of ctx, why nobody
// could be asked, or a [*FaultError] of who has not answered within the limit.
func askTogether(ctx context.Context, k kernels.Implementation, s PlannedSeries, limit time.Duration) ([]answer, error) {
	ready := "make " + s.SeriesKey.String() + " ready to be asked"
	var tellers []kernels.Implementation
	dog := newWatchdog(s.Device, limit)
	err := dog.guard(func() (err error) {
		dog.enter(0, ready)
		defer dog.leave()
		tellers, err = kernels.Tellers(k, min(mostTellers, runtime.GOMAXPROCS(0), 1+len(s.Ms)/together))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ready, err)
	}
	answers := make([]answer, len(s.Ms))
	var next, failures atomic.Int64
	var never atomic.Bool
	group, ctx := errgroup.WithContext(ctx)
	what := " of " + s.SeriesKey.String() + " would run"
	ask := func(t kernels.Implementation, m int, dog *watchdog) (a answer) {
		dog.enter(0, "tell how m"+strconv.Itoa(m)+what)
		defer dog.leave()
		a.choice, a.err = kernels.ChoiceOf(t, task(s.Case(m), m))
		return a
	}
	for _, t := range tellers {
		dog := newWatchdog(s.Device, limit)
		group.Go(func() error {
			return dog.guard(func() error {
				for failures.Load() < mostUntold && !never.Load() {
					from := int(next.Add(together)) - together
					if from >= len(s.Ms) {
						return nil
					}
					// A batch that was begun is finished, so that all Ms ahead of the first that nobody asked
					// about have an answer.
					for i := from; i < min(from+together, len(s.Ms)); i++ {
						if ctx.Err() != nil {
							return ctx.Err()
						}
						answers[i] = ask(t, s.Ms[i], dog)
						if err := answers[i].err; err != nil && untold(err, &never) {
							failures.Add(1)
						}
					}
				}
				return nil
			})
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return answers[:min(int(next.Load()), len(s.Ms))], nil
}

// untold says whether an error is a failure to tell, and not that an M is not supported. never
// is set when the kernel tells nothing at all.
func untold(err error, never *atomic.Bool) bool {
	var no *kernels.Unsupported
	var nothing *kernels.Untold
	if errors.As(err, &nothing) {
		never.Store(true)
	}
	return !errors.As(err, &no)
}

// toldM is what was told for an M. joined says that something was told for the M before it.
type toldM struct {
	m      int
	choice kernels.Choice
	joined bool
}

// mostAgainst is how many blocks that tell that a tile lies one way outweigh one that tells
// the other: a few agree with both by chance.
const mostAgainst = 9

// joinTold makes stretches of what was told of a series of n columns. Where a kernel's name
// does not tell which side of its tile lies along M, the blocks of all its launches do.
func joinTold(told []toldM, n int) results.Choices {
	votes := map[string][2]int{} // for the tile as it is told, and turned
	for _, t := range told {
		if t.choice.Orientation != kernels.OrientationUnknown {
			continue
		}
		v := votes[t.choice.Label]
		switch t.choice.Sides(t.m, n) {
		case 1:
			v[0]++
		case -1:
			v[1]++
		}
		votes[t.choice.Label] = v
	}
	kinds := make([]results.LaunchKind, len(told))
	for i, t := range told {
		c := t.choice
		if c.Orientation == kernels.OrientationUnknown {
			switch v := votes[c.Label]; {
			case v[0] > mostAgainst*v[1]:
				c.Orientation = ""
			case v[1] > mostAgainst*v[0]:
				c.Orientation, c.Tile[0], c.Tile[1] = "", c.Tile[1], c.Tile[0]
			}
		}
		kinds[i] = results.KindOf(c, t.m, n)
	}
	usualSlots(kinds)
	var out results.Choices
	for i, t := range told {
		out = out.Add(t.m, kinds[i], t.joined)
	}
	return out
}

// usualSlots gives launches that differ in nothing else the number of tiles at a time that
// most of them tell: it belongs to the kernel, and a library's waves, from which it follows, are
// rounded up to whole clusters at some M. Of equally many the largest counts.
func usualSlots(kinds []results.LaunchKind) {
	told := map[results.LaunchKind]map[float64]int{}
	for _, k := range kinds {
		slots := k.Slots
		k.Slots = 0
		if told[k] == nil {
			told[k] = map[float64]int{}
		}
		told[k][slots]++
	}
	usual := map[results.LaunchKind]float64{}
	for k, counts := range told {
		most := 0
		for slots, n := range counts {
			if n > most || n == most && slots > usual[k] {
				usual[k], most = slots, n
			}
		}
	}
	for i := range kinds {
		kinds[i].Slots = 0
		kinds[i].Slots = usual[kinds[i]]
	}
}

// Store keeps what was told in a run.
func (t Told) Store(run *results.Run) error {
	for _, key := range results.ChosenSeries(t.Choices) {
		if err := run.SetChoices(key, t.Choices[key]); err != nil {
			return err
		}
	}
	return nil
}
