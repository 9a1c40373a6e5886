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
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

func TestChoicesAreNotCompared(t *testing.T) {
	a, _ := synthetic.ChosenBadly("lt", "lt:1")
	b, _ := synthetic.ChosenBadly("lt", "lt:1")
	for i := range b.Series[1].Rows {
		for j := range b.Series[1].Rows[i].Samples {
			b.Series[1].Rows[i].Samples[j].US *= 2
		}
	}
	d, err := Compare(a, b, rules.Default())
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Series) != 1 || d.Series[0].Series.Kernel != "lt" || d.Slower > 0 {
		t.Errorf("compared %+v", d.Series)
	}
}

// Runs on one model are compared at the clock between theirs. If that is too far from either, each keeps its
// own and the diff warns.
func TestClocksOfTwoRuns(t *testing.T) {
	const mhz = 1500.0
	at := func(model string, mhz float64) infer.Data {
		m := simMeta(func(m *results.Meta) {
			m.Fingerprint.Devices[0].Name, m.ReferenceClock = model, map[string]float64{"sim": mhz}
		})
		return infer.Data{Meta: m, Series: []results.Series{{Key: synthetic.Key}}}
	}
	for _, c := range []struct {
		name   string
		model  string
		of, in float64
		one    float64
		warns  bool
	}{
		{"one clock", "x", mhz, mhz, mhz, false},
		{"a little faster", "x", mhz, mhz * 1.02, mhz * math.Sqrt(1.02), false},
		{"just near enough", "x", mhz, mhz * (1 + infer.ClockGap - 0.001), mhz * math.Sqrt(1+infer.ClockGap-0.001), false},
		{"slower and near enough", "x", mhz * (1 + infer.ClockGap - 0.001), mhz, mhz * math.Sqrt(1+infer.ClockGap-0.001), false},
		{"just too far", "x", mhz, mhz * (1 + infer.ClockGap + 0.001), 0, true},
		{"slower and too far", "x", mhz * (1 + infer.ClockGap + 0.001), mhz, 0, true},
		{"another model", "y", mhz, mhz * 1.02, 0, false},
	} {
		d := &Result{}
		of, in := d.clocks(at("x", c.of), at(c.model, c.in), rules.Default())
		wantOf, wantIn := c.of, c.in
		if c.one > 0 {
			wantOf, wantIn = c.one, c.one
		}
		if math.Abs(of["sim"]-wantOf) > 25 || math.Abs(in["sim"]-wantIn) > 25 {
			t.Errorf("%s: judged at %v and %v MHz, expected %.0f and %.0f", c.name, of["sim"], in["sim"], wantOf, wantIn)
		}
		if c.one > 0 && of["sim"] != in["sim"] || hasWarning(d.Warnings, "too different") != c.warns {
			t.Errorf("%s: clocks %v and %v, warnings %v", c.name, of, in, d.Warnings)
		}
	}
}

// Neighbors slower by less than the case threshold form a stretch; scattered slow rows don't.
func TestSlowStretches(t *testing.T) {
	cfg := rules.Default()
	ratios := func(slow func(m int) float64) *Result {
		var sides [2]infer.Data
		for k := range sides {
			w := synthetic.ByM(func(m int) float64 {
				us := float64(m)
				if k == 1 {
					us *= slow(m)
				}
				return us
			}, synthetic.Gaussian(0.005), rand.New(rand.NewPCG(7, uint64(k))))
			sides[k] = w.Sweep(synthetic.Grid(4, 2000, 4), 7)
		}
		d, err := Compare(sides[0], sides[1], cfg)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := ratios(func(m int) float64 {
		if m >= 800 && m <= 1000 {
			return 1.026
		}
		return 1
	})
	if d.Slower != 0 || !d.Gate || d.SlowerStretches == 0 || d.SlowerSeries != 0 {
		t.Errorf("%d slower cases, gate %v, %d stretches, %d series", d.Slower, d.Gate, d.SlowerStretches, d.SlowerSeries)
	}
	for _, s := range d.Series[0].Stretches {
		if s.FromM < 790 || s.ToM > 1010 {
			t.Errorf("stretch %+v", s)
		}
	}
	if d := ratios(func(int) float64 { return 1 }); d.Gate || d.Undecided > 0 || d.Same != len(d.Cases) {
		t.Errorf("equal runs: gate %v, %d of %d the same", d.Gate, d.Same, len(d.Cases))
	}
	if d := ratios(func(int) float64 { return 1.015 }); d.Gate || d.SlowerSeries != 0 || d.Slower != 0 {
		t.Errorf("a series slower by 1.5 %%: gate %v, %d series, %d cases", d.Gate, d.SlowerSeries, d.Slower)
	}
	if d := ratios(func(int) float64 { return 1.027 }); !d.Gate || d.SlowerSeries != 1 || d.Slower != 0 {
		t.Errorf("a series slower by 2.7 %%: gate %v, %d series, %d cases", d.Gate, d.SlowerSeries, d.Slower)
	}
}

func TestNearestSeries(t *testing.T) {
	at := func(kernel string, dtype kernels.DType) infer.Data {
		w := synthetic.ByM(func(m int) float64 { return float64(m) }, synthetic.Gaussian(0.01), rand.New(rand.NewPCG(1, 1)))
		w.Key.Kernel, w.Key.DType = kernel, dtype
		return w.Sweep(synthetic.Grid(4, 40, 4), 5)
	}
	d, err := Compare(at("lib", kernels.BF16), at("lib", kernels.FP16), rules.Default())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(d.Invalid, "no case in common") || !strings.Contains(d.Invalid, "differ in dtype (bf16, fp16)") {
		t.Errorf("invalid: %q", d.Invalid)
	}
}

func hasWarning(ws []rules.Warning, text string) bool {
	return slices.ContainsFunc(ws, func(w rules.Warning) bool { return strings.Contains(w.Text, text) })
}
