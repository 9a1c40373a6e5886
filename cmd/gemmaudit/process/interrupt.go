// Package process is the program as a process: interrupts, a child that reports its exit code, and a restart.
package process

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Interrupted is the exit code of an interrupted process.
const Interrupted = 130

// Echo is the time within which a second interrupt counts as the same: timeout(1) and shells signal a process
// and then its group; people are slower.
const Echo = 200 * time.Millisecond

// Grace is the time after an interrupt for a command without measurements to end on its own. Together with
// ending the process it is under a second.
const Grace = 700 * time.Millisecond

// Interrupts are what an interrupt of this process meets.
type Interrupts struct {
	After func(time.Duration) <-chan time.Time
	Waits func() bool // a child is interrupted instead
	Told  func()      // tells the user; it may block
	Busy  func() bool // the command must end on its own
	End   func()      // ends the process after its grace period
}

// Context returns a context that the first interrupt cancels. It then stops handling signals, so a
// second interrupt ends the process at once, even if stderr is blocked.
//
// A command that is not busy may be killed safely: its results appear whole or not at all. It is ended after its
// grace period, so loops over large runs need not check the context. Other commands end on their own, after
// storing their samples.
func (i Interrupts) Context(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 1)
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	// A shell without job control starts background jobs with interrupts ignored. Interrupts sent to them are
	// deliberate, so keep handling them: to stop would ignore them again.
	ignored := slices.DeleteFunc(slices.Clone(ends), func(s os.Signal) bool { return !signal.Ignored(s) })
	if !signal.Ignored(syscall.SIGHUP) { // nohup(1) ignores it
		ends = append(ends, syscall.SIGHUP)
	}
	signal.Notify(signals, ends...)
	done := make(chan struct{})
	go func() {
		for waiting := true; waiting; {
			select {
			case <-signals:
				waiting = i.Waits() // the child is interrupted instead
			case <-done:
				return
			}
		}
		go i.endAfter(i.After(Grace), done)
		later := i.After(Echo)
		told := make(chan struct{})
		go func() {
			i.Told()
			close(told)
		}()
		select {
		case <-told:
			cancel()
			select {
			case <-later:
			case <-done:
				return
			}
		case <-later:
			cancel()
		}
		signal.Stop(signals)
		if len(ignored) == 0 {
			return
		}
		again := make(chan os.Signal, 1)
		signal.Notify(again, ignored...)
		select {
		case <-again:
			os.Exit(Interrupted)
		case <-done:
			signal.Stop(again)
		}
	}()
	var once sync.Once
	return ctx, func() {
		once.Do(func() {
			signal.Stop(signals)
			close(done)
			cancel()
		})
	}
}

func (i Interrupts) endAfter(grace <-chan time.Time, done <-chan struct{}) {
	select {
	case <-done:
	case <-grace:
		if !i.Busy() && !i.Waits() {
			i.End()
		}
	}
}
