package rules

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

func mixed(sigma float64) synthetic.Noise {
	return synthetic.Noise{Name: fmt.Sprintf("mixed %g%%", 100*sigma), Draw: func(r *rand.Rand) float64 {
		return sigma * r.NormFloat64() * math.Exp(0.5*r.NormFloat64())
	}}
}

// Every p-value rests on this: the share of equal rows whose estimate is off by more than the t for p is at
// most about p, far out in the slow tail.
func TestTailsOfEstimates(t *testing.T) {
	t.Parallel()
	levels := []float64{0.1, 0.01, 0.001}
	sweeps := 12
	if testing.Short() {
		sweeps = 3
	}
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "samples\tnoise\tp < 0.1\tp < 0.01\tp < 0.001\tstated error\ttrue error\t")
	for _, n := range []int{5, 7, 10, 15} {
		for _, kind := range []synthetic.Noise{synthetic.Gaussian(0.02), synthetic.Student(0.02), synthetic.Spiky(0.02), mixed(0.015)} {
			w := synthetic.ByM(func(m int) float64 { return float64(m) }, kind, rand.New(rand.NewPCG(1, uint64(n))))
			var counts [3]int
			var total int
			var se, square float64
			for range sweeps {
				points := infer.Prepare(w.Sweep(synthetic.Grid(4, 4096, 4), n), Default().Basis()).Curves[0].Points
				off := make([]float64, len(points))
				for i, p := range points {
					off[i] = p.US.Y - math.Log(float64(p.M))
				}
				centre := stats.Median(off)
				for i, p := range points {
					pv := stats.UpperP((off[i]-centre)/p.US.SE, p.US.DF)
					for k, level := range levels {
						if pv < level {
							counts[k]++
						}
					}
					total++
					se += p.US.SE
					square += (off[i] - centre) * (off[i] - centre)
				}
			}
			fmt.Fprintf(table, "%d\t%s\t", n, kind.Name)
			for k, level := range levels {
				rate := float64(counts[k]) / float64(total)
				fmt.Fprintf(table, "%.5f\t", rate)
				if room := 3 * math.Sqrt(level/float64(total)); rate > level+room {
					t.Errorf("%d samples, %s: p < %v in %.5f of rows", n, kind.Name, level, rate)
				}
			}
			fmt.Fprintf(table, "%.2f %%\t%.2f %%\t\n", 100*se/float64(total), 100*math.Sqrt(square/float64(total)))
		}
	}
	table.Flush()
	t.Log("\n" + text.String())
}

func TestEstimateInterval(t *testing.T) {
	for _, c := range []struct{ confidence, df, t float64 }{{0.95, 10, 2.228139}, {0.99, 10, 3.169273}, {0.95, 30, 2.042272},
		{0.9, 5, 2.015048}} {
		got := stats.Estimate{Y: 1, SE: 0.01, DF: c.df}.Interval(c.confidence, stats.Quantiles{}).Log()
		if math.Abs(got.Mid-1) > 1e-9 || math.Abs(got.Hi-1-0.01*c.t) > 1e-6 || math.Abs(1-got.Lo-0.01*c.t) > 1e-6 {
			t.Errorf("confidence %g, df %g: %+v, expected 1 ± %g", c.confidence, c.df, got, 0.01*c.t)
		}
	}
}
