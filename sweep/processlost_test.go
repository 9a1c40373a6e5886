package sweep

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
)

// crashing has a kernel of another process, which ends at M 3 while that is broken. tried counts the attempts.
func crashing(broken bool, why error) (d *simulated.Device, tried *int) {
	tried = new(int)
	return declared(func(c *simulated.Config) {
		c.Gemms = c.Gemms[:1]
		c.Gemms[0].Process = "python"
		c.Gemms[0].ExecuteError = func(p kernels.Task) error {
			if p.M != 3 {
				return nil
			}
			if *tried++; broken {
				return fmt.Errorf("the worker ended in execute: %w", why)
			}
			return nil
		}
	}), tried
}

// A case that ended its process costs only itself, and is tried again on request only; one with another error is
// tried again.
func TestProcessLost(t *testing.T) {
	for _, tc := range []struct {
		name   string
		why    error
		resume int // attempts at a resume
	}{{"lost", kernels.ErrProcessLost, 0}, {"refused", errors.New("ValueError: M is odd"), 1}} {
		d, _ := crashing(true, tc.why)
		p := planned(t, d, "1:8", func(o *Options) { o.Sentinel.Every = time.Millisecond })
		run := newRun(t, p)
		sum, err := startOn(d, p, run, patience)
		if err != nil || sum.Failures != 1 || sum.Samples != 7*3 || sum.Status != StatusComplete {
			t.Fatalf("%s: %+v, %v", tc.name, sum, err)
		}
		failures, err := run.Failures()
		if err != nil || len(failures) != 1 || failures[0].Reason != "the worker ended in execute: "+tc.why.Error() {
			t.Fatalf("%s: failures %v, %v", tc.name, failures, err)
		}
		again, tried := crashing(true, tc.why)
		if _, err := startOn(again, p, run, patience); err != nil || *tried != tc.resume {
			t.Errorf("%s: %d attempts at a resume, expected %d: %v", tc.name, *tried, tc.resume, err)
		}
		if err := ForgetFaults(run); err != nil {
			t.Fatal(err)
		}
		sound, _ := crashing(false, nil)
		if _, err := startOn(sound, p, run, patience); err != nil {
			t.Fatal(err)
		}
		complete(t, p, run)
		if failures, _ := run.Failures(); len(failures) > 0 {
			t.Errorf("%s: failures %v remain", tc.name, failures)
		}
	}
}

// A sentinel that ends its process is not visited again.
func TestSentinelLosesItsProcess(t *testing.T) {
	broken, launches := false, 0
	d := declared(func(c *simulated.Config) {
		c.Gemms = c.Gemms[:1]
		c.Gemms[0].Process = "python"
		c.Gemms[0].ExecuteError = func(kernels.Task) error {
			if !broken {
				return nil
			}
			launches++
			return kernels.ErrProcessLost
		}
	})
	p := planned(t, d, "1", func(o *Options) { o.Rounds, o.Sentinel.Every = 400, time.Nanosecond })
	w := &watcher{at: func(int) { broken = true }}
	_, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: newRun(t, p), Now: d.Now, Observer: w}).Run(t.Context())
	if err != nil || !w.said("sentinel sim/ours/fp32/m1 n256 k128: process lost") {
		t.Errorf("%v: it said %q", err, w.messages)
	}
	if launches != 2 {
		t.Errorf("%d launches, expected the sentinel's and the case's", launches)
	}
}

func TestConfirmationLosesTheProcess(t *testing.T) {
	d, tried := crashing(true, kernels.ErrProcessLost)
	p := planned(t, d, "1:8", nil)
	run := newRun(t, p)
	requests := []results.Request{{Case: simCase(3), Phase: results.PhaseConfirm}, {Case: simCase(4), Phase: results.PhaseConfirm}}
	for start, want := range []int{1, 0} {
		*tried = 0
		m := newMeasurer(t, d, run, nil)
		got, err := m.Measure(context.Background(), requests, 3)
		if err != nil || len(got[0]) != 0 || len(got[1]) != 3 {
			t.Errorf("start %d: %v, %v", start, got, err)
		}
		if *tried != want || len(m.Skipped()) != 1-want {
			t.Errorf("start %d: %d attempts, expected %d; %d skipped", start, *tried, want, len(m.Skipped()))
		}
	}
}

// After a loss, other cases are compiled again before their next block.
func TestCompiledAgainAfterALoss(t *testing.T) {
	first := newCompiler(false)
	mine, other := simCase(8), simCase(3)
	mine.Kernel, other.Kernel = "mine", "mine"
	b := loaded(t, first, mine, other)
	s := &station{c: mine}
	for i, want := range []int{1, 1, 2, 2} {
		if i == 2 {
			lost := fmt.Errorf("execute: %w", kernels.ErrProcessLost)
			if err := b.lost(lost, &station{c: other}); !errors.Is(err, lost) {
				t.Fatal(err)
			}
		}
		if err := b.pilot(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if first.primes != want {
			t.Errorf("pilot %d: %d first runs, expected %d", i, first.primes, want)
		}
	}
}

// A case that ends its process in the warm-up is a failed one at once, also if it hung until the deadline.
func TestWarmUpLosesItsProcess(t *testing.T) {
	for _, tc := range []struct {
		name             string
		hangs, deadline  time.Duration
		failed, attempts int
		status           string
	}{
		{"no deadline", 10 * time.Second, 0, 4, 4, StatusComplete},
		{"past the deadline", 10 * time.Second, 8 * time.Second, 1, 1, StatusDeadline},
	} {
		attempts, hung := 0, time.Duration(0)
		d := declared(func(c *simulated.Config) {
			c.Gemms = c.Gemms[:1]
			c.Gemms[0].Process = "python"
			c.Gemms[0].ExecuteError = func(kernels.Task) error {
				attempts++
				hung += tc.hangs
				return fmt.Errorf("no answer: %w", kernels.ErrProcessLost)
			}
		})
		p := planned(t, d, "1:4", func(o *Options) { o.Deadline = tc.deadline })
		run := newRun(t, p)
		now := func() time.Time { return d.Now().Add(hung) }
		sum, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: now}).Run(t.Context())
		if err != nil || sum.Failures != tc.failed || sum.Status != tc.status || attempts != tc.attempts {
			t.Errorf("%s: %d failures, %s, %d attempts, expected %d, %s, %d: %v", tc.name, sum.Failures, sum.Status, attempts, tc.failed,
				tc.status, tc.attempts, err)
		}
	}
}
