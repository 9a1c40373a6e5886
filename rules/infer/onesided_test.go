package infer

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// delayed draws the log time, about 0, of a block on a machine with one-sided noise.
func delayed(rng *rand.Rand) float64 {
	y := 0.01 * rng.NormFloat64()
	if rng.Float64() < 0.4 {
		y += 0.15 * rng.ExpFloat64()
	}
	return y
}

// Delays differ from two-sided noise, outliers and tiny noise; false positives on symmetric noise stay within
// the test's level.
func TestScatterIsTold(t *testing.T) {
	draw := map[string]struct {
		sample func(*rand.Rand) float64
		low    bool
	}{
		"delays":       {delayed, true},
		"small delays": {func(rng *rand.Rand) float64 { return delayed(rng) / 20 }, false},
		"faster":       {func(rng *rand.Rand) float64 { return -delayed(rng) }, false},
		"normal":       {func(rng *rand.Rand) float64 { return 0.1 * rng.NormFloat64() }, false},
		"tails":        {func(rng *rand.Rand) float64 { return 0.1 * rng.NormFloat64() / math.Abs(rng.NormFloat64()) }, false},
		"strays": {func(rng *rand.Rand) float64 {
			if rng.Float64() < 0.05 {
				return 0.3
			}
			return 0.02 * rng.NormFloat64()
		}, false},
	}
	for name, c := range draw {
		rng := rand.New(rand.NewPCG(3, 7))
		wrong := 0
		for range 100 {
			rows := make([]track, 40)
			for i := range rows {
				for range 12 {
					rows[i].y = append(rows[i].y, c.sample(rng))
				}
			}
			if tellScatter(residuals(rows)).Low() != c.low {
				wrong++
			}
		}
		if wrong > 1 {
			t.Errorf("%s: %d of 100 runs are told wrongly", name, wrong)
		}
	}
}

// Coverage of low quantiles' intervals matches their level for any number of samples, without being far too
// wide.
func TestLowQuantileCovers(t *testing.T) {
	truth := make([]float64, 200000)
	rng := rand.New(rand.NewPCG(5, 11))
	for i := range truth {
		truth[i] = delayed(rng)
	}
	at, _, _ := stats.LowQuantile{}.Unsorted(truth[:20000], nil)
	q := stats.Quantiles{}
	for _, n := range []int{7, 12, 20, 35} {
		outside, total, width, off := 0, 0, 0.0, 0.0
		for range 100 {
			points, rows := make([]Point, poolRows), make([][]float64, poolRows)
			for i := range rows {
				for range n {
					rows[i] = append(rows[i], delayed(rng))
				}
			}
			locate(points, func(i int) []float64 { return rows[i] }, true, func(p *Point) *stats.Estimate { return &p.US })
			for _, p := range points {
				half := q.Upper(0.025, p.US.DF) * p.US.SE
				if math.Abs(p.US.Y-at) > half {
					outside++
				}
				total++
				width, off = width+half, off+(p.US.Y-at)*(p.US.Y-at)
			}
		}
		share, wide := float64(outside)/float64(total), width/float64(total)/math.Sqrt(off/float64(total))
		t.Logf("%d samples: %.1f %% outside, half the width %.2f standard errors of %.4f", n, 100*share, wide,
			math.Sqrt(off/float64(total)))
		if share > 0.06 || wide > 3.2 {
			t.Errorf("%d samples: %.1f %% of intervals miss, half their width is %.2f standard errors", n, 100*share, wide)
		}
	}
}
