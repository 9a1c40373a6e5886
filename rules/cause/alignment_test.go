package cause

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

// witnessOf is the witness for the slowest row of a curve over N, with times in microseconds.
func witnessOf(sizes []int, us func(n int) float64) *Witness {
	key := results.SeriesKey{Subject: kernels.Product(kernels.BF16, 0, 4096)}
	key.Along = kernels.Along{Dimension: "n", M: 64}
	c := &infer.Curve{Series: results.Series{Key: key}, Peak: math.Log(1e9)}
	worst, least, best := 0, math.Inf(1), math.Inf(-1)
	for i, n := range sizes {
		p := infer.Point{M: n, Flops: math.Log(key.FLOPs(n)), US: stats.Estimate{Y: math.Log(us(n))}}
		if p.Rate() < least {
			worst, least = i, p.Rate()
		}
		best = math.Max(best, p.Rate())
		c.Points = append(c.Points, p)
	}
	return &Witness{Rows: []Slow{{Point: worst}}, At: worst, Curve: c, Row: c.Points[worst],
		Loss: 1 - math.Exp(least-best)}
}

func TestAlignmentNamesTheModulus(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	noisy := func(us float64) float64 { return us * (1 + 0.01*rng.NormFloat64()) }
	for _, c := range []struct {
		name  string
		sizes []int
		slow  func(n int) bool
		cause Kind
		says  string
	}{
		{"8", synthetic.Grid(4000, 4352, 1), func(n int) bool { return n%8 != 0 }, Alignment, "multiple of 8 from n4"},
		{"2", synthetic.Grid(4000, 4100, 1), func(n int) bool { return n%2 != 0 }, Alignment, "no multiple of 2 "},
		{"64 in steps of 8", synthetic.Grid(3968, 4224, 8), func(n int) bool { return n%64 != 0 }, Alignment, "28 sizes that are"},
		{"128", synthetic.Grid(1024, 2048, 16), func(n int) bool { return n%128 != 0 }, Alignment, "no multiple of 128"},
		{"8 modulo 16", synthetic.Grid(2000, 2200, 1), func(n int) bool { return n%16 == 8 }, Alignment, "sizes with N mod 16 = 8"},
		{"8 modulo 16, even ones", synthetic.Grid(2000, 2200, 4), func(n int) bool { return n%16 == 8 }, Alignment,
			"sizes with N mod 16 = 8"},
		{"one odd size", synthetic.Grid(2000, 2200, 8), func(n int) bool { return n == 2096 }, "", "no modulus of N"},
		{"a range", synthetic.Grid(2000, 2200, 1), func(n int) bool { return n > 2100 }, "", "no modulus of N"},
		{"few sizes", []int{264, 265, 272, 280, 281}, func(n int) bool { return n%8 != 0 }, "", "5 sizes around"},
		{"three of each", []int{264, 265, 272, 273, 280, 281}, func(n int) bool { return n%8 != 0 }, "", "no modulus"},
	} {
		w := witnessOf(c.sizes, func(n int) float64 {
			us := float64(n) / 10
			if c.slow(n) {
				us *= 1.5
			}
			return noisy(us)
		})
		if cause, why := w.alignment(); cause != c.cause || !strings.Contains(why, c.says) {
			t.Errorf("%s: %q: %s; want %q: %s", c.name, cause, why, c.cause, c.says)
		}
	}
}

// As measured on an H200 with cuBLAS in bf16: odd sizes take twelve times as long as multiples of 8, other even
// sizes four times.
func TestAlignmentNamesTheModulusOfTheFastest(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	w := witnessOf(synthetic.Grid(4000, 4352, 1), func(n int) float64 {
		us := float64(n) / 48 * (1 + 0.01*rng.NormFloat64())
		switch {
		case n%2 != 0:
			us *= 12
		case n%8 != 0:
			us *= 4
		}
		return us
	})
	if cause, why := w.alignment(); cause != Alignment || !strings.Contains(why, "no multiple of 8 ") {
		t.Errorf("%q: %s", cause, why)
	}
}

// Tiles waste as much as a bad alignment just after each step, but a larger size never takes less time.
func TestAlignmentIsNotATile(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	w := witnessOf(synthetic.Grid(1024, 2048, 8), func(n int) float64 { return float64((n+127)/128) * (1 + 0.002*rng.NormFloat64()) })
	if cause, why := w.alignment(); cause != "" || !strings.Contains(why, "no larger fast size") {
		t.Errorf("%q: %s", cause, why)
	}
}

// On flat curves, whose slowest size is slow by chance, a modulus is named in at most alignmentP of all.
func TestAlignmentFalseRate(t *testing.T) {
	const curves = 2000
	rng := rand.New(rand.NewPCG(3, 3))
	named := 0
	for i := range curves {
		step, count := 1<<rng.IntN(5), 12+rng.IntN(200)
		sizes := synthetic.Grid(2048, 2048+step*count, step)
		sd, heavy := 0.002+0.03*rng.Float64(), i%2 == 0
		w := witnessOf(sizes, func(n int) float64 {
			off := sd * rng.NormFloat64()
			if heavy && rng.Float64() < 0.1 {
				off += 10 * sd * rng.ExpFloat64()
			}
			return float64(n) * math.Exp(off)
		})
		w.Loss = 1e-6 // any pattern explains it
		if cause, _ := w.alignment(); cause != "" {
			named++
		}
	}
	if most := alignmentP*curves + 3*math.Sqrt(alignmentP*curves); float64(named) > most {
		t.Errorf("a modulus is named in %d of %d flat curves, expected at most %.0f", named, curves, most)
	}
	t.Logf("%d of %d", named, curves)
}
