package rules

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// TestStepsByLuck: steps anywhere are not taken for full waves.
func TestStepsByLuck(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	for _, density := range []float64{0.03, 0.06, 0.12} {
		named, looked := 0, 0
		for range 12 {
			us, steps := 100.0, map[int]float64{}
			for _, m := range grid(8, 8192, 8) {
				if us += 0.02; rng.Float64() < density {
					us *= 1.05
				}
				steps[m] = us
			}
			data := byM(func(m int) float64 { return steps[m] }, gaussian(0.0005), rng).sweep(grid(8, 8192, 8), 5)
			data.Meta.Fingerprint.Devices = []kernels.Spec{{ID: "sim", Units: 132}}
			c := prepare(data, Default()).curves[0]
			for at := 100; at < len(c.points); at++ {
				if c.fall(at) < leastStep {
					continue
				}
				looked++
				w := &witness{curve: c, row: c.points[at], loss: 0.06}
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
