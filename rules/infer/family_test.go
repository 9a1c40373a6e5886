package infer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

func TestCombine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "rows")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		x, weight := make([][terms]float64, n), make([]float64, n)
		for i := range x {
			for j := range terms {
				x[i][j] = rng.Float64()
			}
			weight[i] = 0.1 + rng.Float64()
		}
		rest := func(b [terms]float64) (sum float64) {
			for i := range x {
				off := -1.0
				for j := range terms {
					off += b[j] * x[i][j]
				}
				sum += weight[i] * off * off
			}
			return sum
		}
		best := combine(x, weight)
		least := rest(best)
		total := 0.0
		for _, w := range weight {
			total += w
		}
		for range 200 {
			try := best
			for j := range terms {
				if best[j] < 0 {
					t.Fatalf("factors %v", best)
				}
				try[j] = math.Max(0, try[j]+0.3*rng.NormFloat64()*rng.Float64())
			}
			if better := rest(try); better < least-2*terms*termPrice*total-1e-6*least {
				t.Fatalf("%v leaves %g, %v leaves %g", best, least, try, better)
			}
		}
	})
}

func TestTermsHaveToBeWorthIt(t *testing.T) {
	for _, tc := range []struct {
		saves float64
		want  int // terms
	}{{0, 1}, {0.5e-4, 1}, {2e-4, 2}, {0.01, 2}} {
		x, weight := make([][terms]float64, 40), make([]float64, 40)
		for i := range x {
			d := 2 * tc.saves * float64(i%2)
			x[i][0], x[i][1], weight[i] = 1-d, d, 1
		}
		got := 0
		for _, b := range combine(x, weight) {
			if b > 0 {
				got++
			}
		}
		if got != tc.want {
			t.Errorf("a second term that saves %g: %d terms, expected %d", tc.saves, got, tc.want)
		}
	}
}

func TestSolve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, mostSystem).Draw(t, "n")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		var root, a matrix
		for i := range n {
			for j := range n {
				root[i][j] = rng.NormFloat64()
			}
		}
		for i := range n {
			for j := range n {
				for k := range n {
					a[i][j] += root[i][k] * root[j][k]
				}
			}
			a[i][i] += 0.1
		}
		b := make([]float64, n)
		for i := range b {
			b[i] = rng.NormFloat64()
		}
		f, x := a, slices.Clone(b)
		if !f.factor(n) {
			t.Fatal("no factor")
		}
		f.solve(x)
		for i := range n {
			sum := -b[i]
			for j := range n {
				sum += a[i][j] * x[j]
			}
			if math.Abs(sum) > 1e-6 {
				t.Fatalf("row %d is off by %g", i, sum)
			}
		}
	})
	var a matrix
	a[0][0] = -1
	if a.factor(1) {
		t.Error("a negative matrix has a factor")
	}
}

func TestOrientation(t *testing.T) {
	for _, turned := range []bool{false, true} {
		kind := results.LaunchKind{Label: "k", Tile: [3]int{64, 256, 32}, Split: 1, Orientation: kernels.OrientationUnknown}
		f := &Family{Kind: familyOf(kind), n: 4096, units: 132}
		var points []Point
		rng := rand.New(rand.NewPCG(1, 1))
		for m := 64; m <= 4096; m += 104 {
			truth := kind
			if turned {
				truth.Tile[0], truth.Tile[1] = truth.Tile[1], truth.Tile[0]
			}
			waves := math.Ceil(float64(truth.Tiles(m, 4096)) / 132)
			f.Rows = append(f.Rows, FamilyRow{M: m, kind: &kind, Point: len(points)})
			points = append(points,
				Point{M: m, N: 7, US: stats.Estimate{Y: math.Log(3+20*waves) + 0.001*rng.NormFloat64(), SE: 0.001, DF: 12, Open: 0}})
		}
		l := fitLine(f, points, func(Point) bool { return true }, func(FamilyRow) bool { return false }, usualScatter)
		if l.layout.turned != turned || l.layout.slots != 132 {
			t.Errorf("turned %v: layout %+v", turned, l.layout)
		}
	}
}

// A cluster takes slots even for tiles outside of C, and the times show the clusters' orientation.
func TestClusters(t *testing.T) {
	for _, c := range []struct {
		name   string
		padded [2]int
	}{{"along M", [2]int{2, 1}}, {"along N", [2]int{1, 2}}, {"none", [2]int{}}} {
		t.Run(c.name, func(t *testing.T) {
			kind := results.LaunchKind{Label: "k", Tile: [3]int{192, 192, 64}, Split: 1, Slots: 132}
			if c.padded != [2]int{} {
				kind.Cluster = [3]int{2, 1, 1}
			}
			f := &Family{Kind: familyOf(kind), n: 14336, units: 132}
			rng := rand.New(rand.NewPCG(1, 1))
			var points []Point
			var truth []float64
			for m := 192; m <= 192*120; m += 192 {
				tiles := [2]int{m / 192, 75}
				for i, n := range c.padded {
					tiles[i] = (tiles[i] + max(n, 1) - 1) / max(n, 1) * max(n, 1)
				}
				waves := math.Ceil(float64(tiles[0]*tiles[1]) / 132)
				truth = append(truth, math.Log(3+20*waves))
				p := -1
				if len(truth)%5 < 2 {
					p = len(points)
					points = append(points, Point{M: m, N: 7,
						US: stats.Estimate{Y: truth[len(truth)-1] + 0.001*rng.NormFloat64(), SE: 0.001, DF: 12, Open: 0}})
				}
				f.Rows = append(f.Rows, FamilyRow{M: m, kind: &kind, Point: p})
			}
			l := fitLine(f, points, func(Point) bool { return true }, func(FamilyRow) bool { return false }, usualScatter)
			if l.layout.padded != c.padded {
				t.Errorf("layout %+v", l.layout)
			}
			for i, r := range f.Rows {
				if off := l.at(f.terms(r, l.layout)) - truth[i]; math.Abs(off) > 0.003 {
					t.Errorf("m%d is foretold %.2f %% off", r.M, 100*off)
				}
			}
		})
	}
}

func TestChecksByChance(t *testing.T) {
	kind := results.LaunchKind{Label: "k", Tile: [3]int{128, 128, 64}, Split: 1, Slots: 132}
	f := &FittedFamily{Family: &Family{Kind: familyOf(kind), n: 4096, units: 132}}
	var points []Point
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 120 {
		m := 128 * (i + 1)
		off := 0.001 * rng.NormFloat64()
		check := i%6 == 3
		if check && i%24 == 3 {
			off = 0.006
		}
		f.Rows = append(f.Rows, FamilyRow{M: m, kind: &kind, Point: i, check: check})
		points = append(points,
			Point{M: m, N: 7, US: stats.Estimate{Y: math.Log(3+20*math.Ceil(float64(32*(i+1))/132)) + off, SE: 0.001, DF: 12, Open: 0}})
	}
	serves := func(Point) bool { return true }
	for _, c := range []struct {
		families int
		failed   bool
	}{{1, true}, {40, false}} {
		g := &FittedFamily{Family: f.Family}
		g.check(points, serves, usualScatter, chanceLevel/float64(c.families), stats.Quantiles{})
		if out := g.checked - g.inside; out != 4 || g.Failed != c.failed {
			t.Errorf("one of %d: %d checked, %d inside, failed %v", c.families, g.checked, g.inside, g.Failed)
		}
	}
}

// In a family whose ends were not measured, as after a deadline, rows far from the measured ones stay open.
func TestBeyond(t *testing.T) {
	kind := results.LaunchKind{Label: "k", Tile: [3]int{240, 128, 64}, Split: 1, Slots: 132}
	f := &Family{Kind: familyOf(kind), n: 28672, units: 132}
	var points []Point
	for m := 13000; m <= 30000; m += 100 {
		r := FamilyRow{M: m, kind: &kind, Point: -1}
		if 14000 <= m && m <= 15000 {
			r.Point = len(points)
			points = append(points, Point{M: m, N: 7, US: stats.Estimate{Y: math.Log(0.19 * float64(m)), SE: 0.001, DF: 12, Open: 0}})
		}
		f.Rows = append(f.Rows, r)
	}
	for _, n := range []int{2, len(points)} {
		measured := 0
		few := *f
		few.Rows = slices.Clone(f.Rows)
		for i := range few.Rows {
			if few.Rows[i].Point >= 0 {
				if measured++; measured > n {
					few.Rows[i].Point = -1
				}
			}
		}
		l := fitLine(&few, points, func(Point) bool { return true }, func(FamilyRow) bool { return false }, usualScatter)
		caster := l.forecaster()
		for _, r := range few.Rows {
			if r.Point >= 0 {
				continue
			}
			p := caster.predict(r)
			near := n > 2 && r.M >= 13400 && r.M <= 15700
			if told := p.SE < 0.02; told != near {
				t.Errorf("%d measured: m%d is foretold to %.1f %%", n, r.M, 100*p.SE)
			}
			if off := p.Y - math.Log(0.19*float64(r.M)); near && math.Abs(off) > 0.01 {
				t.Errorf("m%d is foretold %.1f %% off", r.M, 100*off)
			}
		}
	}
}

// Unnamed kernels are one piece while the time is a line in M; a jump starts the next.
func TestPieces(t *testing.T) {
	for _, c := range []struct {
		name  string
		us    []float64
		label string
		want  []int
	}{
		{"a line", []float64{11, 12, 13, 14, 15, 16}, "", []int{0, 0, 0, 0, 0, 0}},
		{"a jump", []float64{11, 12, 13, 24, 25, 26}, "", []int{0, 0, 0, 1, 1, 1}},
		{"a jump of which the kernel is known", []float64{11, 12, 13, 24, 25, 26}, "k", []int{0, 0, 0, 0, 0, 0}},
		{"another slope", []float64{11, 12, 13, 23, 33, 43}, "", []int{0, 0, 0, 0, 0, 0}},
		{"too few to tell", []float64{11, 24}, "", []int{0, 0}},
	} {
		var points []Point
		var of []int
		for i, us := range c.us {
			points = append(points, Point{M: 100 * (i + 1), Label: c.label, US: stats.Estimate{Y: math.Log(us), SE: 1e-4, DF: 10, Open: 0}})
			of = append(of, i)
		}
		if got := pieces(points, of); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, expected %v", c.name, got, c.want)
		}
	}
}

func TestAlongside(t *testing.T) {
	const near, far = 0.4 * wildStep, 0.6 * wildStep
	for _, c := range []struct {
		below, own, above float64 // off the line
		want              bool
	}{
		{1, 1, 1, true}, {1 - near, 1, 1 + near, true}, {0, near, 0, true},
		{1 - far, 1, 1, false}, {1, 1, 1 - far, false}, {0, far, 0, false}, {0, -far, 0, false},
	} {
		l := &Line{}
		for i, off := range []float64{c.below, c.own, c.above} {
			l.Rows = append(l.Rows, told{y: float64(i) + off, line: float64(i)})
		}
		if got := l.alongside(1); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestWildRows(t *testing.T) {
	for _, tc := range []struct {
		name string
		off  []float64
		want []int
	}{
		{"on the line", []float64{0, 0, 0, 0, 0}, nil},
		{"one far off", []float64{0, 0, 0.05, 0, 0}, []int{2}},
		{"one far off at the end", []float64{0, 0, 0, 0, -0.05}, []int{4}},
		{"one not far enough off", []float64{0, 0, 0.8 * wildStep, 0, 0}, nil},
		{"all off alike", []float64{0.05, 0.05, 0.05, 0.05, 0.05}, nil},
		{"further off from row to row", []float64{0.03, 0.034, 0.038, 0.042, 0.046}, nil},
	} {
		l := &Line{scatter: leastScatter, df: 10}
		for i, off := range tc.off {
			l.Rows = append(l.Rows,
				told{M: 64 << i, logM: math.Log(float64(int(64) << i)), y: float64(i) + off, line: float64(i), se: 0.0005})
		}
		if got := l.findWild(); !slices.Equal(got, tc.want) {
			t.Errorf("%s: rows %v are wild, expected %v", tc.name, got, tc.want)
		}
	}
}
