package sweep

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
)

type dawdler struct {
	NoObserver
	device *simulated.Device
	takes  time.Duration
}

func (o *dawdler) Sample(results.Case, results.Sample) { o.device.Advance(o.takes) }

// The observer takes a fifth of a block's time. This adds wall time only on a synchronous device.
func TestHostWorksDuringBlocks(t *testing.T) {
	var runs [2][]results.Sample
	var sums [2]*Summary
	for i := range runs {
		plain := declared(nil)
		var d kernels.Device = plain
		if i == 1 {
			d = &simulated.Starter{Device: plain}
		}
		p := planned(t, d, "1:40", nil)
		run := newRun(t, p)
		sum, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: plain.Now,
			Observer: &dawdler{device: plain, takes: 200 * time.Microsecond}}).Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		runs[i], sums[i] = complete(t, p, run), sum
		cases, err := run.Cases()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			if (c.Label == "") != (c.Kernel == "ours") {
				t.Errorf("%v is labelled %q", c, c.Label)
			}
		}
		var times Times
		if err := json.Unmarshal([]byte(state(t, run, StateTimes)), &times); err != nil || times != sum.Times {
			t.Errorf("times %+v are stored, the summary says %+v (%v)", times, sum.Times, err)
		}
	}
	if e := sums[0].Efficiency; e > 0.87 || sums[0].Times.Journal < 0.04 || sums[0].Times.Hidden != 0 {
		t.Errorf("with the host in between the efficiency is %.3f, times %+v", e, sums[0].Times)
	}
	if e := sums[1].Efficiency; e < 0.98 || sums[1].Times.Hidden < 0.04 || sums[1].Times.Journal > 0.006 {
		t.Errorf("beside blocks the efficiency is %.3f, times %+v", e, sums[1].Times)
	}
	for i := range runs[0] {
		if a, b := runs[0][i], runs[1][i]; a.CaseID != b.CaseID || a.Round != b.Round || a.US != b.US || a.PowerW != b.PowerW {
			t.Fatalf("sample %d is %+v with the host in between and %+v beside blocks", i, a, b)
		}
	}
}

// After an interruption every finished block is stored, and resuming completes the plan.
func TestNothingMeasuredIsLost(t *testing.T) {
	for _, stop := range []int{1, 2, 7, 12, 23} {
		var ended int
		d := &simulated.Starter{Device: declared(func(c *simulated.Config) { c.Gemms = c.Gemms[:1] })}
		p := planned(t, d, "1:8", nil)
		run := newRun(t, p)
		ctx, cancel := context.WithCancel(context.Background())
		w := &watcher{at: func(n int) {
			if ended = n; n == stop {
				cancel()
			}
		}}
		sum, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Observer: w, Now: d.Now}).Run(ctx)
		var interrupted *InterruptedError
		if !errors.As(err, &interrupted) && stop < 23 {
			t.Fatalf("stopped at %d: %v", stop, err)
		}
		stored, err := run.Samples(results.PhaseSweep)
		if err != nil || len(stored) != sum.Samples || ended != len(stored) || len(stored) > stop+1 || len(stored) < stop {
			t.Errorf("stopped at %d: %d samples are stored, %d told, the summary says %d (%v)", stop, len(stored), ended, sum.Samples, err)
		}
		if _, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now}).Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		complete(t, p, run)
	}
}

// The run file is closed during a sweep that stores samples asynchronously.
func TestFailingJournalEndsTheSweep(t *testing.T) {
	d := &simulated.Starter{Device: declared(nil)}
	p := planned(t, d, "1:8", nil)
	run := newRun(t, p)
	w := &watcher{at: func(n int) {
		if n == 5 {
			run.Close()
		}
	}}
	sum, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Observer: w, Now: d.Now}).Run(context.Background())
	if err == nil || sum.Status != StatusInterrupted || sum.Samples != 5 {
		t.Errorf("%d samples, status %s, %v", sum.Samples, sum.Status, err)
	}
	if _, blocks := d.Busy(); blocks > 60 {
		t.Errorf("%d blocks ran although nothing could be stored after the fifth sample", blocks)
	}
}

func TestLargestTimes(t *testing.T) {
	got := Times{SetUp: 0.4, Launching: 2, Journal: 0.4, Other: 0.1, Hidden: 9}.Largest(0.3)
	if want := []Part{{"launching", 2}, {"set-up", 0.4}, {"storing samples", 0.4}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
