package cause

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

func TestStepsByLuck(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	for _, density := range []float64{0.03, 0.06, 0.12} {
		named, looked := 0, 0
		for range 12 {
			us, steps := 100.0, map[int]float64{}
			for _, m := range synthetic.Grid(8, 8192, 8) {
				if us += 0.02; rng.Float64() < density {
					us *= 1.05
				}
				steps[m] = us
			}
			data := synthetic.ByM(func(m int) float64 { return steps[m] }, synthetic.Gaussian(0.0005), rng).Sweep(synthetic.Grid(8,
				8192, 8), 5)
			data.Meta.Fingerprint.Devices = []kernels.Spec{{ID: "sim", Units: 132}}
			c := infer.Prepare(data, usual).Curves[0]
			for at := 100; at < len(c.Points); at++ {
				if c.Fall(at) < 0.03 {
					continue
				}
				looked++
				w := &Witness{Curve: c, Row: c.Points[at], Loss: 0.06}
				_, full := w.fullAt(at, 132)
				if _, _, exactly := w.exactAt(at, 132); full || exactly {
					named++
				}
			}
		}
		share := float64(named) / math.Max(float64(looked), 1)
		t.Logf("density %g: %d of %d", density, named, looked)
		if looked < 100 || share > 0.05 {
			t.Errorf("density %g: %d of %d steps by luck are taken for full waves", density, named, looked)
		}
	}
}

// The tiles of unnamed kernels follow from the steps at full waves.
func TestFullWaves(t *testing.T) {
	every := func(period int) func(m int) float64 {
		return func(m int) float64 { return 10 * math.Ceil(float64(m)/float64(period)) }
	}
	once := func(m int) float64 {
		us := 10 + 0.02*float64(m)
		if m > 4224 {
			us *= 1.1
		}
		return us
	}
	for name, tc := range map[string]struct {
		n, units int
		ms       []int
		us       func(m int) float64
		at       int
		want     string // of the explanation
	}{
		"heights that fit M": {
			n: 4096, units: 132, ms: synthetic.Grid(1056, 8448, 8), us: every(264), at: 3176,
			want: "tiles of 96x256 would fill 4 waves of 132 units at m3168, where the time steps up by 8.3 %; other tile heights do the " +
				"same, every 264 rows from m2112 to m8184",
		},
		"tiles 192 wide": {
			n: 3072, units: 132, ms: synthetic.Grid(256, 2056, 8), us: every(64), at: 840,
			want: "tiles of 104x192 would fill 1 wave of 132 units at m832, where the time steps up by 7.6 %; other tile heights do the " +
				"same, every 64 rows from m512 to m2048",
		},
		"one step where a usual tile fills all units": {
			n: 4096, units: 132, ms: synthetic.Grid(2056, 8456, 8), us: once, at: 4232,
			want: "528 tiles of 128x256 would fill 4 waves of 132 units at m4224 to 100.0 %, which is true for ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			machine := synthetic.ByM(tc.us, synthetic.Gaussian(0.0005), rand.New(rand.NewPCG(8, 1)))
			machine.Key.Subject = kernels.Product(kernels.BF16, tc.n, 4096)
			data := machine.Sweep(tc.ms, 5)
			data.Meta.Fingerprint.Devices = []kernels.Spec{{ID: "sim", Units: tc.units}}
			c := infer.Prepare(data, usual).Curves[0]
			at, ok := c.At(tc.at)
			if !ok {
				t.Fatalf("m%d was not measured", tc.at)
			}
			w := &Witness{Curve: c, At: at, Row: c.Points[at], Reference: c.Points[at-1],
				Loss: 0.07}
			cause, why := w.fullWaves()
			if cause != WaveQuantization || !strings.Contains(why, tc.want) {
				t.Errorf("%q: %s, want %s", cause, why, tc.want)
			}
		})
	}
}

func TestFullWavesStandByTheirStep(t *testing.T) {
	data := synthetic.ByM(func(m int) float64 { return 10 * math.Ceil(float64(m)/264) }, synthetic.Gaussian(0.0005),
		rand.New(rand.NewPCG(8, 1))).Sweep(synthetic.Grid(1056, 8448, 8), 5)
	data.Meta.Fingerprint.Devices = []kernels.Spec{{ID: "sim", Units: 132}}
	c := infer.Prepare(data, usual).Curves[0]
	at, _ := c.At(3176) // behind m3168, where 4 waves of tiles 256 wide are full
	for _, tc := range []struct {
		at   int
		loss float64
		ok   bool
	}{{at, 0.38, true}, {at, 0.42, false}, {at + 1, 0.07, false}} {
		w := &Witness{Curve: c, Row: c.Points[tc.at], Loss: tc.loss}
		if f, ok := w.fullAt(tc.at, 132); ok != tc.ok {
			t.Errorf("m%d with a loss of %g: %+v, %v", c.Points[tc.at].M, tc.loss, f, ok)
		}
	}
}

// If tiles fill all units at every M, full waves before a step are no evidence.
func TestExactEverywhere(t *testing.T) {
	data := synthetic.ByM(func(m int) float64 { return 10 + 0.02*float64(m) }, synthetic.Gaussian(0.0005), rand.New(rand.NewPCG(8,
		1))).Sweep(synthetic.Grid(136, 2056,
		128), 5)
	data.Meta.Fingerprint.Devices = []kernels.Spec{{ID: "sim", Units: 16}}
	c := infer.Prepare(data, usual).Curves[0]
	at, _ := c.At(520)
	w := &Witness{Curve: c, Row: c.Points[at], Loss: 0.07}
	if tiles, luck, ok := w.exactAt(at, 16); ok || luck != 1 {
		t.Errorf("tiles %+v, by luck %g, named %v; want all of the Ms and none named", tiles, luck, ok)
	}
}
