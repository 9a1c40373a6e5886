package sweep

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
)

func TestForetell(t *testing.T) {
	p := paces{}
	for m, us := range map[int]float64{1: 10, 8: 10, 64: 20, 128: 41, 256: 80} {
		p.learn(simCase(m), us/1e6)
	}
	split, padded, other := simCase(40), simCase(40), simCase(8)
	split.Parts, padded.PadTo, other.N = []int{8, 32}, 64, 512
	p.learn(split, 1) // irrelevant to M 40
	far := simCase(72)
	far.Parts = []int{8, 64, 512}
	for _, c := range []struct {
		name string
		c    results.Case
		want float64 // microseconds, 0 for unknown
	}{
		{"measured", simCase(64), 20}, {"between equals", simCase(3), 10}, {"between neighbours", simCase(16), 10 * math.Pow(2, 1./3)},
		{"neighbours too far apart", simCase(96), 0}, {"above all", simCase(257), 0},
		{"within the last pair", simCase(200), 41 * math.Pow(80./41, math.Log(200./128)/math.Log(2))},
		{"split", split, 10 + 10*math.Pow(2, 2./3)}, {"split with an unknown part", far, 0}, {"padded", padded, 20},
		{"another series", other, 0},
	} {
		got, ok := p.foretell(c.c)
		if ok != (c.want > 0) || math.Abs(got*1e6-c.want) > 1e-9 {
			t.Errorf("%s: %g us (%v), want %g", c.name, got*1e6, ok, c.want)
		}
	}
	p.learn(simCase(64), 22e-6)
	if got, _ := p.foretell(simCase(64)); got != 22e-6 {
		t.Errorf("measured again: %g", got)
	}
}

// Devices that distinguish first runs also run one launch of each case whose first run is unknown.
func TestPilotsAreFewWhereNeighboursTell(t *testing.T) {
	for name, c := range map[string]struct {
		starts bool
		most   int // blocks other than samples and sentinels, of 200 cases
	}{"first runs are told": {true, 60}, "first runs are not told": {false, 240}} {
		t.Run(name, func(t *testing.T) {
			blocks := 0
			plain := declared(func(c *simulated.Config) {
				c.Gemms = c.Gemms[:1]
				c.Gemms[0].Cost = simulated.Slow(simulated.Linear(1e10, 5e-6), 77, 77, 3)
				c.Observe = func(simulated.Block) { blocks++ }
			})
			var d kernels.Device = plain
			if c.starts {
				d = &simulated.Starter{Device: plain}
			}
			p := planned(t, d, "1:200", nil)
			run := newRun(t, p)
			sum, err := (&Runner{Plan: p, Devices: []kernels.Device{d}, Out: run, Now: plain.Now}).Run(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			sentinels, err := run.Samples(results.PhaseSentinel)
			if err != nil {
				t.Fatal(err)
			}
			if others := blocks - sum.Samples - len(sentinels); others > c.most {
				t.Errorf("%d blocks beside %d samples and %d visits, want at most %d", others, sum.Samples, len(sentinels), c.most)
			}
			cases, err := run.Cases()
			if err != nil {
				t.Fatal(err)
			}
			batch := map[int64]int{}
			for _, c := range cases {
				batch[c.ID] = c.M
			}
			for _, s := range complete(t, p, run) {
				length := s.US * float64(s.Launches)
				if most := max(2000, 2*s.US); s.Round > 0 && (length < 500 || length > most) || length > 3.3*max(1000, s.US) {
					t.Errorf("M %d, round %d: a block of %.0f us", batch[s.CaseID], s.Round, length)
				}
			}
		})
	}
}

// Blocks beyond half and twice of their length are corrected, down to the minimum number of launches.
func TestRefine(t *testing.T) {
	b := testRig(t, declared(nil), kernels.Normal, 1, time.Millisecond, 3)
	for _, c := range []struct {
		n    int
		span float64 // ms
		want int
	}{{20, 1, 20}, {20, 0.51, 20}, {20, 1.99, 20}, {20, 0.4, 50}, {20, 4, 5}, {4, 40, 3}, {3, 40, 3}} {
		s := &station{perBlock: c.n}
		if b.refine(s, c.n, kernels.Span{Seconds: c.span / 1e3}); s.perBlock != c.want {
			t.Errorf("after %d executions in %g ms a block has %d, want %d", c.n, c.span, s.perBlock, c.want)
		}
	}
}
