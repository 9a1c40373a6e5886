package rules

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"text/tabwriter"
)

// mixed is noise whose size differs from moment to moment: a quiet machine that
// is loud now and then.
func mixed(sigma float64) noise {
	return noise{fmt.Sprintf("mixed %g%%", 100*sigma), func(r *rand.Rand) float64 {
		return sigma * r.NormFloat64() * math.Exp(0.5*r.NormFloat64())
	}}
}

// TestTailsOfEstimates checks what every p-value rests on: of rows with equal
// truth, the share whose estimate is off by more than the t for p is about p
// and not more, far out in the tail and on the side of too slow.
func TestTailsOfEstimates(t *testing.T) {
	t.Parallel()
	levels := []float64{0.1, 0.01, 0.001}
	sweeps := 30
	if testing.Short() {
		sweeps = 3
	}
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "samples\tnoise\tp < 0.1\tp < 0.01\tp < 0.001\tstated error\ttrue error\t")
	for _, n := range []int{5, 7, 10, 15} {
		for _, kind := range []noise{gaussian(0.02), student(0.02), spiky(0.02), mixed(0.015)} {
			w := byM(func(m int) float64 { return float64(m) }, kind, rand.New(rand.NewPCG(1, uint64(n))))
			var counts [3]int
			var total int
			var se, square float64
			for range sweeps {
				points := prepare(w.sweep(grid(4, 4096, 4), n), Default()).curves[0].points
				off := make([]float64, len(points))
				for i, p := range points {
					off[i] = p.us.y - math.Log(float64(p.m))
				}
				centre := median(off)
				for i, p := range points {
					pv := upperP((off[i]-centre)/p.us.se, p.us.df)
					for k, level := range levels {
						if pv < level {
							counts[k]++
						}
					}
					total++
					se += p.us.se
					square += (off[i] - centre) * (off[i] - centre)
				}
			}
			fmt.Fprintf(table, "%d\t%s\t", n, kind.name)
			for k, level := range levels {
				rate := float64(counts[k]) / float64(total)
				fmt.Fprintf(table, "%.5f\t", rate)
				if room := 3 * math.Sqrt(level/float64(total)); rate > level+room {
					t.Errorf("%d samples, %s: p < %v in %.5f of rows", n, kind.name, level, rate)
				}
			}
			fmt.Fprintf(table, "%.2f %%\t%.2f %%\t\n", 100*se/float64(total), 100*math.Sqrt(square/float64(total)))
		}
	}
	table.Flush()
	t.Log("\n" + text.String())
}
