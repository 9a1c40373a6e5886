package sweep

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
)

// At a power limit of 700 W, the smallest of the Ms from 1 to 80 draw 400 W and the largest 1000 W.
func hungry(limit float64, blocks *[]simulated.Block) *simulated.Device {
	return declared(func(c *simulated.Config) {
		c.Gemms = c.Gemms[:1]
		c.Governor = &simulated.Governor{MaxMHz: 1980, LimitW: limit, IdleW: 100, Memory: 8e-3,
			Watts: func(p kernels.Task) float64 { return 400 + 7.5*float64(p.M) }}
		c.Observe = func(b simulated.Block) { *blocks = append(*blocks, b) }
	})
}

func swept(t *testing.T, d *simulated.Device) (*results.Run, float64) {
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

// Few cases are measured again: those that draw least, most, and both. Without fillers their clocks would
// differ. After a rest the first samples equal the later ones.
func TestMeasuringAgainKeepsTheClockOfTheSweep(t *testing.T) {
	for name, ms := range map[string][]int{
		"draw little": {1, 2, 3, 4, 5, 6}, "draw much": {75, 76, 77, 78, 79, 80}, "both": {1, 80}, "one": {40},
	} {
		t.Run(name, func(t *testing.T) {
			var blocks []simulated.Block
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
				for _, part := range []struct {
					what    string
					samples []results.Sample
					within  float64
				}{{"all", all, 0.03}, {"first", first, 0.06}} {
					if off := medianClock(part.samples)/usual - 1; math.Abs(off) > part.within {
						t.Errorf("after a rest of %v the clock of %s samples is %+.1f %% from the sweep's %.0f MHz", rest, part.what,
							100*off, usual)
					}
				}
				if len(blocks) > 8*len(all)+700 {
					t.Errorf("%d blocks for %d samples", len(blocks), len(all))
				}
			}
			if now, _ := run.Samples(results.PhaseConfirm); len(now) != len(stored)+3*100*len(ms) {
				t.Errorf("%d confirmations are stored beside %d, want %d", len(now)-len(stored), len(stored), 3*100*len(ms))
			}
		})
	}
}

func TestFillersComeFromTheWholeSweep(t *testing.T) {
	var blocks []simulated.Block
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
		count[b.Launches[0].Task.M]++
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

// Many cases together draw as much as the sweep: almost no fillers run. With only the least power, fillers
// run.
func TestNoFillersWhereTheMixtureHoldsTheClock(t *testing.T) {
	var blocks []simulated.Block
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

// Without a power limit or a known clock, only the requested cases run.
func TestNoFillersWithoutALimit(t *testing.T) {
	for name, change := range map[string]func(*simulated.Device) *simulated.Device{
		"limit far away": func(*simulated.Device) *simulated.Device { return nil },
		"no clock": func(*simulated.Device) *simulated.Device {
			return declared(func(c *simulated.Config) { c.Gemms, c.ClockMHz = c.Gemms[:1], 0 })
		},
	} {
		t.Run(name, func(t *testing.T) {
			var blocks []simulated.Block
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

func TestFillersYieldToMemory(t *testing.T) {
	var blocks []simulated.Block
	var most int64
	var d *simulated.Device
	d = declared(func(c *simulated.Config) {
		c.Gemms = c.Gemms[:1]
		c.Governor = &simulated.Governor{MaxMHz: 1980, LimitW: 600, IdleW: 100, Memory: 8e-3,
			Watts: func(p kernels.Task) float64 { return 800 }}
		c.Observe = func(b simulated.Block) { blocks, most = append(blocks, b), max(most, d.Used()) }
	})
	p := planned(t, d, "1:20", func(o *Options) { o.Targets = []Target{{N: 256, K: 128}, {N: 512, K: 128}} })
	run := newRun(t, p)
	if _, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: d.Now}).Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	// Six copies of 128 KiB, raw and packed, are 1.6 MB; three of the other matrix are as much.
	m := newMeasurer(t, d, run, func(c *MeasureConfig) { c.MemoryBudget = 2 << 20 })
	blocks, most = nil, 0
	if _, err := m.Measure(context.Background(), confirmations(3, 5), 20); err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks {
		if b.Launches[0].Task.N != 256 {
			t.Fatalf("a filler of %v, whose weights have no room beside those measured", b.Launches[0].Task.Shape())
		}
	}
	if len(blocks) < 45 || most > 2<<20 {
		t.Errorf("%d blocks, %d bytes at most, of a budget of 2 MiB", len(blocks), most)
	}
}

// A clock that soon deviates again doubles the fillers, up to a limit; a long quiet time resets them.
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
