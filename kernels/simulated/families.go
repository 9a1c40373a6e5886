package simulated

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// A library with families has kernels of several tiles and takes the one it predicts to be fastest at each M.
// It reports its choice before the launch.

var familyTiles = [][2]int{{64, 64}, {64, 128}, {96, 128}, {128, 128}, {192, 128}, {128, 256}, {256, 128}}

type familyKernel struct {
	label      string
	tile       [2]int
	efficiency float64
	belief     float64 // what the library takes its time for, in log time
}

const (
	// beliefSigma is a library's prediction error for a kernel, and stretchSigma the error over beliefRows
	// rows, in log time.
	beliefSigma, stretchSigma = 0.012, 0.01
	beliefRows                = 96
	// waveShare is the share of a kernel's time that is quantized to whole waves; the rest is per tile.
	waveShare = 0.4
	// familyRoughness is the roughness between rows of one kernel, in log time.
	familyRoughness = 0.0008
	// isolatedLeast and isolatedMost are the losses of isolated rows.
	isolatedLeast, isolatedMost = 0.07, 0.2
)

func drawFamilies(rng *rand.Rand) []familyKernel {
	var out []familyKernel
	for _, t := range familyTiles {
		size := float64(t[0]*t[1]) / (256 * 128)
		out = append(out, familyKernel{
			label: fmt.Sprintf("tile %dx%d", t[0], t[1]), tile: t,
			efficiency: math.Pow(size, 0.12) * (0.97 + 0.06*rng.Float64()), belief: beliefSigma * rng.NormFloat64(),
		})
	}
	return out
}

// work returns a kernel's work for an M, in FLOPs of busy units.
func (k familyKernel) work(at, n, depth int, products float64) (work, waves float64) {
	tiles := math.Ceil(float64(at)/float64(k.tile[0])) * math.Ceil(float64(n)/float64(k.tile[1])) * products
	waves = tiles / units
	each := 2 * float64(k.tile[0]) * float64(k.tile[1]) * float64(depth)
	return units * each * (waveShare*math.Ceil(waves) + (1-waveShare)*waves) / k.efficiency, waves
}

func (m *Machine) choose(c *curve, at int) (k familyKernel, work float64, tiling kernels.Tiling) {
	least := math.Inf(1)
	for i, candidate := range c.families {
		w, waves := candidate.work(at, m.cfg.N, m.cfg.K, m.products())
		error := stretchSigma * normal(mix(m.cfg.Seed, uint64(i), uint64(at/beliefRows)))
		if believed := math.Log(w) + candidate.belief + error; believed < least {
			least, k, work = believed, candidate, w
			tiling = kernels.Tiling{Tile: [3]int{candidate.tile[0], candidate.tile[1]}, Waves: waves, Split: 1}
		}
	}
	return k, work, tiling
}

func (m *Machine) isolated(kernel string, at int) float64 {
	rng := rand.New(rand.NewPCG(m.hash(kernel, at), 0x616c6f6e65))
	if rng.Float64() >= m.cfg.Isolated {
		return 0
	}
	return isolatedLeast + (isolatedMost-isolatedLeast)*rng.Float64()
}

// Isolated reports whether a row is slow without a reason visible in its kernel or neighbors.
func (m *Machine) Isolated(kernel string, at int) bool { return m.isolated(kernel, at) > 0 }
