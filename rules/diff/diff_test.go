package diff

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/change"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

func simMeta(change func(*results.Meta)) results.Meta {
	m := results.Meta{Regime: results.Engine, Distribution: kernels.Normal, Fingerprint: results.Fingerprint{
		Hostname: "a", OS: "Debian 12", Kernel: "6.1", CPUModel: "x", Cores: 2,
		Devices: []kernels.Spec{{ID: "sim", Kind: kernels.CPU, Name: "x", Units: 2, Versions: map[string]string{"onednn": "3.1"}}},
	}}
	if change != nil {
		change(&m)
	}
	return m
}

func sweepOf(us func(int) float64, sigma float64, seed uint64, meta results.Meta) infer.Data {
	d := synthetic.ByM(us, synthetic.Student(sigma), rand.New(rand.NewPCG(seed, 77))).Sweep(synthetic.Grid(4, 1024, 4), 9)
	d.Meta = meta
	return d
}

func TestDiff(t *testing.T) {
	linear := func(m int) float64 { return 20 + 0.5*float64(m) }
	slower := func(from, to int, factor float64) func(int) float64 {
		return func(m int) float64 {
			if m >= from && m <= to {
				return linear(m) * factor
			}
			return linear(m)
		}
	}
	cfg := rules.Default()
	t.Run("the same", func(t *testing.T) {
		gates := 0
		for seed := range uint64(20) {
			d, err := Compare(sweepOf(linear, 0.02, 2*seed, simMeta(nil)), sweepOf(linear, 0.02, 2*seed+1, simMeta(nil)), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if d.Gate {
				gates++
			}
			if d.Geomean.Lo > 1.002 || d.Geomean.Hi < 0.998 || d.Confounded != "" || len(d.Factors) != 0 {
				t.Errorf("geomean %+v, factors %v, confounded %q", d.Geomean, d.Factors, d.Confounded)
			}
		}
		if gates > 4 {
			t.Errorf("the gate failed in %d of 20 comparisons of equals", gates)
		}
	})
	t.Run("a regression", func(t *testing.T) {
		a := sweepOf(linear, 0.01, 1, simMeta(nil))
		b := sweepOf(slower(600, 700, 1.12), 0.01, 2,
			simMeta(func(m *results.Meta) { m.Fingerprint.Devices[0].Versions = map[string]string{"onednn": "3.2"} }))
		d, err := Compare(a, b, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if !d.Gate || d.Slower < 24 || d.Slower > 26 || d.Faster != 0 {
			t.Errorf("gate %v, %d slower, %d faster; want 26 slower", d.Gate, d.Slower, d.Faster)
		}
		for _, c := range d.Cases {
			if (c.Change == change.Slower) && (c.M < 600 || c.M > 700) {
				t.Errorf("m%d is %s: %+v", c.M, c.Change, c.Ratio)
			}
		}
		if len(d.Factors) != 1 || d.Confounded != "" {
			t.Errorf("factors %v, confounded %q", d.Factors, d.Confounded)
		}
		if len(d.Findings) == 0 || d.Findings[0].Change != change.New || d.Findings[0].B.Rule != rules.Monotonic {
			t.Errorf("findings %+v", d.Findings)
		}
		back, err := Compare(b, a, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if back.Gate || back.Faster != d.Slower {
			t.Errorf("the other way: gate %v, %d faster", back.Gate, back.Faster)
		}
		fixed := 0
		for _, f := range back.Findings {
			if f.Change == change.Fixed && f.B == nil && f.A.Rule == rules.Monotonic {
				fixed++
			}
		}
		if fixed == 0 {
			t.Errorf("the finding is not fixed: %+v", back.Findings)
		}
		same, err := Compare(b, sweepOf(slower(600, 700, 1.12), 0.01, 3, b.Meta), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if same.Gate || len(same.Findings) == 0 || same.Findings[0].Change != change.Same {
			t.Errorf("gate %v, findings %+v", same.Gate, same.Findings)
		}
	})
	t.Run("a faster kernel that B lacks", func(t *testing.T) {
		a, _ := synthetic.Joined([]results.SeriesKey{synthetic.Keyed("slow", kernels.BF16), synthetic.Keyed("fast", kernels.BF16),
			synthetic.Keyed("slower", kernels.BF16)},
			func(c results.Case) float64 {
				return map[string]float64{"fast": 1, "slow": 1.5, "slower": 1.6}[c.Kernel] * (10 + float64(c.M))
			}, synthetic.Grid(16, 512, 16), 4)
		b := a
		b.Series = slices.DeleteFunc(slices.Clone(a.Series), func(s results.Series) bool { return s.Key.Kernel == "fast" })
		d, err := Compare(a, b, cfg.Only(rules.Alternative))
		if err != nil || len(d.Findings) == 0 || slices.ContainsFunc(d.Findings, func(f Finding) bool { return f.Change == change.Fixed }) {
			t.Errorf("findings %+v, %v; want undecided ones", d.Findings, err)
		}
	})
	t.Run("two machines", func(t *testing.T) {
		b := sweepOf(slower(1, 5000, 0.5), 0.01, 2, simMeta(func(m *results.Meta) {
			f := &m.Fingerprint
			f.Hostname, f.CPUModel, f.Cores = "b", "y", 64
			f.Devices[0].ID, f.Devices[0].Name = "gpu", "y"
		}))
		b.Series[0].Key.Device = "gpu"
		for i := range b.Series[0].Rows {
			b.Series[0].Rows[i].Case.Device = "gpu"
		}
		d, err := Compare(sweepOf(linear, 0.01, 1, simMeta(nil)), b, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Cases) != 256 || d.Geomean.Mid < 0.49 || d.Geomean.Mid > 0.51 || d.Gate {
			t.Errorf("%d cases, geomean %+v, gate %v", len(d.Cases), d.Geomean, d.Gate)
		}
		b.Meta.Fingerprint.Kernel = "6.12"
		d, err = Compare(sweepOf(linear, 0.01, 1, simMeta(nil)), b, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(d.Confounded, "2 factors differ") && !strings.HasPrefix(d.Confounded, "3 factors differ") {
			t.Errorf("machine and kernel differ, confounded %q", d.Confounded)
		}
	})
	t.Run("an unsteady machine", func(t *testing.T) {
		rng := rand.New(rand.NewPCG(6, 6))
		// Sentinels that drift make a run invalid, and so does scatter that can hide a drift.
		disturb := func(d infer.Data, factor func(i int) float64) infer.Data {
			d.Sentinels = slices.Clone(d.Sentinels)
			for i := range d.Sentinels {
				d.Sentinels[i].US *= factor(i)
			}
			return d
		}
		a, b := sweepOf(linear, 0.01, 1, simMeta(nil)), sweepOf(slower(600, 700, 1.5), 0.01, 2, simMeta(nil))
		a.Name, b.Name = "a.db", "b.db"
		drifting := disturb(a, func(i int) float64 { return 1 + float64(i)/float64(len(a.Sentinels)) })
		scattered := disturb(b, func(int) float64 { return math.Exp(1.5 * rng.NormFloat64()) })
		for _, c := range []struct {
			a, b infer.Data
			want []string
		}{
			{a, b, nil},
			{drifting, b, []string{"a.db: the sentinels drifted by"}},
			{a, scattered, []string{"b.db: timing noise is too high"}},
			{drifting, scattered, []string{"a.db: the sentinels drifted by", "; b.db: timing noise is too high"}},
		} {
			d, err := Compare(c.a, c.b, cfg)
			if err != nil {
				t.Fatal(err)
			}
			rest, missing := d.Invalid, false
			for _, want := range c.want {
				at := strings.Index(rest, want)
				missing = missing || at < 0
				rest = rest[max(0, at):]
			}
			if missing || (d.Invalid == "") != (c.want == nil) || d.Gate != (c.want == nil) {
				t.Errorf("gate %v, invalid %q, expected %q", d.Gate, d.Invalid, c.want)
			}
		}
	})
	t.Run("nothing in common", func(t *testing.T) {
		b := sweepOf(linear, 0.01, 1, simMeta(nil))
		b.Series[0].Key.N = 1
		d, err := Compare(sweepOf(linear, 0.01, 1, simMeta(nil)), b, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if d.Invalid == "" || d.Gate || d.OnlyA != 256 || d.OnlyB != 256 {
			t.Errorf("invalid %q, only %d and %d", d.Invalid, d.OnlyA, d.OnlyB)
		}
	})
}

func TestNoise(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	n := synthetic.Student(0.02)
	draw := func(centre float64) []float64 {
		v := make([]float64, 12)
		for i := range v {
			v[i] = centre * (1 + n.Draw(rng))
		}
		return v
	}
	flags, found := 0, 0
	for range 400 {
		if stats.Different(draw(1), draw(1)) {
			flags++
		}
		if stats.Different(draw(1), draw(1.1)) {
			found++
		}
	}
	if r := stats.RateInterval(flags, 400); r.Lo > stats.NoiseLevel || found < 396 {
		t.Errorf("%d of 400 equal pairs differ (%+v), %d of 400 unequal ones", flags, r, found)
	}
	if r := stats.RateInterval(0, 20); r.Lo != 0 || r.Hi < 0.16 || r.Hi > 0.17 {
		t.Errorf("0 of 20: %+v, want up to 0.168", r)
	}
	if r := stats.RateInterval(3, 0); r != (stats.Interval{Lo: 0, Mid: 0, Hi: 1}) {
		t.Errorf("no trials: %+v", r)
	}
}

// A new driver also changes NVML and the API on every card of the host.
func TestOneDriverIsOneFactor(t *testing.T) {
	sides := make([]results.Meta, 2)
	for i, versions := range []map[string]string{
		{"driver": "550.54", "nvml": "12.550.54", "cuda driver api": "12.4", "cublas": "12.4.5", "cublaslt": "12.4.5"},
		{"driver": "580.10", "nvml": "13.580.10", "cuda driver api": "13.0", "cublas": "12.4.5", "cublaslt": "12.4.5"},
	} {
		for _, id := range []string{"cuda:0", "cuda:1"} {
			sides[i].Fingerprint.Devices = append(sides[i].Fingerprint.Devices,
				kernels.Spec{ID: id, Kind: kernels.CUDA, Name: "H200", Versions: versions})
		}
	}
	d := &Result{}
	d.fingerprints(sides[0], sides[1])
	if d.confound(); d.Confounded != "" || len(d.Factors) != 6 {
		t.Errorf("%d factors, confounded %q", len(d.Factors), d.Confounded)
	}
	sides[1].Fingerprint.Devices[1].Settings = map[string]string{"power limit": "400 W"}
	d = &Result{}
	d.fingerprints(sides[0], sides[1])
	if d.confound(); d.Confounded != "2 factors differ (cuda:0 driver, cuda:1 power limit), so no change can be attributed to one of them" {
		t.Errorf("confounded %q", d.Confounded)
	}
}

// A file with kernels is one factor, and so is each of two. A kernel of one run alone is none.
func TestOneFileIsOneFactor(t *testing.T) {
	side := func(versions map[string]string) results.Meta {
		var m results.Meta
		m.Fingerprint.Devices = []kernels.Spec{{ID: "cpu", Kind: kernels.CPU, Versions: versions}}
		return m
	}
	file := kernels.FileVersion
	for _, c := range []struct {
		a, b map[string]string
		want string
	}{
		{map[string]string{"mine": file("aa"), "other": file("aa")}, map[string]string{"mine": file("bb"), "other": file("bb")}, ""},
		{map[string]string{"mine": file("aa"), "other": file("aa")}, map[string]string{"mine": file("bb")}, ""},
		{map[string]string{"mine": file("aa"), "other": file("cc")}, map[string]string{"mine": file("bb"), "other": file("dd")},
			"cpu mine, cpu other"},
		{map[string]string{"mine": file("aa"), "numpy": "2.2"}, map[string]string{"mine": file("bb"), "numpy": "2.3"},
			"cpu mine, cpu numpy"},
	} {
		d := &Result{}
		d.fingerprints(side(c.a), side(c.b))
		if d.confound(); !strings.Contains(d.Confounded, c.want) || (c.want == "") != (d.Confounded == "") {
			t.Errorf("%v and %v: confounded %q, want %q", c.a, c.b, d.Confounded, c.want)
		}
	}
}

func TestFactors(t *testing.T) {
	for _, c := range []struct {
		name       string
		change     func(m *results.Meta)
		want       []results.FactorDiff
		confounded string
	}{
		{"nothing", nil, nil, ""},
		{"regime", func(m *results.Meta) { m.Regime = results.Cold }, []results.FactorDiff{{Name: "regime", A: "engine", B: "cold"}}, ""},
		{"distribution", func(m *results.Meta) { m.Distribution = kernels.Zeros },
			[]results.FactorDiff{{Name: "distribution", A: "normal", B: "zeros"}}, ""},
		{"a label", func(m *results.Meta) { m.Labels = results.Labels{"rack": "7"} },
			[]results.FactorDiff{{Name: "label rack", B: "7", Identity: true}}, ""},
		{"regime and distribution", func(m *results.Meta) { m.Regime, m.Distribution = results.Hot, kernels.Zeros },
			[]results.FactorDiff{{Name: "regime", A: "engine", B: "hot"}, {Name: "distribution", A: "normal", B: "zeros"}},
			"2 factors differ (regime, distribution), so no change can be attributed to one of them"},
	} {
		d := &Result{}
		d.fingerprints(simMeta(nil), simMeta(c.change))
		d.confound()
		if !slices.Equal(d.Factors, c.want) || d.Confounded != c.confounded {
			t.Errorf("%s: factors %+v, confounded %q, expected %+v and %q", c.name, d.Factors, d.Confounded, c.want, c.confounded)
		}
	}
}

func TestDiffCountsWhatWasLost(t *testing.T) {
	whole := sweepOf(func(m int) float64 { return float64(m) }, 0.005, 1, simMeta(nil))
	broken := sweepOf(func(m int) float64 { return float64(m) }, 0.005, 2, simMeta(nil))
	rows := broken.Series[0].Rows
	rows[0].Samples, rows[0].Failed = nil, "no memory"
	for i := range rows[1].Samples {
		rows[1].Samples[i].US = 0 // no time
	}
	broken.Series[0].Rows = rows[:len(rows)-1] // not planned
	for name, sides := range map[string][2]infer.Data{"B": {whole, broken}, "A": {broken, whole}} {
		d, err := Compare(sides[0], sides[1], rules.Default())
		if err != nil {
			t.Fatal(err)
		}
		if d.Lost != 2 || d.OnlyA+d.OnlyB != 3 || len(d.Cases) != len(whole.Series[0].Rows)-3 {
			t.Errorf("lost by %s: %d, %d and %d in one run only, %d cases", name, d.Lost, d.OnlyA, d.OnlyB, len(d.Cases))
		}
	}
}

// A stretch begins and ends with slower rows, also at the ends of a series.
func TestSlowStretchesBounds(t *testing.T) {
	const rows = 40
	for _, c := range []struct{ from, to int }{{0, 39}, {24, 39}, {0, 15}, {8, 23}, {36, 39}} {
		cases, ratios := make([]Case, rows), make([]stats.Estimate, rows)
		for i := range cases {
			cases[i].M, ratios[i] = 10*(i+1), stats.Estimate{Y: 0, SE: 1e-3, DF: 10, Open: 0}
			if i >= c.from && i <= c.to {
				ratios[i].Y = math.Log(1.5)
			}
		}
		ratios[c.from].Y, ratios[c.to].Y = math.Log(2), math.Log(3)
		n := float64(c.to - c.from + 1)
		want := math.Exp((math.Log(2) + math.Log(3) + (n-2)*math.Log(1.5)) / n)
		got := slowStretches(cases, ratios, stats.Estimate{}, rules.Default(), 1)
		if len(got) != 1 || got[0].FromM != 10*(c.from+1) || got[0].ToM != 10*(c.to+1) || got[0].Cases != c.to-c.from+1 ||
			math.Abs(got[0].Ratio.Mid-want) > 1e-9 {
			t.Errorf("rows %d to %d are slower: %+v", c.from, c.to, got)
		}
	}
}

func TestOverlaps(t *testing.T) {
	of := func(ms ...int) *rules.Candidate {
		c := &rules.Candidate{}
		points := make([]infer.Point, len(ms))
		for i, m := range ms {
			points[i].M = m
		}
		for i := range ms {
			c.Rows = append(c.Rows, &rules.Judgement{Curve: &infer.Curve{Points: points}, Point: i})
		}
		return c
	}
	for _, c := range []struct {
		a, b *rules.Candidate
		want bool
	}{
		{of(8), of(8), true}, {of(8), of(16), false}, {of(8, 16), of(16), true}, {of(8, 16), of(12), true},
		{of(8, 16), of(17, 32), false}, {of(8, 16, 24), of(20, 40), true}, {of(8, 64), of(16, 32), true},
	} {
		if overlaps(c.a, c.b) != c.want || overlaps(c.b, c.a) != c.want {
			t.Errorf("m%d to m%d and m%d to m%d: expected %v", c.a.Rows[0].M(), c.a.Rows[len(c.a.Rows)-1].M(), c.b.Rows[0].M(),
				c.b.Rows[len(c.b.Rows)-1].M(), c.want)
		}
	}
}
