package simulated

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/kernels"
)

var grid = func() []int {
	var ms []int
	for m := 32; m <= 4096; m += 48 {
		ms = append(ms, m)
	}
	return ms
}()

func newMachine(t testing.TB, cfg MachineConfig) *Machine {
	t.Helper()
	cfg.N, cfg.K, cfg.Ms = 4096, 4096, grid
	m, err := NewMachine(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

type stand struct {
	d    *Card
	a, c kernels.Buffer
	w    map[string]kernels.Weights
}

func newStand(t testing.TB, d *Card) *stand {
	t.Helper()
	s := &stand{d: d, w: map[string]kernels.Weights{}}
	alloc := allocator(t, d)
	s.a, s.c = alloc(64<<20), alloc(64<<20)
	for _, g := range d.Kernels(kernels.GEMM) {
		var err error
		if s.w[g.Name()], err = g.Prepare(kernels.Task{Subject: kernels.Product(kernels.BF16, 4096, 4096), M: 1},
			alloc(32<<20)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *stand) block(t testing.TB, kernel string, m int) (us float64, span kernels.Span) {
	t.Helper()
	g, err := kernels.Find(s.d, kernels.GEMM, kernel)
	if err != nil {
		t.Fatal(err)
	}
	l, err := g.Bind(kernels.Task{Subject: kernels.Product(kernels.BF16, 4096, 4096), M: m},
		kernels.Operand{Buffer: s.a}, s.w[kernel], kernels.Operand{Buffer: s.c})
	if err != nil {
		t.Fatal(err)
	}
	n := max(1, int(1e-3/s.d.machine.Seconds(kernel, []int{m}, NominalClockMHz).Lo+0.5))
	span, err = s.d.Execute(context.Background(), []kernels.Launch{l}, n)
	if err != nil {
		t.Fatal(err)
	}
	return span.Seconds / float64(n) * 1e6, span
}

func allocator(t testing.TB, d kernels.Device) func(bytes int64) kernels.Buffer {
	return func(bytes int64) kernels.Buffer {
		t.Helper()
		b, err := d.Alloc(bytes)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

func takesTheTruth(t testing.TB, m *Machine, d kernels.Device, l kernels.Launch, kernel string, at int) {
	t.Helper()
	span, err := d.Execute(t.Context(), []kernels.Launch{l}, 10)
	if err != nil {
		t.Fatal(err)
	}
	if want := 10 * m.Seconds(kernel, []int{at}, NominalClockMHz).Lo; math.Abs(span.Seconds/want-1) > 1e-9 {
		t.Errorf("%s: 10 launches take %g s, want %g", kernel, span.Seconds, want)
	}
}

func TestClock(t *testing.T) {
	var usual []float64
	for _, hot := range []bool{false, true} {
		var sds, lags []float64
		for seed := range uint64(10) {
			m := newMachine(t, MachineConfig{Seed: seed, Disturbances: Disturbances{PowerLimited: true}})
			s := newStand(t, m.Open(Session{Seed: seed, Hot: hot}))
			rng := rand.New(rand.NewPCG(seed, 0))
			var x []float64
			for range 4000 {
				_, span := s.block(t, Ours, grid[rng.IntN(len(grid))])
				x = append(x, math.Log(span.ClockMHz/NominalClockMHz))
			}
			x = x[500:]
			mean, sd := meanSD(x)
			var lag float64
			for i := range len(x) - 1 {
				lag += (x[i] - mean) * (x[i+1] - mean) / float64(len(x)-1)
			}
			sds, lags = append(sds, sd), append(lags, lag/(sd*sd))
			usual = append(usual, mean)
		}
		sd, _ := meanSD(sds)
		lag, _ := meanSD(lags)
		t.Logf("hot %v: deviation %.3f, autocorrelation %.3f, usual clock %.0f MHz", hot, sd, lag,
			NominalClockMHz*math.Exp(usual[len(usual)-1]))
		if sd < 0.03 || sd > 0.04 {
			t.Errorf("hot %v: the clock deviates by %.4f, want 0.03 to 0.04", hot, sd)
		}
		if lag < 0.82 || lag > 0.92 {
			t.Errorf("hot %v: autocorrelation %.3f, want about 0.86", hot, lag)
		}
	}
	cold, _ := meanSD(usual[:10])
	hot, _ := meanSD(usual[10:])
	if drop := cold - hot; drop < 0.01 || drop > 0.05 {
		t.Errorf("heat costs %.4f of the clock, want 0.01 to 0.05", drop)
	}
}

func TestTimeFollowsTheClock(t *testing.T) {
	m := newMachine(t, MachineConfig{Seed: 3, Disturbances: Disturbances{PowerLimited: true, Sigma: 0.002}})
	s := newStand(t, m.Open(Session{Seed: 4}))
	var errs, plain []float64
	for i := range 2000 {
		at := grid[(i*37)%len(grid)]
		us, span := s.block(t, Library, at)
		errs = append(errs, math.Log(us/1e6/m.Seconds(Library, []int{at}, span.ClockMHz).Lo))
		plain = append(plain, math.Log(us/1e6/m.Seconds(Library, []int{at}, NominalClockMHz).Lo))
	}
	mean, sd := meanSD(errs)
	if math.Abs(mean) > 5e-4 || sd < 0.0018 || sd > 0.0025 {
		t.Errorf("at its clock a sample is off by %.5f ± %.5f, want 0 ± 0.002", mean, sd)
	}
	if _, sd := meanSD(plain); sd < 0.015 {
		t.Errorf("times scatter by %.4f without the clock's part, want far more than the noise", sd)
	}
	if low, high := m.Elasticity(Library, grid[0]), m.Elasticity(Library, 4096-48); low > 0.25 || high < 0.9 {
		t.Errorf("elasticity %.2f at m%d and %.2f at large M, want about 0.1 and 1", low, grid[0], high)
	}
}

func TestDisturbances(t *testing.T) {
	const at = 2048 + 32
	sample := func(d Disturbances, seed uint64, n int, other bool) []float64 {
		m := newMachine(t, MachineConfig{Seed: 5, Disturbances: d})
		s := newStand(t, m.Open(Session{Seed: seed}))
		var out []float64
		for i := range n {
			if other {
				s.block(t, Library, grid[(i*29)%len(grid)])
			}
			us, _ := s.block(t, Ours, at)
			out = append(out, math.Log(us/1e6/m.Seconds(Ours, []int{at}, NominalClockMHz).Lo))
		}
		return out
	}
	spread := func(x []float64) float64 { _, sd := meanSD(x); return sd }
	if y := sample(Disturbances{}, 1, 50, true); spread(y) > 1e-9 {
		t.Errorf("without disturbances samples spread by %g", spread(y))
	}
	if y := sample(Disturbances{Sigma: 0.01}, 1, 4000, false); math.Abs(spread(y)-0.01) > 0.0005 {
		t.Errorf("noise of 1 %% spreads by %g", spread(y))
	}
	heavy := sample(Disturbances{Sigma: 0.01, HeavyTailed: true}, 1, 4000, false)
	slices.Sort(heavy)
	// The interquartile range of Student's t with 3 degrees of freedom is 0.883 deviations.
	if iqr := heavy[3000] - heavy[1000]; iqr < 0.0079 || iqr > 0.0098 {
		t.Errorf("heavy tails: the middle half is %g wide, want 0.0088", iqr)
	}
	if most := heavy[len(heavy)-1]; most < 0.05 {
		t.Errorf("heavy tails: the largest of 4000 is %g, want past five deviations", most)
	}
	strays := 0
	for _, v := range sample(Disturbances{Stray: 0.05}, 1, 4000, false) {
		if v > 1e-6 {
			strays++
		}
	}
	if strays < 150 || strays > 250 {
		t.Errorf("%d of 4000 samples stray, want 200", strays)
	}
	drift := sample(Disturbances{Drift: 0.06}, 1, 4000, false)
	if !slices.IsSorted(drift) || drift[0] > 0.001 || drift[3999] < 0.059 {
		t.Errorf("drift goes from %g to %g, want from 0 to 0.06 without turning", drift[0], drift[3999])
	}
	if y := sample(Disturbances{Cache: 0.01}, 1, 2000, true); spread(y) == 0 || spread(y) > 0.012 {
		t.Errorf("caches spread samples by %g, want up to 0.01", spread(y))
	}
	if y := sample(Disturbances{Cache: 0.01}, 1, 100, false); spread(y[1:]) > 1e-12 {
		t.Errorf("a product that runs after itself spreads by %g", spread(y))
	}
	var placed []float64
	for seed := range uint64(200) {
		y := sample(Disturbances{Allocation: 0.004}, seed, 2, false)
		if y[0] != y[1] {
			t.Fatalf("the same allocation gives %g and %g", y[0], y[1])
		}
		placed = append(placed, y[0])
	}
	if sd := spread(placed); sd < 0.003 || sd > 0.005 {
		t.Errorf("allocations spread a row by %g, want 0.004", sd)
	}
}

func TestModes(t *testing.T) {
	m := newMachine(t, MachineConfig{Seed: 6, Disturbances: Disturbances{Modes: 0.2}})
	s := newStand(t, m.Open(Session{}))
	rows := 0
	for _, at := range grid {
		want := m.Seconds(Ours, []int{at}, NominalClockMHz)
		if want.Lo == want.Hi {
			continue
		}
		rows++
		low, high := 0, 0
		for range 100 {
			us, _ := s.block(t, Ours, at)
			switch {
			case math.Abs(us/1e6/want.Lo-1) < 1e-9:
				low++
			case math.Abs(us/1e6/want.Hi-1) < 1e-9:
				high++
			}
		}
		if low+high != 100 || low < 10 || high < 10 {
			t.Errorf("m%d: %d samples on the fast and %d on the slow level of 100", at, low, high)
		}
	}
	if rows < 5 || rows > 35 {
		t.Errorf("%d of %d rows have two levels, want a fifth", rows, len(grid))
	}
}

func TestPlanted(t *testing.T) {
	depths := []float64{0.075, 0.055, 0.1, 0.2}
	for seed := range uint64(20) {
		m := newMachine(t, MachineConfig{Seed: seed, Depths: depths, Switches: seed%2 == 1})
		var seen []float64
		for _, p := range m.Planted() {
			losses := m.Losses(p.Kernel, NominalClockMHz)
			seen = append(seen, p.Depth)
			for i, at := range grid {
				if at >= p.FromM && at <= p.ToM && (math.Abs(losses[i].Lo-p.Depth) > 1e-9 || losses[i].Hi != losses[i].Lo) {
					t.Errorf("seed %d, %s m%d: loss %v, planted %g", seed, p.Kernel, at, losses[i], p.Depth)
				}
			}
		}
		slices.Sort(seen)
		if want := []float64{0.055, 0.055, 0.075, 0.075, 0.1, 0.1, 0.2, 0.2}; !slices.Equal(seen, want) {
			t.Errorf("seed %d: depths %v, want %v", seed, seen, want)
		}
	}
	m := newMachine(t, MachineConfig{Seed: 1, Waves: true, Depths: depths})
	most := 0.0
	for _, l := range m.Losses(Library, NominalClockMHz) {
		most = math.Max(most, l.Lo)
	}
	if most < 0.1 {
		t.Errorf("the staircase loses at most %g", most)
	}
}

func TestLosses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := rapid.Float64Range(900, 1980).Draw(t, "clock")
		m, err := NewMachine(MachineConfig{
			Seed: rapid.Uint64().Draw(t, "seed"), N: 4096, K: 4096, Ms: grid, Depths: []float64{0.075, 0.2},
			Waves: rapid.Bool().Draw(t, "waves"), Switches: rapid.Bool().Draw(t, "switches"),
			Disturbances: Disturbances{Modes: rapid.SampledFrom([]float64{0, 0.1}).Draw(t, "modes")},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, kernel := range []string{Library, Ours} {
			losses := m.Losses(kernel, clock)
			for i := 1; i < len(grid); i++ {
				own := m.Seconds(kernel, []int{grid[i]}, clock)
				lo, hi := math.Inf(1), math.Inf(1) // least time per work, on slow and fast levels
				for _, at := range grid[:i] {
					other := m.Seconds(kernel, []int{at}, clock)
					lo = math.Min(lo, other.Hi*float64(grid[i])/float64(at))
					hi = math.Min(hi, other.Lo*float64(grid[i])/float64(at))
				}
				if want := (Range{1 - lo/own.Lo, 1 - hi/own.Hi}); math.Abs(losses[i].Lo-want.Lo) > 1e-9 ||
					math.Abs(losses[i].Hi-want.Hi) > 1e-9 {
					t.Fatalf("%s m%d: loss %v, want %v", kernel, grid[i], losses[i], want)
				}
				nominal := m.Seconds(kernel, []int{grid[i]}, NominalClockMHz)
				if slower := math.Pow(NominalClockMHz/clock, m.Elasticity(kernel, grid[i])); math.Abs(own.Lo/nominal.Lo/slower-1) > 1e-9 {
					t.Fatalf("%s m%d: %g times as long at %g MHz, want %g", kernel, grid[i], own.Lo/nominal.Lo, clock, slower)
				}
			}
		}
	})
}

func TestRepeatable(t *testing.T) {
	all := Disturbances{Sigma: 0.01, HeavyTailed: true, Stray: 0.02, Modes: 0.1, Drift: 0.02, Wander: 0.01, Cache: 0.01, Allocation: 0.004,
		PowerLimited: true}
	run := func(seed uint64) []float64 {
		s := newStand(t, newMachine(t, MachineConfig{Seed: 9, Disturbances: all}).Open(Session{Seed: seed}))
		var out []float64
		for i := range 200 {
			us, span := s.block(t, Ours, grid[(i*31)%len(grid)])
			out = append(out, us, span.ClockMHz, s.d.Telemetry().PowerW)
		}
		return out
	}
	if !slices.Equal(run(1), run(1)) {
		t.Error("equal seeds give different samples")
	}
	if slices.Equal(run(1), run(2)) {
		t.Error("different seeds give equal samples")
	}
}

func TestBadMachines(t *testing.T) {
	for name, cfg := range map[string]MachineConfig{
		"no grid":    {N: 1, K: 1},
		"no n":       {K: 1, Ms: []int{1}},
		"descending": {N: 1, K: 1, Ms: []int{2, 1}},
		"m0":         {N: 1, K: 1, Ms: []int{0, 1}},
		"depth":      {N: 1, K: 1, Ms: []int{1}, Depths: []float64{1}},
	} {
		if _, err := NewMachine(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func meanSD(x []float64) (mean, sd float64) {
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		sd += (v - mean) * (v - mean) / float64(len(x)-1)
	}
	return mean, math.Sqrt(sd)
}

func BenchmarkExecute(b *testing.B) {
	s := newStand(b, newMachine(b, MachineConfig{Seed: 1, Disturbances: Disturbances{Sigma: 0.01, PowerLimited: true}}).Open(Session{}))
	for i := range b.N {
		s.block(b, Ours, grid[i%len(grid)])
	}
}

func TestTilings(t *testing.T) {
	waves, wrong := 0, 0
	for seed := range uint64(4) {
		m := newMachine(t, MachineConfig{Seed: seed, Depths: []float64{0.2}, Switches: seed%2 == 1, Waves: seed%2 == 0})
		s := newStand(t, m.Open(Session{}))
		for _, c := range m.curves {
			for _, r := range c.rows {
				g, err := kernels.Find(s.d, kernels.GEMM, c.name)
				if err != nil {
					t.Fatal(err)
				}
				l, err := g.Bind(kernels.Task{Subject: kernels.Product(kernels.BF16, 4096, 4096), M: r.m},
					kernels.Operand{Buffer: s.a}, s.w[c.name], kernels.Operand{Buffer: s.c})
				if err != nil {
					t.Fatal(err)
				}
				want := kernels.Tiling{}
				switch {
				case l.Label() == wrongAlgorithm:
					wrong++
					want = kernels.Tiling{Tile: [3]int{64, 64}, Split: 2}
				case c.waves:
					waves++
					want = kernels.Tiling{Tile: [3]int{128, 256}, Waves: float64((r.m+127)/128*16) / 132, Split: 1}
				}
				if got := kernels.TilingOf(l); got != want {
					t.Errorf("%s m%d tells %+v, want %+v", c.name, r.m, got, want)
				}
			}
		}
	}
	if waves == 0 || wrong == 0 {
		t.Errorf("%d rows of waves, %d planted ones: nothing is shown", waves, wrong)
	}
}

func TestCopies(t *testing.T) {
	m, err := NewMachine(MachineConfig{Seed: 1, N: 256, K: 256, Ms: []int{8, 16, 24, 32}})
	if err != nil {
		t.Fatal(err)
	}
	d := m.Open(Session{})
	b, err := d.Alloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	l, err := d.BindCopy(b, 1<<19, b, 0, 1<<19)
	if err != nil {
		t.Fatal(err)
	}
	span, err := d.Execute(t.Context(), []kernels.Launch{l}, 10)
	if want := 10 * CopySeconds(1<<19); err != nil || math.Abs(span.Seconds/want-1) > 1e-9 {
		t.Errorf("ten copies took %g s, %v; expected %g s", span.Seconds, err, want)
	}
	if _, err := d.BindCopy(b, 1<<19, b, 1, 1<<19); err == nil {
		t.Error("a copy that overlaps was bound")
	}
	if _, err := d.BindCopy(b, 1<<19, b, 0, 1<<19+1); err == nil {
		t.Error("a copy past the end was bound")
	}
}
