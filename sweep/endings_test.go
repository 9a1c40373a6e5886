package sweep

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

func TestFailingCasesAreRecordedAndLeft(t *testing.T) {
	calls := 0
	d := declared(func(c *simulated.Config) {
		c.Gemms[0].ExecuteError = func(p kernels.Task) error {
			if p.M == 3 {
				calls++
				return errors.New("launch error 719")
			}
			return nil
		}
		c.Gemms[1].BindError = func(p kernels.Task) error {
			if p.M == 5 {
				return errors.New("no algorithm")
			}
			return nil
		}
	})
	p := planned(t, d, "1:6", nil)
	run := newRun(t, p)
	w := &watcher{}
	for range 2 {
		sum, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Observer: w, Now: d.Now}).Run(context.Background())
		if err != nil || sum.Status != StatusComplete {
			t.Fatalf("status %q, error %v", sum.Status, err)
		}
	}
	failures, err := run.Failures()
	if err != nil || len(failures) != 2 {
		t.Fatalf("failures %v, %v", failures, err)
	}
	for _, f := range failures {
		if f.Round != 0 || !strings.Contains(f.Reason, "launch error 719") && !strings.Contains(f.Reason, "no algorithm") {
			t.Errorf("failure %+v", f)
		}
	}
	if samples, _ := run.Samples(results.PhaseSweep); len(samples) != 30 {
		t.Errorf("%d samples of the ten good cases, expected 30", len(samples))
	}
	if calls != 2 {
		t.Errorf("the failing case was tried %d times, expected once a start", calls)
	}
	if !w.said("launch error 719") || w.last.Done != 36 {
		t.Errorf("messages %q, progress %+v", w.messages, w.last)
	}
}

func TestOutOfMemoryFailsTheSeries(t *testing.T) {
	d := declared(func(c *simulated.Config) { c.MemoryBytes, c.Gemms = 1<<20, c.Gemms[:1] })
	p := planned(t, d, "1:3", func(o *Options) { o.Targets = append(o.Targets, Target{N: 1024, K: 1024}) })
	run := newRun(t, p)
	sum, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now}).Run(context.Background())
	if err != nil || sum.Failures != 3 {
		t.Fatalf("%d failures, %v; expected those of the large matrix", sum.Failures, err)
	}
	failures, _ := run.Failures()
	for _, f := range failures {
		if !strings.Contains(f.Reason, "out of memory") {
			t.Errorf("reason %q", f.Reason)
		}
	}
	if samples, _ := run.Samples(results.PhaseSweep); len(samples) != 9 {
		t.Errorf("%d samples of the small matrix, expected 9", len(samples))
	}
	if d.Used() != 0 {
		t.Errorf("%d bytes are still allocated", d.Used())
	}
}

// Cases that failed for lack of memory, or in a later round, are measured once they fit.
func TestFailuresAreTriedAgain(t *testing.T) {
	sick := true
	device := func(bytes int64) *simulated.Device {
		launches := 0
		return declared(func(c *simulated.Config) {
			c.MemoryBytes, c.Gemms = bytes, c.Gemms[:1]
			c.Gemms[0].ExecuteError = func(p kernels.Task) error {
				if p.M == 2 && p.N != 1024 {
					launches++
				}
				if sick && launches > 3 {
					return errors.New("launch error 700")
				}
				return nil
			}
		})
	}
	d := device(1 << 20)
	p := planned(t, d, "1:3", func(o *Options) { o.Targets = append(o.Targets, Target{N: 1024, K: 1024}) })
	run := newRun(t, p)
	start := func(d *simulated.Device) *Summary {
		t.Helper()
		sum, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now}).Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	first := start(d)
	failures, _ := run.Failures()
	if first.Failures < 4 || len(failures) != first.Failures {
		t.Fatalf("%d failures, %v; expected those of the large matrix and one more", first.Failures, failures)
	}
	again := start(device(1 << 20))
	if failures, _ = run.Failures(); again.Failures < 3 || len(failures) != again.Failures {
		t.Errorf("a start that is no better: %d failures, %v", again.Failures, failures)
	}
	sick = false
	if sum := start(device(0)); sum.Failures != 0 || sum.Samples == 0 {
		t.Errorf("a start with room: %d failures, %d samples", sum.Failures, sum.Samples)
	}
	if failures, _ = run.Failures(); len(failures) != 0 {
		t.Errorf("failures that are none any more: %v", failures)
	}
	complete(t, p, run)
}

func TestLostDeviceCanBeResumed(t *testing.T) {
	p := planned(t, declared(nil), "1:10", nil)
	run := newRun(t, p)
	d := declared(func(c *simulated.Config) { c.LoseAfter = 40 })
	sum, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now}).Run(context.Background())
	if !errors.Is(err, kernels.ErrDeviceLost) || sum.Status != StatusInterrupted {
		t.Fatalf("status %q, error %v", sum.Status, err)
	}
	if failures, _ := run.Failures(); len(failures) != 0 {
		t.Errorf("the loss was held against cases: %v", failures)
	}
	d = declared(nil)
	if _, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now}).Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	complete(t, p, run)
}

func TestDeadline(t *testing.T) {
	d := declared(nil)
	p := planned(t, d, "1:40", func(o *Options) { o.Deadline = 10 * time.Millisecond })
	run := newRun(t, p)
	_, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now}).Run(context.Background())
	var short *DeadlineError
	if !errors.As(err, &short) || short.Deadline != 10*time.Millisecond || short.Round < 80*time.Millisecond ||
		!strings.Contains(err.Error(), "10ms") {
		t.Fatalf("error %v", err)
	}
	// 80 blocks of a millisecond and their pilots are a round.
	p.Deadline = 200 * time.Millisecond
	start := d.Now()
	sum, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now}).Run(context.Background())
	if err != nil || sum.Status != StatusDeadline || state(t, run, StateStatus) != StatusDeadline {
		t.Fatalf("status %q, error %v", sum.Status, err)
	}
	if took := d.Now().Sub(start); took > 205*time.Millisecond || took < 190*time.Millisecond {
		t.Errorf("a deadline of 200 ms ended after %v", took)
	}
	p.Deadline = 0
	if _, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now}).Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	complete(t, p, run)
}

func TestAMissingDeviceIsNamed(t *testing.T) {
	p := planned(t, declared(nil), "1:3", nil)
	other := declared(func(c *simulated.Config) { c.ID = "cuda:0" })
	_, err := (&Runner{Plan: p, Devices: []kernels.Device{other}, Out: newRun(t, p)}).Run(context.Background())
	if err == nil || !strings.Contains(err.Error(), `"sim"`) || !strings.Contains(err.Error(), "cuda:0") {
		t.Errorf("error %v", err)
	}
}

func TestDriftPastTheBoundInvalidatesTheRun(t *testing.T) {
	for _, c := range []struct {
		drift   float64 // a second
		invalid bool
	}{{0, false}, {0.1, false}, {2, true}, {-2, true}} {
		d := declared(func(cfg *simulated.Config) {
			cfg.Drift = func(s float64) float64 { return 1 + c.drift*s }
		})
		p := planned(t, d, "1:40", nil)
		run := newRun(t, p)
		w := &watcher{}
		sum, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Observer: w, DriftTest: infer.DriftPast,
			Now: d.Now}).Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if (sum.Invalid != "") != c.invalid || state(t, run, StateInvalid) != sum.Invalid || w.said("only large differences") != c.invalid {
			t.Errorf("drift of %g a second: invalid %q, drift %+v", c.drift, sum.Invalid, sum.Drift)
		}
		if len(sum.Drift) != 1 || c.drift != 0 && sum.Drift[0].Change*c.drift <= 0 {
			t.Errorf("drift of %g a second was seen as %+v", c.drift, sum.Drift)
		}
	}
}

func TestWarmUpWaitsForTheSteadyState(t *testing.T) {
	heating := declared(func(c *simulated.Config) {
		c.Drift = func(s float64) float64 { return 1 + max(0, 1-s/0.05) }
	})
	p := planned(t, heating, "1:10", nil)
	sum, err := (&Runner{Plan: p, Devices: []kernels.Device{heating}, Out: newRun(t, p), DriftTest: infer.DriftPast,
		Now: heating.Now}).Run(context.Background())
	if err != nil || len(sum.WarmUp) != 1 || !sum.WarmUp[0].Settled || sum.WarmUp[0].Seconds < 0.04 || sum.Invalid != "" {
		t.Errorf("warm-up %+v, invalid %q, %v", sum.WarmUp, sum.Invalid, err)
	}
	restless := declared(func(c *simulated.Config) { c.Noise = simulated.Disturbances{Sigma: 0.2} })
	w := &watcher{}
	sum, err = (&Runner{Plan: p, Devices: []kernels.Device{restless}, Out: newRun(t, p), Observer: w,
		Now: restless.Now}).Run(context.Background())
	if err != nil || sum.WarmUp[0].Settled || sum.WarmUp[0].Seconds > 0.115 || !w.said("did not settle in 100ms") {
		t.Errorf("warm-up %+v, messages %q, %v", sum.WarmUp, w.messages, err)
	}
	// A short deadline leaves nine tenths of it to the samples.
	brief := *p
	brief.Deadline, brief.Rounds, brief.Screening = 400*time.Millisecond, 1, 1
	sum, err = (&Runner{Plan: &brief, Devices: []kernels.Device{restless}, Out: newRun(t, &brief),
		Now: restless.Now}).Run(context.Background())
	if err != nil || sum.WarmUp[0].Seconds > 0.06 || sum.Samples == 0 {
		t.Errorf("with a deadline: warm-up %+v, %d samples, %v", sum.WarmUp, sum.Samples, err)
	}
}
