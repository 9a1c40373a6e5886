package sweep

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/kerneltest"
	"github.com/gemmaudit/gemmaudit/results"
)

// hungry is a device at a power limit of 700 W on which the smallest of the Ms from 1 to 80
// draw 400 W and the largest 1000 W; blocks is what it runs.
func hungry(limit float64, blocks *[]kerneltest.Block) *kerneltest.Device {
	return simulated(func(c *kerneltest.Config) {
		c.Gemms = c.Gemms[:1]
		c.Governor = &kerneltest.Governor{MaxMHz: 1980, LimitW: limit, IdleW: 100, Memory: 8e-3,
			Watts: func(p kernels.Problem) float64 { return 400 + 7.5*float64(p.M) }}
		c.Observe = func(b kerneltest.Block) { *blocks = append(*blocks, b) }
	})
}

// swept is a run of that device.
func swept(t *testing.T, d *kerneltest.Device) (*results.Run, float64) {
	t.Helper()
	p := planned(t, d, "1:80", func(o *Options) { o.Rounds = 4; o.Sentinel.Blocks, o.Sentinel.Every = 1000, time.Second })
	run := newRun(t, p)
	if _, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now}).Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	samples, err := run.Samples(results.PhaseSweep)
	if err != nil {
		t.Fatal(err)
	}
	return run, medianClock(samples)
}

func confirmations(ms ...int) (out []results.Request) {
	for _, m := range ms {
		out = append(out, results.Request{Case: simCase(m), Phase: results.PhaseConfirm})
	}
	return out
}

// TestMeasuringAgainKeepsTheClockOfTheSweep measures few cases of a sweep that was at the
// power limit: those that draw least, most, and both, whose clocks would otherwise be
// others. After a rest the first samples are as the later ones.
func TestMeasuringAgainKeepsTheClockOfTheSweep(t *testing.T) {
	for name, ms := range map[string][]int{
		"draw little": {1, 2, 3, 4, 5, 6}, "draw much": {75, 76, 77, 78, 79, 80}, "both": {1, 80}, "one": {40},
	} {
		t.Run(name, func(t *testing.T) {
			var blocks []kerneltest.Block
			d := hungry(600, &blocks)
			run, usual := swept(t, d)
			if usual > 1900 {
				t.Fatalf("the sweep ran at %g MHz, which is not at its limit", usual)
			}
			stored, _ := run.Samples(results.PhaseConfirm)
			m := newMeasurer(t, d, run, nil)
			for _, rest := range []time.Duration{0, time.Minute, 100 * time.Millisecond} {
				d.Advance(rest)
				blocks = nil
				got, err := m.Measure(context.Background(), confirmations(ms...), 100)
				if err != nil {
					t.Fatal(err)
				}
				var all, first []results.Sample
				for _, samples := range got {
					if len(samples) != 100 {
						t.Fatalf("%d samples of 100", len(samples))
					}
					all, first = append(all, samples...), append(first, samples[:5]...)
				}
				// The governor itself wanders by some percent over five blocks.
				for _, part := range []struct {
					what    string
					samples []results.Sample
					within  float64
				}{{"all", all, 0.03}, {"first", first, 0.06}} {
					if off := medianClock(part.samples)/usual - 1; math.Abs(off) > part.within {
						t.Errorf("after a rest of %v the clock of %s samples is %+.1f %% from the sweep's %.0f MHz", rest, part.what, 100*off, usual)
					}
				}
				if len(blocks) > 8*len(all)+700 {
					t.Errorf("%d blocks for %d samples", len(blocks), len(all))
				}
			}
			// Fillers are no samples.
			if now, _ := run.Samples(results.PhaseConfirm); len(now) != len(stored)+3*100*len(ms) {
				t.Errorf("%d confirmations are stored beside %d, want %d", len(now)-len(stored), len(stored), 3*100*len(ms))
			}
		})
	}
}

// TestFillersComeFromTheWholeSweep counts which cases run between the measured ones.
func TestFillersComeFromTheWholeSweep(t *testing.T) {
	var blocks []kerneltest.Block
	d := hungry(600, &blocks)
	run, _ := swept(t, d)
	m := newMeasurer(t, d, run, nil)
	blocks = nil
	if _, err := m.Measure(context.Background(), confirmations(30, 33), 400); err != nil {
		t.Fatal(err)
	}
	blocks = nil // without the warm-up
	if _, err := m.Measure(context.Background(), confirmations(30, 33), 400); err != nil {
		t.Fatal(err)
	}
	count := map[int]int{}
	for _, b := range blocks {
		count[b.Launches[0].Problem.M]++
	}
	least, most := math.MaxInt, 0
	for m := 1; m <= 80; m++ {
		if m != 30 && m != 33 {
			least, most = min(least, count[m]), max(most, count[m])
		}
	}
	if least < 3 || most > 200 {
		t.Errorf("of 78 cases in between one ran %d and one %d times", least, most)
	}
}

// TestNoFillersWhereTheMixtureHoldsTheClock measures many cases, which draw together what the
// sweep drew: next to nothing runs between them, and their clocks are the sweep's. Once only
// those that draw least are measured, fillers run.
func TestNoFillersWhereTheMixtureHoldsTheClock(t *testing.T) {
	var blocks []kerneltest.Block
	d := hungry(600, &blocks)
	run, usual := swept(t, d)
	m := newMeasurer(t, d, run, nil)
	var many, few []int
	for i := 1; i <= 80; i += 2 {
		many = append(many, i)
	}
	few = many[:6]
	if _, err := m.Measure(context.Background(), confirmations(many...), 1); err != nil { // warms up
		t.Fatal(err)
	}
	for _, c := range []struct {
		name        string
		ms          []int
		least, most float64 // fillers a sample
	}{{"many", many, 0, 0.3}, {"few", few, 1, 8}, {"many again", many, 0, 0.3}} {
		blocks = nil
		got, err := m.Measure(context.Background(), confirmations(c.ms...), 100)
		if err != nil {
			t.Fatal(err)
		}
		all := slices.Concat(got...)
		if fillers := float64(len(blocks)-len(all)) / float64(len(all)); fillers < c.least || fillers > c.most {
			t.Errorf("%s: %.2f fillers a sample, want %g to %g", c.name, fillers, c.least, c.most)
		}
		if off := medianClock(all)/usual - 1; math.Abs(off) > 0.035 {
			t.Errorf("%s: the clock is %+.1f %% from the sweep's %.0f MHz", c.name, 100*off, usual)
		}
	}
}

// TestNoFillersWithoutALimit: where no power limit held the sweep back, or the device tells
// no clock, only what was asked for runs.
func TestNoFillersWithoutALimit(t *testing.T) {
	for name, change := range map[string]func(*kerneltest.Device) *kerneltest.Device{
		"limit far away": func(*kerneltest.Device) *kerneltest.Device { return nil },
		"no clock": func(*kerneltest.Device) *kerneltest.Device {
			return simulated(func(c *kerneltest.Config) { c.Gemms, c.ClockMHz = c.Gemms[:1], 0 })
		},
	} {
		t.Run(name, func(t *testing.T) {
			var blocks []kerneltest.Block
			d := hungry(5000, &blocks)
			if other := change(d); other != nil {
				d = other
			}
			run, _ := swept(t, d)
			m := newMeasurer(t, d, run, nil)
			_, before := d.Busy()
			if _, err := m.Measure(context.Background(), confirmations(3, 5), 1); err != nil {
				t.Fatal(err)
			}
			_, between := d.Busy()
			if _, err := m.Measure(context.Background(), confirmations(3, 5), 50); err != nil {
				t.Fatal(err)
			}
			_, after := d.Busy()
			if after-between != 100 || between-before < 2 {
				t.Errorf("%d blocks for 100 samples", after-between)
			}
		})
	}
}

// TestFillersYieldToMemory: the weights of what is measured come first, and fillers whose
// operands have no room are left out.
func TestFillersYieldToMemory(t *testing.T) {
	var blocks []kerneltest.Block
	var most int64
	var d *kerneltest.Device
	d = simulated(func(c *kerneltest.Config) {
		c.Gemms = c.Gemms[:1]
		c.Governor = &kerneltest.Governor{MaxMHz: 1980, LimitW: 600, IdleW: 100, Memory: 8e-3, Watts: func(p kernels.Problem) float64 { return 800 }}
		c.Observe = func(b kerneltest.Block) { blocks, most = append(blocks, b), max(most, d.Used()) }
	})
	p := planned(t, d, "1:20", func(o *Options) { o.Targets = []Target{{N: 256, K: 128}, {N: 512, K: 128}} })
	run := newRun(t, p)
	if _, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now}).Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	// Six copies of 128 KiB, raw and packed, are 1.6 MB; of the other matrix three are as much.
	m := newMeasurer(t, d, run, func(c *MeasureConfig) { c.MemoryBudget = 2 << 20 })
	blocks, most = nil, 0
	if _, err := m.Measure(context.Background(), confirmations(3, 5), 20); err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks {
		if b.Launches[0].Problem.N != 256 {
			t.Fatalf("a filler of %v, whose weights have no room beside those measured", b.Launches[0].Problem.Shape)
		}
	}
	if len(blocks) < 45 || most > 2<<20 {
		t.Errorf("%d blocks, %d bytes at most, of a budget of 2 MiB", len(blocks), most)
	}
}

// TestSpellsGrow: a clock that is off again soon after fillers ran gets twice as many of them, up to a bound, and one that was
// quiet for long gets the least.
func TestSpellsGrow(t *testing.T) {
	for _, c := range []struct {
		name               string
		spell, quiet, want int
	}{
		{"at once", 64, 0, 128},
		{"soon", 64, 4*64 - 1, 128},
		{"late", 64, 4 * 64, leastSpell},
		{"at the bound", mostSpell, 10, mostSpell},
	} {
		th := &thermal{ratio: 0.9, level: 1, trend: 1, wander: 0.02, spell: c.spell, quiet: c.quiet}
		if !th.wanted() || th.spell != c.want || th.left != c.want || th.quiet != 0 {
			t.Errorf("%s: a spell of %d, want %d: %+v", c.name, th.spell, c.want, th)
		}
	}
}
