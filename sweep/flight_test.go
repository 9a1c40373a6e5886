package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
)

// Starting a block takes 0.3 ms of host time, and the observer as long. Blocks of 1 ms must follow with
// almost no gap.
func TestBlocksFollowWithoutRest(t *testing.T) {
	d := &simulated.Starter{Device: declared(func(c *simulated.Config) { c.Gemms = c.Gemms[:1] }), Starting: 300 * time.Microsecond}
	p := planned(t, d, "1:120", nil)
	run := newRun(t, p)
	o := &dawdler{device: d.Device, takes: 300 * time.Microsecond}
	sum, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now, Observer: o}).Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	samples := complete(t, p, run)
	if sum.Efficiency < 0.94 || sum.Times.Hidden < 0.1 || sum.Times.Launching > 0.02 {
		t.Errorf("efficiency %.3f, times %+v", sum.Efficiency, sum.Times)
	}
	for i := 1; i < len(samples); i++ {
		before, s := samples[i-1], samples[i]
		if end := before.StartedUnixMicro + int64(before.US*float64(before.Launches)); s.StartedUnixMicro < end-2 {
			t.Fatalf("sample %d began %d us before the end of the one ahead of it", i, end-s.StartedUnixMicro)
		}
	}
	m := newMeasurer(t, d, run, func(c *MeasureConfig) { c.Devices, c.Now, c.Observer = []kernels.Device{d}, d.Now, o })
	var ms []int
	for i := 1; i <= 40; i++ {
		ms = append(ms, 3*i)
	}
	if _, err := m.Measure(context.Background(), confirmations(ms...), 1); err != nil {
		t.Fatal(err)
	}
	busy, _ := d.Busy()
	began := d.Now()
	if _, err := m.Measure(context.Background(), confirmations(ms...), 5); err != nil {
		t.Fatal(err)
	}
	after, _ := d.Busy()
	if share := (after - busy).Seconds() / d.Now().Sub(began).Seconds(); share < 0.95 {
		t.Errorf("measuring again was %.3f of the time inside blocks", share)
	}
}

// Devices report a failure at the start of a block, or at its end.
func TestFailuresBelongToTheirBlock(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("late %v", late), func(t *testing.T) {
			runs := map[int]int{}
			d := &simulated.Starter{Late: late, Device: declared(func(c *simulated.Config) {
				c.Gemms = c.Gemms[:1]
				c.Gemms[0].ExecuteError = func(p kernels.Task) error {
					if runs[p.M]++; p.M == 13 && runs[p.M] > 9 || p.M == 40 {
						return errors.New("launch error 719")
					}
					return nil
				}
			})}
			p := planned(t, d, "1:60", nil)
			run := newRun(t, p)
			sum, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now}).Run(context.Background())
			if err != nil || sum.Failures != 2 {
				t.Fatalf("%d failures, %v", sum.Failures, err)
			}
			cases, err := run.Cases()
			if err != nil {
				t.Fatal(err)
			}
			failures, err := run.Failures()
			if err != nil {
				t.Fatal(err)
			}
			var failed []int
			for _, f := range failures {
				m := cases[slices.IndexFunc(cases, func(c results.Case) bool { return c.ID == f.CaseID })].M
				failed = append(failed, m)
				if !strings.Contains(f.Reason, "719") {
					t.Errorf("M %d failed with %q", m, f.Reason)
				}
			}
			if slices.Sort(failed); !slices.Equal(failed, []int{13, 40}) {
				t.Errorf("M %v failed", failed)
			}
			samples, err := run.Samples(results.PhaseSweep)
			if err != nil {
				t.Fatal(err)
			}
			count := map[int64]int{}
			for _, s := range samples {
				count[s.CaseID]++
			}
			for _, c := range cases {
				if !slices.Contains(failed, c.M) && count[c.ID] != p.Rounds {
					t.Errorf("M %d has %d samples", c.M, count[c.ID])
				}
			}
			m := newMeasurer(t, d, run, func(c *MeasureConfig) { c.Devices, c.Now = []kernels.Device{d}, d.Now })
			got, err := m.Measure(context.Background(), confirmations(12, 13, 14), 5)
			if err != nil || len(got[0]) != 5 || len(got[1]) != 0 || len(got[2]) != 5 {
				t.Errorf("%d, %d and %d samples, %v", len(got[0]), len(got[1]), len(got[2]), err)
			}
		})
	}
}

// No case is blamed, and the sweep can be resumed.
func TestDeviceLostWithBlocksInFlight(t *testing.T) {
	for _, late := range []bool{false, true} {
		device := func(after int) *simulated.Starter {
			return &simulated.Starter{Late: late, Device: declared(func(c *simulated.Config) { c.LoseAfter = after })}
		}
		p := planned(t, device(0), "1:10", nil)
		run := newRun(t, p)
		d := device(60)
		sum, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now}).Run(context.Background())
		if !errors.Is(err, kernels.ErrDeviceLost) || sum.Status != StatusInterrupted || strings.Count(err.Error(), "after 60 blocks") != 1 {
			t.Fatalf("status %q, error %v", sum.Status, err)
		}
		stored, _ := run.Samples(results.PhaseSweep)
		if failures, _ := run.Failures(); len(failures) != 0 || len(stored) != sum.Samples || len(stored) == 0 {
			t.Errorf("%d samples stored, %d told; cases blamed: %v", len(stored), sum.Samples, failures)
		}
		d = device(0)
		if _, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now}).Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		complete(t, p, run)
	}
}

func TestDeadlineWithBlocksInFlight(t *testing.T) {
	d := &simulated.Starter{Device: declared(nil)}
	p := planned(t, d, "1:40", func(o *Options) { o.Deadline = 200 * time.Millisecond })
	run := newRun(t, p)
	start := d.Now()
	sum, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now}).Run(context.Background())
	if err != nil || sum.Status != StatusDeadline {
		t.Fatalf("status %q, error %v", sum.Status, err)
	}
	if took := d.Now().Sub(start); took > 205*time.Millisecond || took < 190*time.Millisecond {
		t.Errorf("a deadline of 200 ms ended after %v", took)
	}
	if stored, _ := run.Samples(results.PhaseSweep); len(stored) != sum.Samples {
		t.Errorf("%d samples are stored, the summary says %d", len(stored), sum.Samples)
	}
}

func TestMeasuringAgainLosesNothing(t *testing.T) {
	blocks := 0
	ctx, cancel := context.WithCancel(context.Background())
	d := &simulated.Starter{Device: declared(func(c *simulated.Config) {
		c.Observe = func(b simulated.Block) {
			if blocks++; blocks == 25 {
				cancel()
			}
		}
	})}
	run := newRun(t, planned(t, d, "1:3", nil))
	m := newMeasurer(t, d, run, func(c *MeasureConfig) { c.Devices, c.Now = []kernels.Device{d}, d.Now })
	requests := []results.Request{{Case: simCase(64), Phase: results.PhaseConfirm, Group: 1},
		{Case: simCase(32), Phase: results.PhaseConfirm, Group: 1}}
	if _, err := m.Measure(ctx, requests, 2); err != nil || blocks >= 24 {
		t.Fatalf("%d blocks, %v", blocks, err)
	}
	stored, _ := run.Samples(results.PhaseConfirm)
	before, began := len(stored), blocks
	got, err := m.Measure(ctx, requests, 20)
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	stored, _ = run.Samples(results.PhaseConfirm)
	if n := len(got[0]) + len(got[1]); n != len(stored)-before || n != blocks-began || blocks != 25 {
		t.Errorf("%d blocks ran, %d are stored and %d returned", blocks-began, len(stored)-before, n)
	}
}

type stopped struct {
	*simulated.Device
	blocks, again int
	m             int
	in            func(m, block int) bool
}

func (d *stopped) Execute(ctx context.Context, launches []kernels.Launch, n int) (kernels.Span, error) {
	span, err := d.Device.Execute(ctx, launches, n)
	if d.blocks++; err == nil && d.in(d.m, d.blocks) {
		span.Seconds += 0.3
		span.Lost = 300 * time.Millisecond
		span.Disturbance = kernels.Disturbance{Lost: span.Lost, Block: 301 * time.Millisecond}
		d.again++
	}
	return span, err
}

func TestBlocksThatStoodStill(t *testing.T) {
	d := &stopped{}
	d.Device = declared(func(c *simulated.Config) {
		c.Gemms = c.Gemms[:1]
		c.Observe = func(b simulated.Block) { d.m = b.Launches[0].Task.M }
	})
	d.in = func(m, block int) bool { return m == 30 || block%7 == 0 }
	p := planned(t, d, "1:40", nil)
	run := newRun(t, p)
	if _, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now}).Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	cases, err := run.Cases()
	if err != nil {
		t.Fatal(err)
	}
	m := map[int64]int{}
	for _, c := range cases {
		m[c.ID] = c.M
	}
	for _, s := range complete(t, p, run) {
		if still := s.US*float64(s.Launches) > 0.3e6; still != (m[s.CaseID] == 30) || still != (s.Disturbance != "") {
			t.Errorf("%v of m%d takes %g us a launch, %q", s, m[s.CaseID], s.US, s.Disturbance)
		}
	}
	if d.again == 0 {
		t.Error("no block stood still")
	}
}
