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

// Told holds the launches that the kernels of a plan report without being timed.
type Told struct {
	// Choices holds the answers by series.
	Choices map[results.SeriesKey]results.Choices
	// Untold gives the reason for each series with unanswered Ms.
	Untold map[results.SeriesKey]string
	// Asked counts the queried Ms of all series.
	Asked int
}

// A kernel that fails at this many Ms of a series usually fails at every M, and each query may be slow.
const mostUntold = 8

// Asking selects the series to query. Its zero value queries all series without a timeout.
type Asking struct {
	// Of reports whether a series is queried; nil selects all.
	Of func(PlannedSeries) bool
	// Progress receives the number of Ms queried so far; it may be nil.
	Progress func(asked int)
	// CaseTimeout limits the wait for one answer; 0 means no limit. A slower answer counts as a hang: see
	// [FaultError].
	CaseTimeout time.Duration
}

// AskChoices asks the devices what they would run at every M of the plan's series. Shards ask the same, so
// their answers agree. Devices are queried in parallel; none may measure meanwhile. The error is ctx's, or a
// [*FaultError] without cases.
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

// askSeries queries the Ms of one series. An unsupported M ends a stretch and is an error only if all are.
func askSeries(ctx context.Context, d kernels.Device, s PlannedSeries,
	limit time.Duration) (choices results.Choices, asked int, err error) {
	k, err := kernels.Find(d, s.Operation, s.Kernel)
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
		switch {
		case a.err == nil:
			told = append(told, toldM{m, a.choice, joined})
		case errors.Is(a.err, kernels.ErrUntold):
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

// mostTellers limits the goroutines per series; together is how many Ms each queries at a time.
const mostTellers, together = 8, 64

type answer struct {
	choice kernels.Choice
	err    error
}

// askTogether queries from several goroutines if the kernel allows it: a library's heuristic takes about 90
// us. It returns the answers up to the M that makes further queries needless.
func askTogether(ctx context.Context, k kernels.Kernel, s PlannedSeries, limit time.Duration) ([]answer, error) {
	ready := "make " + s.SeriesKey.String() + " ready to be asked"
	var tellers []kernels.Kernel
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
	ask := func(t kernels.Kernel, m int, dog *watchdog) (a answer) {
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
					// Finish each batch, so every M ahead of the first skipped one has an answer.
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

// untold reports whether err is a failed query rather than an unsupported M. It sets never if the kernel
// can't answer at all.
func untold(err error, never *atomic.Bool) bool {
	var no *kernels.Unsupported
	if errors.Is(err, kernels.ErrUntold) {
		never.Store(true)
	}
	return !errors.As(err, &no)
}

// toldM is the answer for an M; joined is true if the M before it has one too.
type toldM struct {
	m      int
	choice kernels.Choice
	joined bool
}

// mostAgainst is how many blocks that indicate one tile orientation outweigh one for the other: a few match
// both by chance.
const mostAgainst = 9

// joinTold groups answers into stretches. If a kernel's name does not give the tile's orientation, the block
// counts of its launches decide.
func joinTold(told []toldM, n int) results.Choices {
	votes := map[string][2]int{} // votes for the tile as reported, and for it transposed
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

// usualSlots sets the tiles per wave of otherwise equal launches to their most frequent value, or the largest
// of several. It comes from the library's waves, which are rounded up to whole clusters at some Ms.
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

// Store stores the answers in a run.
func (t Told) Store(run *results.Run) error {
	for _, key := range results.ChosenSeries(t.Choices) {
		if err := run.SetChoices(key, t.Choices[key]); err != nil {
			return err
		}
	}
	return nil
}
