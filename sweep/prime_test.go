package sweep

import (
	"context"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
)

// The first run of each batch and data type takes an extra second, as if it loaded a library.
type loader struct {
	*simulated.Device
	loaded map[string]bool
}

func (d loader) Prime(ctx context.Context, l kernels.Launch) (float64, error) {
	if d.loaded[l.Label()] {
		return 0, nil
	}
	d.loaded[l.Label()] = true
	span, err := d.Execute(ctx, []kernels.Launch{l}, 1)
	return span.Seconds + 1, err
}

// Code loaded at the first run does not cause single-launch blocks.
func TestLoadingIsNoExecution(t *testing.T) {
	d := loader{declared(func(c *simulated.Config) {
		c.Gemms = c.Gemms[:1]
		c.Gemms[0].Label = func(p kernels.Task) string { return string(p.DType) + p.Shape().String() }
	}), map[string]bool{}}
	plan := planned(t, d, "1:8", func(o *Options) {
		o.DTypes = []kernels.DType{kernels.FP32, kernels.BF16}
		o.BlockTarget = 2 * time.Millisecond
	})
	run := newRun(t, plan)
	if _, err := (&Runner{Plan: plan, Devices: []kernels.Device{d}, Out: run}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, phase := range []results.Phase{results.PhaseSweep, results.PhaseSentinel} {
		samples, err := run.Samples(phase)
		if err != nil || len(samples) == 0 {
			t.Fatalf("%s: %d samples, %v", phase, len(samples), err)
		}
		for _, s := range samples {
			if s.Launches < 20 {
				t.Errorf("%s: a block of %d launches of %.1f us, round %d", phase, s.Launches, s.US, s.Round)
			}
		}
	}
}

// A warm-up cut short by a deadline is not reported as unsteady.
func TestShortWarmUp(t *testing.T) {
	d := declared(nil)
	plan := planned(t, d, "1:8", func(o *Options) { o.Deadline = 100 * time.Millisecond })
	w := &watcher{}
	r := &Runner{Plan: plan, Devices: []kernels.Device{d}, Out: newRun(t, plan), Observer: w, Now: d.Now}
	if _, err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !w.said("the warm-up ended after 10ms, too early to tell whether the device has settled") || w.said("did not settle") {
		t.Errorf("it said %q", w.messages)
	}
}
