package sweep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
)

type slowAllocator struct {
	*simulated.Device
	cost   time.Duration
	allocs int
	fail   func(n int, bytes int64) error
}

func (d *slowAllocator) Alloc(bytes int64) (kernels.Buffer, error) {
	d.allocs++
	if d.fail != nil {
		if err := d.fail(d.allocs, bytes); err != nil {
			return nil, err
		}
	}
	d.Advance(d.cost)
	return d.Device.Alloc(bytes)
}

func allocations(seen []results.Sample) map[int][]int {
	out := map[int][]int{}
	for _, s := range seen {
		if !slices.Contains(out[s.Round], s.Allocation) {
			out[s.Round] = append(out[s.Round], s.Allocation)
		}
	}
	return out
}

type keeper struct {
	NoObserver
	sweep []results.Sample
}

func (k *keeper) Sample(_ results.Case, s results.Sample) {
	if s.Phase == results.PhaseSweep {
		k.sweep = append(k.sweep, s)
	}
}

// Each round has its own allocation within its share of the time; every look begins with a new one.
func TestOperandsAreAllocatedAnew(t *testing.T) {
	for _, c := range []struct {
		name        string
		cost        time.Duration
		least, most int // allocations of the screening rounds, after the first
	}{
		// A round is about 90 ms, and moving takes nine allocations.
		{"free", 0, 11, 11},
		{"within the share", 50 * time.Microsecond, 11, 11},
		{"every few rounds", 350 * time.Microsecond, 2, 4},
		{"looks only", 50 * time.Millisecond, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &slowAllocator{Device: declared(func(c *simulated.Config) { c.Gemms = c.Gemms[:1] }), cost: c.cost}
			p := planned(t, d, "1:80", func(o *Options) { o.Rounds, o.Screening = 20, 12 })
			seen := &keeper{}
			run := newRun(t, p)
			_, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Observer: seen, Now: d.Now,
				Chooser: chooser{[]int{4, 7}, 20}}).Run(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			rounds := allocations(seen.sweep)
			for round, of := range rounds {
				if len(of) != 1 {
					t.Fatalf("round %d has the allocations %v", round, of)
				}
			}
			if rounds[0][0] != 1 {
				t.Errorf("the first allocation is number %d", rounds[0][0])
			}
			if n := rounds[11][0] - 1; n < c.least || n > c.most {
				t.Errorf("allocated %d times anew in twelve rounds, want %d to %d", n, c.least, c.most)
			}
			if rounds[12][0] != rounds[11][0]+1 || rounds[18][0] <= rounds[17][0] {
				t.Errorf("allocations %v: want a new one at the looks after 12 and 18 rounds", rounds)
			}
			if d.Used() != 0 {
				t.Errorf("%d bytes are still allocated", d.Used())
			}
		})
	}
}

func TestMovedOperandsHoldTheSame(t *testing.T) {
	for name, memory := range map[string]int64{"side by side": 1 << 30, "one after the other": 2200 << 10} {
		t.Run(name, func(t *testing.T) {
			d := declared(func(c *simulated.Config) { c.MemoryBytes = memory })
			b := testRig(t, d, kernels.Normal, 3, time.Millisecond, 1)
			b.budget = memory
			cases := []results.Case{simCase(16), simCase(40)}
			cases[1].Kernel = "theirs"
			if failed, err := b.load(t.Context(), demands(cases, b.spec.LastLevelCacheBytes)); err != nil || failed != nil {
				t.Fatal(failed, err)
			}
			if err := b.reserve(t.Context(), cases); err != nil {
				t.Fatal(err)
			}
			stations := []*station{{c: cases[0]}, {c: cases[1]}}
			for _, s := range stations {
				if _, err := b.block(t.Context(), s, 8); err != nil {
					t.Fatal(err)
				}
			}
			content := func() (out [][]byte) {
				set := b.sets[matrixOf(cases[0])]
				for _, buffer := range append(slices.Clone(set.raw), b.activations[kernels.FP32].a) {
					data := make([]byte, buffer.Bytes())
					if err := buffer.Download(0, data); err != nil {
						t.Fatal(err)
					}
					out = append(out, data)
				}
				return out
			}
			before, raw, used, next := content(), b.sets[matrixOf(cases[0])].raw[0], d.Used(), b.sets[matrixOf(cases[0])].next
			if err := b.reallocate(t.Context(), source(1)); err != nil {
				t.Fatal(err)
			}
			set := b.sets[matrixOf(cases[0])]
			if set.raw[0] == raw || set.next != next || b.allocation != 2 {
				t.Errorf("moved: %v, the next copy is %d and was %d, allocation %d", set.raw[0] != raw, set.next, next, b.allocation)
			}
			if !slices.EqualFunc(before, content(), bytes.Equal) {
				t.Error("the content has changed")
			}
			for _, s := range stations {
				old := s.form
				if _, err := b.block(t.Context(), s, 8); err != nil {
					t.Error(err)
				}
				if s.form == old {
					t.Errorf("%v still runs on what it was bound to", s.c)
				}
			}
			if d.Used() != used {
				t.Errorf("%d bytes are in use, before it were %d", d.Used(), used)
			}
			if err := b.close(); err != nil || d.Used() != 0 {
				t.Errorf("%d bytes are left, %v", d.Used(), err)
			}
		})
	}
}

// Memory runs out during a move, temporarily or permanently. The sweep continues once memory is back, or
// reports the failed cases.
func TestLostOperandsAreLoadedAgain(t *testing.T) {
	for name, forGood := range map[string]bool{"for a while": false, "for good": true} {
		t.Run(name, func(t *testing.T) {
			d := &slowAllocator{Device: declared(func(c *simulated.Config) { c.Gemms = c.Gemms[:1] })}
			p := planned(t, d, "1:10", nil)
			until := 0
			d.fail = func(n int, bytes int64) error {
				// Six copies, A and C are eight allocations.
				if n > 8 && until == 0 {
					if until = n + 12; forGood {
						until = 1 << 30
					}
				}
				if n > 8 && n < until {
					return fmt.Errorf("no room for %d bytes", bytes)
				}
				return nil
			}
			run := newRun(t, p)
			w := &watcher{}
			sum, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Observer: w, Now: d.Now}).Run(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if !w.said("allocate again") {
				t.Errorf("it said %q", w.messages)
			}
			failures, err := run.Failures()
			if forGood {
				if len(failures) != 10 || sum.Samples != 10 || err != nil {
					t.Errorf("%d failures, %d samples, %v", len(failures), sum.Samples, err)
				}
				return
			}
			if err != nil || sum.Samples+sum.Failures < 20 {
				t.Errorf("%d samples, %d failures, %v", sum.Samples, sum.Failures, err)
			}
		})
	}
	d := &slowAllocator{Device: declared(nil)}
	p := planned(t, d, "1:10", nil)
	d.fail = func(n int, _ int64) error {
		if n > 8 {
			return fmt.Errorf("alloc: %w", kernels.ErrDeviceLost)
		}
		return nil
	}
	if _, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: newRun(t, p), Now: d.Now}).Run(context.Background()); !errors.Is(err,
		kernels.ErrDeviceLost) {
		t.Errorf("error %v, want a lost device", err)
	}
}

// Rounds have separate allocations if these are free, and few if they are costly.
func TestMeasuringAgainAllocatesAnew(t *testing.T) {
	for _, c := range []struct {
		cost        time.Duration
		least, most int
	}{{0, 10, 10}, {20 * time.Millisecond, 2, 2}} {
		d := &slowAllocator{Device: declared(nil), cost: c.cost}
		m := newMeasurer(t, d, nil, func(cfg *MeasureConfig) { cfg.Now = d.Now })
		for call := range 2 {
			got, err := m.Measure(context.Background(), confirmations(8, 16, 24), 10)
			if err != nil {
				t.Fatal(err)
			}
			distinct := map[int]bool{}
			for round := range 10 {
				for _, samples := range got {
					if samples[round].Allocation != got[0][round].Allocation {
						t.Fatalf("call %d, round %d has two allocations", call, round)
					}
				}
				distinct[got[0][round].Allocation] = true
			}
			if call == 0 && (len(distinct) < c.least || len(distinct) > c.most) {
				t.Errorf("ten rounds on %d allocations that take %v each, want %d to %d", len(distinct), c.cost, c.least, c.most)
			}
		}
	}
}
