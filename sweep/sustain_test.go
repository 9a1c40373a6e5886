package sweep

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
)

// metered draws a constant power and counts it in steps.
type metered struct {
	*simulated.Device
	watts float64
	step  time.Duration
	err   error
}

func (d *metered) EnergyMJ() (float64, error) {
	steps := d.Now().Sub(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)) / d.step
	return float64(steps) * d.step.Seconds() * d.watts * 1e3, d.err
}

type meteredStarter struct {
	*metered
	starter *simulated.Starter
}

func (d meteredStarter) Start(ctx context.Context, b kernels.Block) (func() (kernels.Span, error), error) {
	return d.starter.Start(ctx, b)
}

// Energy counters update rarely, and the actual power differs from the telemetry.
func TestSustain(t *testing.T) {
	for name, c := range map[string]struct {
		step   time.Duration
		err    error
		energy bool
	}{
		"fine steps":           {20 * time.Millisecond, nil, true},
		"coarse steps":         {100 * time.Millisecond, nil, true},
		"steps above the span": {350 * time.Millisecond, nil, true},
		"no counter":           {time.Millisecond, errors.New("this card does not"), false},
		"one that stands":      {time.Hour, nil, false},
	} {
		for _, starts := range []bool{false, true} {
			d := &metered{Device: declared(nil), watts: 640, step: c.step, err: c.err}
			var device kernels.Device = d
			if starts {
				device = meteredStarter{d, &simulated.Starter{Device: d.Device}}
			}
			run := newRun(t, planned(t, d, "1:3", nil))
			w := &keeper{}
			m, err := NewMeasurer(MeasureConfig{Devices: []kernels.Device{device}, Out: run, Now: d.Now, Observer: w})
			if err != nil {
				t.Fatal(err)
			}
			began, _ := d.Busy()
			got, err := m.Sustain(context.Background(), []results.Case{simCase(64), simCase(2000)}, SustainSpan)
			if err := errors.Join(err, m.Close()); err != nil || len(got) != 2 {
				t.Fatalf("%s: %d samples, %v", name, len(got), err)
			}
			busy, _ := d.Busy()
			if each := (busy - began) / 2; each < SustainSpan || each > sustainLonger*SustainSpan+100*time.Millisecond {
				t.Errorf("%s: each case ran for %v", name, each)
			}
			for i, s := range got {
				us := 5 + simCase([]int{64, 2000}[i]).FLOPs()/1e10*1e6
				counted := us * float64(s.Launches) / 1e6
				if s.Phase != results.PhaseSustained || math.Abs(s.US-us) > 1e-6*us || math.Abs(s.ClockMHz-2000) > 1e-6 || counted < 0.38 {
					t.Errorf("%s: %v takes %g us at %g MHz over %.2f s, expected %g us at 2000 MHz over 0.4 s", name, s, s.US, s.ClockMHz,
						counted, us)
				}
				if !c.energy {
					if s.EnergyMJ != 0 || s.PowerW != 100 {
						t.Errorf("%s: %g mJ a launch at %g W, expected none and what the telemetry says", name, s.EnergyMJ, s.PowerW)
					}
					continue
				}
				if want := 640 * us / 1e3; math.Abs(s.EnergyMJ/want-1) > 0.11 || math.Abs(s.PowerW/640-1) > 0.11 {
					t.Errorf("%s: %g mJ a launch at %g W, expected %g at 640 W", name, s.EnergyMJ, s.PowerW, want)
				}
			}
			if stored, err := run.Samples(results.PhaseSustained); err != nil || len(stored) != 2 {
				t.Errorf("%s: %d samples are stored, %v", name, len(stored), err)
			}
		}
	}
}

// The clock follows a case's own power, not the previous case's.
func TestSustainedClock(t *testing.T) {
	var blocks []simulated.Block
	d := hungry(600, &blocks)
	run, usual := swept(t, d)
	m := newMeasurer(t, d, run, nil)
	for _, order := range [][]int{{20, 80}, {80, 20}} {
		got, err := m.Sustain(context.Background(), []results.Case{simCase(order[0]), simCase(order[1])}, LeastSustain)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range got {
			want := 1980 * 600 / (400 + 7.5*float64(order[i]))
			if want = min(want, 1980); math.Abs(s.ClockMHz/want-1) > 0.005 {
				t.Errorf("M %d runs by itself at %.0f MHz, expected %.0f; the sweep ran at %.0f", order[i], s.ClockMHz, want, usual)
			}
		}
	}
}

func TestSustainFails(t *testing.T) {
	d := declared(func(c *simulated.Config) {
		c.Gemms[0].ExecuteError = func(p kernels.Task) error {
			if p.M == 13 {
				return errors.New("launch error 719")
			}
			return nil
		}
	})
	run := newRun(t, planned(t, d, "1:3", nil))
	m := newMeasurer(t, d, run, nil)
	got, err := m.Sustain(context.Background(), []results.Case{simCase(13), simCase(12)}, LeastSustain)
	if err != nil || got[0].Launches != 0 || got[1].Launches == 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if failures, err := run.Failures(); err != nil || len(failures) != 1 || failures[0].Phase != results.PhaseSustained {
		t.Errorf("failures %+v, %v", failures, err)
	}
	if _, err := m.Sustain(context.Background(), []results.Case{simCase(12)}, 10*time.Millisecond); err == nil {
		t.Error("ten milliseconds are no steady state")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := m.Sustain(ctx, []results.Case{simCase(12)}, LeastSustain); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// The power meter gives no value two times in three.
type flickering struct {
	*simulated.Device
	asked int
}

func (d *flickering) Telemetry() kernels.Telemetry {
	t := d.Device.Telemetry()
	if d.asked++; d.asked%3 != 0 {
		t.PowerW = 0
	}
	return t
}

// The power of a case is the median of the available readings.
func TestSustainedPower(t *testing.T) {
	d := &flickering{Device: declared(nil)}
	m, err := NewMeasurer(MeasureConfig{Devices: []kernels.Device{d}, Out: newRun(t, planned(t, d, "1:3", nil)), Now: d.Now})
	if err != nil {
		t.Fatal(err)
	}
	got, err := m.Sustain(t.Context(), []results.Case{simCase(64)}, SustainSpan)
	if err := errors.Join(err, m.Close()); err != nil {
		t.Fatal(err)
	}
	if got[0].PowerW != 100 || d.asked < 9 {
		t.Errorf("%g W of %d readings, want 100 W", got[0].PowerW, d.asked)
	}
}
