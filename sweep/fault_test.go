package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
)

const (
	breaks = "breaks" // the context
	loses  = "loses"  // the device
	hangs  = "hangs"
)

// hangTime is the timeout for hanging calls; patience must be enough for the busiest machine.
const (
	hangTime = 400 * time.Millisecond
	patience = time.Minute
)

func limitOf(way string) time.Duration {
	if way == hangs {
		return hangTime
	}
	return patience
}

func failing(t *testing.T, way string, chosen func(kernels.Task) bool) func(*simulated.Config) {
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	fail := func(p kernels.Task) error {
		switch {
		case !chosen(p):
			return nil
		case way == breaks:
			return fmt.Errorf("sim: %w: illegal address", kernels.ErrContextLost)
		case way == loses:
			return fmt.Errorf("sim: %w: fell off the bus", kernels.ErrDeviceLost)
		}
		<-release
		return nil
	}
	return func(c *simulated.Config) {
		for i := range c.Gemms {
			c.Gemms[i].ExecuteError = fail
		}
	}
}

// Synchronous devices, and asynchronous ones that report errors at the start or at the end.
var flavours = map[string]func(*simulated.Device) clocked{
	"executes":      func(d *simulated.Device) clocked { return d },
	"starts":        func(d *simulated.Device) clocked { return &simulated.Starter{Device: d} },
	"tells it late": func(d *simulated.Device) clocked { return &simulated.Starter{Device: d, Late: true} },
}

type clocked interface {
	kernels.Device
	Now() time.Time
}

func startOn(d clocked, p *Plan, run *results.Run, limit time.Duration) (*Summary, error) {
	return (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now, CaseTimeout: limit}).Run(context.Background())
}

// Earlier samples are kept whenever a launch breaks, loses or hangs the device, and further starts complete
// the plan.
func TestFaultAtEveryLaunch(t *testing.T) {
	for flavour, wrap := range flavours {
		for _, way := range []string{breaks, loses, hangs} {
			t.Run(flavour+" "+way, func(t *testing.T) {
				t.Parallel()
				at, faults := 1, 0
				for step := 1; ; at += step {
					var launches atomic.Int64
					here := int64(at) // a hanging call checks it later
					d := wrap(declared(failing(t, way, func(kernels.Task) bool { return launches.Add(1) == here })))
					p := planned(t, d, "1:2",
						func(o *Options) { o.Sentinel.SettleWindow, o.Sentinel.SettleCap = time.Millisecond, 3*time.Millisecond })
					run := newRun(t, p)
					_, err := startOn(d, p, run, limitOf(way))
					if err == nil {
						complete(t, p, run)
						break
					}
					faults++
					var fault *FaultError
					if !errors.As(err, &fault) || !errors.Is(err, kernels.ErrDeviceLost) || len(fault.Cases) == 0 ||
						fault.Device != "sim" ||
						fault.Passes() != (way != loses) || (fault.Hung > 0) != (way == hangs) ||
						!strings.Contains(err.Error(), fault.Cases[0].String()+" was on the device") {
						t.Fatalf("launch %d: %v, %+v", at, err, fault)
					}
					before, err := run.Samples(results.PhaseSweep)
					if err != nil || fault.Samples < len(before) {
						t.Fatalf("launch %d: %d samples, the fault tells of %d: %v", at, len(before), fault.Samples, err)
					}
					failures, _ := run.Failures()
					if blamed := fault.Passes() && len(fault.Cases) == 1; len(failures) != map[bool]int{true: 1}[blamed] {
						t.Fatalf("launch %d: %d cases shared the device, failures %v", at, len(fault.Cases), failures)
					}
					for n := 0; ; n++ { // without faults; failed cases are skipped at first
						if _, err := startOn(wrap(declared(nil)), p, run, patience); err != nil {
							t.Fatalf("launch %d: %v", at, err)
						}
						if still, _ := run.Failures(); !slices.Equal(still, failures) {
							t.Fatalf("launch %d: failures %v became %v", at, failures, still)
						}
						if n == 1 {
							break
						}
						if err := ForgetFaults(run); err != nil {
							t.Fatal(err)
						}
						failures = nil
					}
					after := complete(t, p, run)
					for _, s := range before {
						if !slices.Contains(after, s) {
							t.Fatalf("launch %d: sample %+v is lost", at, s)
						}
					}
					switch {
					case way == hangs:
						step = 17
					case at > 30 || testing.Short():
						step = 5
					}
				}
				if least := map[bool]int{true: 3, false: 12}[way == hangs]; faults < least {
					t.Errorf("%d launches failed, expected %d at least", faults, least)
				}
			})
		}
	}
}

// A case that always fails is found, alone on the device if necessary, and given up.
func TestFaultyCase(t *testing.T) {
	for flavour, wrap := range flavours {
		for _, way := range []string{breaks, hangs} {
			t.Run(flavour+" "+way, func(t *testing.T) {
				t.Parallel()
				plan := planned(t, declared(nil), "1:6", nil)
				run := newRun(t, plan)
				starts := 0
				for {
					starts++
					m3 := 0
					d := wrap(declared(failing(t, way, func(p kernels.Task) bool {
						if p.M == 3 {
							m3++
						}
						return p.M == 3 && m3 > 4
					})))
					_, err := startOn(d, plan, run, limitOf(way))
					var fault *FaultError
					if err == nil {
						break
					}
					if !errors.As(err, &fault) || !fault.Passes() || starts > 4 {
						t.Fatalf("start %d: %v", starts, err)
					}
				}
				failures, err := run.Failures()
				if err != nil || len(failures) == 0 {
					t.Fatal(failures, err)
				}
				cases, _ := run.Cases()
				for _, f := range failures {
					at := slices.IndexFunc(cases, func(c results.Case) bool { return c.ID == f.CaseID })
					if cases[at].M != 3 {
						t.Errorf("%v is blamed: %s", cases[at], f.Reason)
					}
				}
				if err := ForgetFaults(run); err != nil {
					t.Fatal(err)
				}
				if _, err := startOn(wrap(declared(nil)), plan, run, patience); err != nil {
					t.Fatal(err)
				}
				complete(t, plan, run)
			})
		}
	}
}

// Blocks that end after the context broke may be wrong and are dropped.
func TestNothingIsKeptAfterAFault(t *testing.T) {
	broken := false
	d := &simulated.Starter{Late: true, Device: declared(failing(t, breaks, func(p kernels.Task) bool {
		return p.M == 4 && broken
	}))}
	b := testRig(t, d, kernels.Normal, 1, time.Millisecond, 1)
	cases := []results.Case{simCase(4), simCase(8)}
	if _, err := b.load(t.Context(), demands(cases, b.spec.LastLevelCacheBytes)); err != nil {
		t.Fatal(err)
	}
	if err := b.reserve(t.Context(), cases); err != nil {
		t.Fatal(err)
	}
	stations := []*station{{c: cases[0]}, {c: cases[1]}}
	for _, s := range stations {
		if err := b.pilot(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.land(); err != nil {
		t.Fatal(err)
	}
	broken = true
	var told []error
	var err error
	for _, s := range stations {
		err = errors.Join(err, b.begin(t.Context(), s, 1, false, func(_ time.Time, _ kernels.Span, err error) error {
			told = append(told, err)
			return err
		}))
	}
	var fault *FaultError
	if err = errors.Join(err, b.land()); !errors.As(err, &fault) || len(fault.Cases) != 2 || len(told) != 2 || !deviceLost(told[0]) ||
		!deviceLost(told[1]) {
		t.Errorf("%v; the blocks were told %v", err, told)
	}
}

func TestFaultMeasuringAgain(t *testing.T) {
	for flavour, wrap := range flavours {
		for _, way := range []string{breaks, hangs} {
			t.Run(flavour+" "+way, func(t *testing.T) {
				t.Parallel()
				run := newRun(t, planned(t, declared(nil), "1:3", nil))
				requests := []results.Request{{Case: simCase(64), Phase: results.PhaseConfirm, Group: 1},
					{Case: simCase(32), Phase: results.PhaseConfirm, Group: 1}}
				for starts := 1; ; starts++ {
					d := wrap(declared(failing(t, way, func(p kernels.Task) bool { return p.M == 64 })))
					m, err := NewMeasurer(MeasureConfig{Devices: []kernels.Device{d}, Out: run, Now: d.Now, CaseTimeout: limitOf(way)})
					if err != nil {
						t.Fatal(err)
					}
					samples, err := m.Measure(t.Context(), requests, 3)
					if closing := m.Close(); closing != nil && !deviceLost(closing) {
						t.Error(closing)
					}
					var fault *FaultError
					if errors.As(err, &fault) && fault.Passes() && starts < 3 {
						if _, again := m.Measure(t.Context(), requests, 3); !errors.Is(again, kernels.ErrContextLost) {
							t.Errorf("another call says %v", again)
						}
						continue
					}
					if err != nil || len(samples[0]) != 0 || len(samples[1]) != 3 {
						t.Fatalf("start %d: %d and %d samples, %v", starts, len(samples[0]), len(samples[1]), err)
					}
					if skipped := m.Skipped(); len(skipped) != 1 || skipped[0].M != 64 || starts == 1 {
						t.Errorf("start %d skipped %v", starts, skipped)
					}
					break
				}
				if failures, err := run.Failures(); err != nil || len(failures) != 1 || failures[0].Phase != results.PhaseConfirm {
					t.Errorf("failures %v, %v", failures, err)
				}
			})
		}
	}
}

func TestHangSettingUp(t *testing.T) {
	d := &deaf{Device: declared(nil)}
	p := planned(t, d, "1:2", nil)
	run := newRun(t, p)
	_, err := startOn(d, p, run, hangTime)
	var fault *FaultError
	if !errors.As(err, &fault) || fault.Passes() || fault.Hung < hangTime ||
		!strings.Contains(err.Error(), "no answer within 400ms to make weights fp32 n256 k128") {
		t.Fatalf("%v, %+v", err, fault)
	}
	if _, err := startOn(declared(nil), p, run, patience); err != nil {
		t.Fatal(err)
	}
	complete(t, p, run)
}

type deaf struct{ *simulated.Device }

func (deaf) Alloc(int64) (kernels.Buffer, error) { select {} }

// Only ticks without the begin or end of a call count; long calls get more.
func TestWatchdog(t *testing.T) {
	w := newWatchdog("sim", time.Second)
	ticks := func(n int) (fault *FaultError) {
		for range n {
			if f := w.tick(); f != nil {
				fault = f
			}
		}
		return fault
	}
	w.tick()
	w.enter(0, "")
	w.tick() // notices that the call began
	if ticks(watchdogTicks-1) != nil {
		t.Error("a call was given up before its time")
	}
	w.beat()
	if ticks(watchdogTicks) != nil {
		t.Error("a call was given up that had come to its next step")
	}
	w.leave()
	if ticks(10*watchdogTicks) != nil {
		t.Error("a device that does nothing was given up")
	}
	for range 3 * watchdogTicks {
		w.enter(0, "")
		if w.tick() != nil {
			t.Fatal("calls that each end in time were given up together")
		}
		w.leave()
	}
	w.enter(2*time.Second, "", simCase(3))
	w.tick()
	if ticks(2*watchdogSlack*watchdogTicks-1) != nil {
		t.Error("a call was given up before its time, which is longer")
	}
	fault := ticks(1)
	if fault == nil || fault.Hung != 2*watchdogSlack*time.Second || len(fault.Cases) != 1 {
		t.Errorf("%+v", fault)
	}
	if w := newWatchdog("sim", 0); w != nil {
		t.Error("without a limit nothing is watched")
	}
}

func TestNothingGoesOnWhenGivenUp(t *testing.T) {
	for name, call := range map[string]func(*watchdog){
		"enter": func(w *watchdog) { w.enter(0, "late") }, "leave": (*watchdog).leave, "beat": (*watchdog).beat,
	} {
		w := newWatchdog("sim", time.Hour)
		w.gone = true
		went := make(chan bool, 1)
		go func() {
			call(w)
			went <- true
		}()
		select {
		case <-went:
			t.Errorf("%s came back", name)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestGivenUpTakesNoTime(t *testing.T) {
	const deadline, slow = 10 * time.Second, 400_000 // one block is expected to take 0.1 s
	var d *simulated.Device
	var began time.Time
	tries := 0 // as a sentinel, then as a case
	d = declared(func(c *simulated.Config) {
		c.Gemms = c.Gemms[:1]
		c.Gemms[0].ExecuteError = func(p kernels.Task) error {
			if p.M != slow {
				return nil
			}
			if tries++; tries == 2 {
				d.Advance(deadline - 80*time.Millisecond - d.Now().Sub(began))
			}
			return errors.New("too large")
		}
	})
	p := planned(t, d, "1:4,400000", func(o *Options) { o.Deadline = deadline })
	run := newRun(t, p)
	began = d.Now()
	sum, err := startOn(d, p, run, patience)
	if err != nil || tries != 2 || sum.Status != StatusComplete || sum.Failures != 1 || sum.Samples != 3*4 {
		t.Errorf("%+v, %v", sum, err)
	}
}

func TestLostBeforeTheFirstSample(t *testing.T) {
	d := &losing{Device: declared(nil)}
	p := planned(t, d, "1:4", nil)
	w := &watcher{}
	_, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: newRun(t, p), Observer: w, Now: d.Now}).Run(t.Context())
	if !errors.Is(err, kernels.ErrDeviceLost) || d.asked != 1 || w.said("no case could serve") {
		t.Errorf("memory was asked for %d times, messages %q: %v", d.asked, w.messages, err)
	}
}

type losing struct {
	*simulated.Device
	asked int
}

func (d *losing) Alloc(int64) (kernels.Buffer, error) {
	d.asked++
	return nil, fmt.Errorf("sim: %w: fell off the bus", kernels.ErrDeviceLost)
}
