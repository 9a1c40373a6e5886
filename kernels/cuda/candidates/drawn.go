package candidates

import (
	"iter"
	"math"
	"math/rand/v2"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Random products: multiples of sideStep for N and K, and rows.
const (
	sideStep            = 64
	leastSide, mostSide = 512, 16384
	mostRows, usualRows = 16384, 1024
	usualOf             = 2. / 3 // of the cases have at most usualRows
	plainOf             = 1. / 6 // have weights stored [K,N]
	drawnStream         = 0x647261776e
)

// Drawn yields an endless sequence of distinct random products. The layers in Grid are few, and constants
// fitted to them only may be far off for other shapes. Half of the cases have uniform sides, the other half
// log-uniform ones.
func Drawn(seed uint64) iter.Seq[Case] {
	return func(yield func(Case) bool) {
		rng := rand.New(rand.NewPCG(seed, drawnStream))
		uniform := func() int { return leastSide + sideStep*rng.IntN((mostSide-leastSide)/sideStep+1) }
		logarithmic := func() int { return sideStep * drawLog(rng, leastSide/sideStep, mostSide/sideStep) }
		seen := map[Case]bool{}
		for i := 0; ; i++ {
			side := uniform
			if i/len(gridTypes)%2 == 1 {
				side = logarithmic
			}
			c := Case{kernels.Product(gridTypes[i%len(gridTypes)], side(), side()), 0}
			if rng.Float64() >= plainOf {
				c.Layout = kernels.Transposed
			}
			most := mostRows
			if rng.Float64() < usualOf {
				most = usualRows
			}
			c.M = drawLog(rng, 1, most)
			if seen[c] {
				continue
			}
			seen[c] = true
			if !yield(c) {
				return
			}
		}
	}
}

func drawLog(rng *rand.Rand, low, high int) int {
	return min(high, int(float64(low)*math.Pow(float64(high+1)/float64(low), rng.Float64())))
}
