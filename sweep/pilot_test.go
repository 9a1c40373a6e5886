package sweep

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
)

// compiler is a device whose first launch of each M of a kernel takes 30 s to compile. The time that it returns
// includes them if told.
type compiler struct {
	*simulated.Device
	told     bool
	compiled map[string]bool
	primes   int
}

const compileTime = 30 * time.Second

func (d *compiler) Prime(ctx context.Context, l kernels.Launch) (float64, error) {
	d.primes++
	if d.compiled[l.Label()] {
		return 0, nil
	}
	d.compiled[l.Label()] = true
	d.Advance(compileTime)
	span, err := d.Device.Execute(ctx, []kernels.Launch{l}, 1)
	if d.told {
		span.Seconds += compileTime.Seconds()
	}
	return span.Seconds, err
}

// Execute fails for launches that were not compiled: that would fall into a sample.
func (d *compiler) Execute(ctx context.Context, launches []kernels.Launch, n int) (kernels.Span, error) {
	for _, l := range launches {
		if !d.compiled[l.Label()] {
			return kernels.Span{}, errors.New("it would be compiled in a block")
		}
	}
	return d.Device.Execute(ctx, launches, n)
}

func newCompiler(told bool) *compiler {
	d := declared(func(c *simulated.Config) {
		c.Gemms = c.Gemms[:1]
		c.Gemms[0].Name, c.Gemms[0].Process = "mine", "python"
		c.Gemms[0].Label = func(p kernels.Task) string { return p.Shape().String() }
	})
	return &compiler{Device: d, told: told, compiled: map[string]bool{}}
}

func TestWarmUpsAreNoSamples(t *testing.T) {
	const compilations = 8
	for _, told := range []bool{false, true} {
		d := newCompiler(told)
		p := planned(t, d, "1:8", func(o *Options) { o.Deadline = 10 * time.Minute })
		run := newRun(t, p)
		w := &watcher{}
		sum, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now, Observer: w}).Run(t.Context())
		if err != nil || sum.Status != StatusComplete || sum.Failures > 0 {
			t.Fatalf("told %v: %v, %+v, %v", told, err, sum, w.messages)
		}
		want := (compilations * compileTime).Seconds()
		if sum.Times.Warmups < want-1e-3 || sum.Times.Warmups > want+1 {
			t.Errorf("told %v: %.2f s of warm-up, expected %g", told, sum.Times.Warmups, want)
		}
		if sum.Times.SetUp > 1 || sum.Times.Other > 1 || sum.Efficiency > 0.05 {
			t.Errorf("told %v: warm-up counts elsewhere: %+v, efficiency %.2f", told, sum.Times, sum.Efficiency)
		}
		if len(sum.WarmUp) != 1 || !sum.WarmUp[0].Settled || sum.WarmUp[0].Seconds > 1 {
			t.Errorf("told %v: %+v", told, sum.WarmUp)
		}
		samples, err := run.Samples(results.PhaseSweep)
		if err != nil || len(samples) != 24 {
			t.Fatal(len(samples), err)
		}
		for _, s := range samples {
			if s.US > 1000 || s.Launches < 10 {
				t.Errorf("told %v: a block of %d launches of %g us", told, s.Launches, s.US)
			}
		}
	}
}

// A resume knows how long blocks are, but compiles again.
func TestWarmUpAtResume(t *testing.T) {
	first := newCompiler(false)
	p := planned(t, first, "1:8", nil)
	run := newRun(t, p)
	ctx, stop := context.WithCancel(t.Context())
	r := &Runner{Plan: p, Devices: []kernels.Device{first}, Out: run, Now: first.Now, Observer: &firstRound{then: stop}}
	var interrupted *InterruptedError
	if _, err := r.Run(ctx); !errors.As(err, &interrupted) {
		t.Fatal(err)
	}
	second := newCompiler(false)
	sum, err := (&Runner{Plan: p, Devices: []kernels.Device{second}, Out: run, Now: second.Now}).Run(t.Context())
	if err != nil || sum.Failures > 0 || second.primes < 8 {
		t.Errorf("%v, %+v, %d first runs", err, sum, second.primes)
	}
	complete(t, p, run)
}
