package sweep

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// A device call may never return: a kernel deadlocks, or a card falls off its bus. It can't be ended from
// within its process. After a limit, the call and its goroutine are abandoned, and another process does the
// remaining work.
//
// The limit has watchdogTicks parts without the begin or end of any call. A process that was stopped for an
// hour counts one part. The limit is extended to watchdogSlack times the expected time of a call.
const (
	watchdogTicks = 10
	watchdogSlack = 4
)

// watchdog watches one goroutine's calls of one device, those between enter and leave. A nil watchdog does
// nothing.
type watchdog struct {
	limit  time.Duration
	device string

	mu     sync.Mutex
	inside int
	beats  uint64 // number of calls begun and ended
	ticks  int
	cases  []results.Case
	what   string
	gone   bool // abandoned: a call that returns late blocks forever

	seen  uint64 // beats at the last tick
	quiet int    // ticks since beats last changed
}

func newWatchdog(device string, limit time.Duration) *watchdog {
	if limit <= 0 {
		return nil
	}
	return &watchdog{limit: limit, device: device}
}

// enter begins a call with an expected time, 0 if unknown. what describes a call without cases.
func (w *watchdog) enter(expected time.Duration, what string, cases ...results.Case) {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.stay()
	w.beats++
	if w.inside++; w.inside == 1 {
		long := max(1, watchdogSlack*float64(expected)/float64(w.limit))
		w.ticks = int(math.Ceil(watchdogTicks * min(long, 1e6)))
		w.what, w.cases = what, append(w.cases[:0], cases...)
	}
	w.mu.Unlock()
}

func (w *watchdog) leave() { w.change(-1) }

func (w *watchdog) beat() { w.change(0) }

// change counts the end of a call, or a sign of life within one.
func (w *watchdog) change(calls int) {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.stay()
	w.beats++
	w.inside += calls
	w.mu.Unlock()
}

func (b *rig) watched(what string, f func() error) error {
	b.dog.enter(0, what)
	defer b.dog.leave()
	return f()
}

// stay blocks an abandoned goroutine forever. The lock must be held.
func (w *watchdog) stay() {
	if w.gone {
		w.mu.Unlock()
		select {}
	}
}

// guard calls f, which makes watched calls. If a call exceeds its limit, guard returns a [*FaultError], f
// never returns, and its data must not be touched.
func (w *watchdog) guard(f func() error) error {
	if w == nil {
		return f()
	}
	done := make(chan error, 1)
	go func() { done <- f() }()
	tick := time.NewTicker(w.limit / watchdogTicks)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			if fault := w.tick(); fault != nil {
				return fault
			}
		}
	}
}

// tick counts a part of the limit and returns a fault at the last one.
func (w *watchdog) tick() *FaultError {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.inside == 0 || w.beats != w.seen {
		w.seen, w.quiet = w.beats, 0
		return nil
	}
	if w.quiet++; w.quiet < w.ticks {
		return nil
	}
	w.gone = true
	waited := w.limit * time.Duration(w.ticks) / watchdogTicks
	fault := &FaultError{Device: w.device, Cases: w.cases, Hung: waited}
	fault.Err = fmt.Errorf("%w: no answer within %v", kernels.ErrContextLost, waited)
	if len(w.cases) == 0 {
		fault.Err = fmt.Errorf("%w: no answer within %v to %s", kernels.ErrDeviceLost, waited, w.what)
	}
	return fault
}
