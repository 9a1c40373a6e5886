package sweep

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// A call of a device may never come back: a kernel that waits for itself, a card that fell off its
// bus. It can't be ended from within its process. So it is given up after a limit, together with the
// goroutine that waits for it, and what is left to do is for another process.
//
// The limit is counted in watchdogTicks parts, each of which must have passed without any call
// having begun or ended: a process that was stopped for an hour has seen one part pass. A call that is
// expected to take long is given watchdogSlack times as long.
const (
	watchdogTicks = 10
	watchdogSlack = 4
)

// watchdog watches the calls of one device by one goroutine, those between enter and leave. nil
// watches nothing.
type watchdog struct {
	limit  time.Duration
	device string

	mu     sync.Mutex
	inside int
	beats  uint64 // calls begun and ended
	ticks  int    // that the call may take
	cases  []results.Case
	what   string
	gone   bool // given up: the goroutine that comes back stays where it is

	seen  uint64 // beats at the last tick
	quiet int    // ticks since they grew
}

// newWatchdog watches with a limit, 0 for none.
func newWatchdog(device string, limit time.Duration) *watchdog {
	if limit <= 0 {
		return nil
	}
	return &watchdog{limit: limit, device: device}
}

// enter begins a call that is expected to take a time, 0 where nothing is known. what says what it
// does where no case is on the device.
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

// leave ends a call.
func (w *watchdog) leave() {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.stay()
	w.beats++
	w.inside--
	w.mu.Unlock()
}

// beat tells that a call of several steps has come to the next one.
func (w *watchdog) beat() {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.stay()
	w.beats++
	w.mu.Unlock()
}

// watched calls f, which sets up or clears away with nothing on the device.
func (b *rig) watched(what string, f func() error) error {
	b.dog.enter(0, what)
	defer b.dog.leave()
	return f()
}

// stay keeps a goroutine that was given up from touching anything again. The lock is held.
func (w *watchdog) stay() {
	if w.gone {
		w.mu.Unlock()
		select {}
	}
}

// guard calls f, which makes the calls that are watched, and returns its error, or a [*FaultError]
// once one of them has not come back within the limit. Then f never returns, and what it used is
// not to be touched any more.
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

// tick counts a part of the limit and returns the fault where it was the last one.
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
