package rules

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/phrase"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

func only(t *testing.T, rule Rule, data infer.Data, w *synthetic.World) []Finding {
	t.Helper()
	a, err := RunAudit(context.Background(), data, Default().Only(rule), w)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range a.Findings {
		if f.Rule != rule || f.Explanation == "" || f.Reproduce == "" || f.Cause == "" {
			t.Errorf("finding is not complete: %+v", f)
		}
	}
	return a.Findings
}

func TestParity(t *testing.T) {
	ms := synthetic.Grid(16, 512, 16)
	data, w := synthetic.Joined([]results.SeriesKey{synthetic.Keyed("lib", kernels.BF16), synthetic.Keyed("lib", kernels.FP16),
		synthetic.Keyed("lib", kernels.INT8),
		synthetic.Keyed("other", kernels.FP16)}, func(c results.Case) float64 {
		us := 10 + float64(c.M)
		switch {
		case c.DType == kernels.INT8 && c.M > 256:
			us *= 1.3
		case c.DType == kernels.INT8:
			us *= 0.6
		case c.DType == kernels.BF16:
			us *= 1.05 // within the ratio
		case c.Kernel == "other":
			us *= 0.1
		}
		return us
	}, ms, 3)
	f := only(t, Parity, data, w)
	if len(f) != 1 || f[0].Series.DType != kernels.INT8 || f[0].FromM != 272 || f[0].ToM != 512 || f[0].Status != Confirmed {
		t.Errorf("findings %+v", f)
	}
	if len(f) > 0 &&
		(!strings.Contains(f[0].Explanation, "int8 is slower than bf16") || !strings.Contains(f[0].Reproduce, "--dtype int8,bf16")) {
		t.Errorf("%s\n%s", f[0].Explanation, f[0].Reproduce)
	}
}

// Quantized weights slower than plain ones on the fastest kernel are a finding, unless the library multiplies
// plain elements.
func TestParityOfQuantisedWeights(t *testing.T) {
	quantised := func(kernel string) results.SeriesKey {
		k := synthetic.Keyed(kernel, kernels.BF16)
		k.Weights = kernels.WeightFormat{Type: "int4", Bits: 4, GroupK: k.K, GroupN: 1, Scale: kernels.BF16}
		return k
	}
	data, w := synthetic.Joined([]results.SeriesKey{synthetic.Keyed("cublas", kernels.BF16), synthetic.Keyed("slow", kernels.BF16),
		quantised("cublas"),
		quantised("cublaslt@12.4.5:2"), quantised("auto")}, func(c results.Case) float64 {
		us := 10 + float64(c.M)
		switch {
		case c.Kernel == "auto" && c.M > 256:
			us *= 1.3
		case c.Kernel == "auto":
			us *= 0.5
		case c.Kernel == "slow" || c.Kernel == "cublaslt@12.4.5:2":
			us *= 3
		}
		return us
	}, synthetic.Grid(16, 512, 16), 3)
	f := only(t, Parity, data, w)
	if len(f) != 1 || f[0].Series.Kernel != "auto" || f[0].FromM != 272 || f[0].ToM != 512 || f[0].Status != Confirmed ||
		f[0].Cause != cause.Implementation {
		t.Fatalf("findings %+v", f)
	}
	if against := f[0].Against; against == nil || against.Kernel != "cublas" || against.Weights != (kernels.WeightFormat{}) {
		t.Errorf("held against %+v", against)
	}
	for _, want := range []string{"are slower than plain", "4 bits instead of 16 bits"} {
		if !strings.Contains(f[0].Explanation, want) {
			t.Errorf("%q lacks %q", f[0].Explanation, want)
		}
	}
	if want := "--weights plain,int4:column"; !strings.Contains(f[0].Reproduce, want) ||
		!strings.Contains(f[0].Reproduce, "--kernel auto,cublas") {
		t.Errorf("%q lacks %q", f[0].Reproduce, want)
	}
}

// fp8 with scales of blocks is compared with plain bf16, as fp8 is, and not with fp8 that has no such scales.
func TestParityOfScaledWeights(t *testing.T) {
	scaled := synthetic.Keyed("lib", kernels.FP8)
	scaled.Weights = kernels.WeightFormat{Type: "fp8", Bits: 8, GroupK: 128, GroupN: 128, Scale: kernels.FP32}
	data, w := synthetic.Joined([]results.SeriesKey{synthetic.Keyed("lib", kernels.BF16), synthetic.Keyed("lib", kernels.FP8), scaled},
		func(c results.Case) float64 {
			us := 10 + float64(c.M)
			switch {
			case c.Scaled() && c.M > 256:
				us *= 1.3
			case c.Scaled():
				us *= 0.7
			case c.DType == kernels.FP8:
				us *= 0.5
			}
			return us
		}, synthetic.Grid(16, 512, 16), 3)
	f := only(t, Parity, data, w)
	if len(f) != 1 || !f[0].Series.Scaled() || f[0].FromM != 272 || f[0].ToM != 512 || f[0].Status != Confirmed {
		t.Fatalf("findings %+v", f)
	}
	if against := f[0].Against; against == nil || against.DType != kernels.BF16 || against.Quantized() {
		t.Errorf("compared with %+v", against)
	}
	if !strings.Contains(f[0].Explanation, "fp8 is slower than bf16") ||
		!strings.Contains(f[0].Reproduce, "--dtype fp8,bf16") || !strings.Contains(f[0].Reproduce, "--weights plain,fp8:128x128") {
		t.Errorf("%s\n%s", f[0].Explanation, f[0].Reproduce)
	}
}

// The best kernel changes from row to row, and some rows need confirmation, but the interval stays one
// finding.
func TestAlternativeIsOneFinding(t *testing.T) {
	near := map[int]bool{96: true, 104: true, 192: true, 400: true, 472: true, 480: true, 488: true}
	holes := 0
	for seed := range uint64(8) {
		data, w := synthetic.Joined([]results.SeriesKey{synthetic.Keyed("slow", kernels.BF16), synthetic.Keyed("even", kernels.BF16),
			synthetic.Keyed("odd", kernels.BF16)},
			func(c results.Case) float64 {
				us := 10 + float64(c.M)
				switch best := map[bool]string{true: "even", false: "odd"}[c.M/8%2 == 0]; {
				case c.Kernel == best || c.M > 512:
				case c.Kernel == "slow" && near[c.M]:
					us *= 1.112
				case c.Kernel == "slow":
					us *= 1.7
				default:
					us *= 1.05
				}
				return us
			}, synthetic.Grid(8, 800, 8), 30+seed)
		sweep, err := RunAudit(context.Background(), data, Default().Only(Alternative), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(sweep.Findings) > 0 {
			holes += 64 - sweep.Findings[0].Rows
		}
		f := slices.DeleteFunc(only(t, Alternative, data, w), func(f Finding) bool { return f.Series.Kernel != "slow" })
		if len(f) != 1 || f[0].FromM != 8 || f[0].ToM != 512 || f[0].Rows < 56 || f[0].Status != Confirmed {
			t.Fatalf("seed %d: findings %+v", seed, f)
		}
		if f[0].Cause != cause.Implementation ||
			!strings.Contains(f[0].Explanation, "the kernel even ") && !strings.Contains(f[0].Explanation, "it is even") ||
			!strings.Contains(f[0].Explanation, "the kernel odd ") && !strings.Contains(f[0].Explanation, "it is odd") {
			t.Errorf("%s: %s", f[0].Cause, f[0].Explanation)
		}
	}
	if holes == 0 {
		t.Error("the sweep alone proves every row: there is nothing to join")
	}
}

func TestAlternativeOfTheSameLibrary(t *testing.T) {
	for _, tc := range []struct {
		label string
		cause cause.Kind
	}{{"lib_128x64", cause.HeuristicChoice}, {"other_128x64", cause.Implementation}, {"", cause.Implementation}} {
		data, w := synthetic.Joined([]results.SeriesKey{synthetic.Keyed("lib", kernels.BF16), synthetic.Keyed("lt", kernels.BF16)},
			func(c results.Case) float64 {
				us := 200 + float64(c.M)
				if c.Kernel == "lib" && c.M >= 128 && c.M <= 192 {
					us *= 1.4
				}
				return us
			}, synthetic.Grid(16, 768, 16), 4)
		for s := range data.Series {
			for i := range data.Series[s].Rows {
				c := &data.Series[s].Rows[i].Case
				switch {
				case c.Kernel == "lt":
					c.Label = tc.label
				case c.M > 512:
					c.Label = "lib_128x64"
				default:
					c.Label = "lib_64x64"
				}
			}
		}
		f := only(t, Alternative, data, w)
		if len(f) != 1 || f[0].Cause != tc.cause {
			t.Errorf("%q: %+v", tc.label, f)
		}
	}
}

func TestPad(t *testing.T) {
	w := synthetic.ByM(func(m int) float64 {
		if m%8 != 0 {
			return (20 + float64(m)) * 1.5
		}
		return 20 + float64(m)
	}, synthetic.Student(0.01), rand.New(rand.NewPCG(5, 1)))
	data := w.Sweep(synthetic.Grid(4, 512, 4), 8)
	f := only(t, Pad, data, w)
	if len(f) == 0 || f[0].Cause != cause.Alignment {
		t.Fatalf("findings %+v", f)
	}
	rows := 0
	for _, x := range f {
		rows += x.Rows
		if x.WorstM%8 == 0 {
			t.Errorf("m%d is not slow", x.WorstM)
		}
	}
	if rows < 48 || len(f) > 5 {
		t.Errorf("%d rows in %d findings, want most of 64 in few", rows, len(f))
	}
	m := only(t, Monotonic, data, w)
	if len(m) == 0 || m[0].Cause != cause.Alignment {
		t.Errorf("monotonic: %+v", m)
	}
}

// Softmax is compared with copying; a faster time came from a cache and is not an error.
func TestRooflineOfSoftmax(t *testing.T) {
	const copied = 0.5e12
	ceilings := kernels.Ceilings{Peaks: []kernels.Peak{{DType: kernels.BF16, FLOPS: 100e12, Origin: kernels.Measured}}, ReadBandwidth: 1e12,
		CopyBandwidth: copied}
	subject := kernels.Subject{Operation: kernels.Softmax, DType: kernels.BF16, Dims: kernels.Dims{Columns: 4096}}
	w := synthetic.ByM(func(m int) float64 {
		share := 0.8
		switch {
		case m < 64:
			share = 3 // faster than memory
		case m >= 512:
			share = 0.2
		}
		return subject.Bytes(m) / copied / share * 1e6
	}, synthetic.Student(0.01), rand.New(rand.NewPCG(5, 1)))
	w.Key.Subject = subject
	judged := func(c kernels.Ceilings, regime results.Regime) []Finding {
		data := w.Sweep(synthetic.Grid(16, 1024, 16), 8)
		s := &data.Series[0]
		s.Key.Regime, s.Bandwidth = regime, c.Bandwidth(subject.Operation)
		s.Peak, _ = c.Roof(subject)
		return only(t, Roofline, data, w)
	}
	f := judged(ceilings, results.Engine)
	if len(f) != 1 || f[0].FromM != 512 || f[0].ToM != 1024 || f[0].Cause != cause.Implementation ||
		!strings.Contains(f[0].Explanation, "copy bandwidth") || !strings.Contains(f[0].Explanation, "of 500.0 GB/s, 20 %") {
		t.Errorf("findings %+v", f)
	}
	if f := judged(ceilings, results.Hot); len(f) != 0 {
		t.Errorf("operands in a cache: %+v", f)
	}
	ceilings.CopyBandwidth = 0
	if f := judged(ceilings, results.Engine); len(f) != 1 || !strings.Contains(f[0].Explanation, "read bandwidth") {
		t.Errorf("without the bandwidth of copying: %+v", f)
	}
}

func TestRoofline(t *testing.T) {
	w := synthetic.ByM(func(m int) float64 {
		s := kernels.Shape{M: m, N: 4096, K: 4096}
		bound := math.Max(s.FLOPs()/100e12, s.Bytes(kernels.BF16)/1e12) * 1e6
		switch {
		case m >= 256 && m < 320:
			return bound / 1.5 // faster than possible
		case m >= 512:
			return bound / 0.1
		}
		if m < 64 {
			return bound / 0.2
		}
		return bound / 0.8
	}, synthetic.Student(0.01), rand.New(rand.NewPCG(5, 1)))
	data := w.Sweep(synthetic.Grid(16, 1024, 16), 8)
	data.Series[0].Bandwidth.Rate = 1e12
	f := only(t, Roofline, data, w)
	if len(f) != 3 {
		t.Fatalf("findings %+v", f)
	}
	slices.SortFunc(f, func(a, b Finding) int { return a.FromM - b.FromM })
	// At 1 TB/s and 100 TFLOP/s arithmetic is the limit from m103 on.
	if f[0].Cause != cause.Implementation || f[0].FromM != 16 || f[0].ToM != 48 || !strings.Contains(f[0].Explanation,
		"of 1000 GB/s, 20 %") {
		t.Errorf("slow in reading: %+v", f[0])
	}
	if f[1].Cause != cause.MeasurementError || f[1].FromM != 256 || f[1].ToM != 304 {
		t.Errorf("too fast: %+v", f[1])
	}
	if f[2].Cause != cause.Implementation || f[2].FromM != 512 || f[2].ToM != 1024 ||
		!strings.Contains(f[2].Explanation, " of 100.0 TFLOP/s, 10 %") {
		t.Errorf("too slow: %+v", f[2])
	}

	// Weights read faster than memory allows were in a cache.
	warm := synthetic.ByM(func(int) float64 { return 20 }, synthetic.Student(0.01), rand.New(rand.NewPCG(5, 1)))
	data = warm.Sweep(synthetic.Grid(1, 8, 1), 8)
	data.Series[0].Bandwidth.Rate = 1e12 // 33.6 us for the weights
	f = only(t, Roofline, data, warm)
	if len(f) != 1 || f[0].Cause != cause.MeasurementError || !strings.Contains(f[0].Explanation, "memory") {
		t.Errorf("warm weights: %+v", f)
	}
	data.Series[0].Key.Regime = results.Hot
	if f = only(t, Roofline, data, warm); len(f) != 0 {
		t.Errorf("in the hot regime weights may be in cache: %+v", f)
	}
}

func TestStaircaseWithoutLabels(t *testing.T) {
	for _, tc := range []struct {
		period int
		cause  cause.Kind
	}{{432, cause.WaveQuantization}, {64, cause.TileQuantization}} {
		w := synthetic.ByM(func(m int) float64 { return 5 + 100*math.Ceil(float64(m)/float64(tc.period)) }, synthetic.Student(0.005),
			rand.New(rand.NewPCG(5, 1)))
		a, err := RunAudit(context.Background(), w.Sweep(synthetic.Grid(8, 2048, 8), 8), Default().Only(Monotonic), nil)
		if err != nil {
			t.Fatal(err)
		}
		named := 0
		for _, f := range a.Findings {
			if f.Cause == tc.cause && strings.Contains(f.Explanation, fmt.Sprintf("multiples of %d", tc.period)) {
				named++
			}
		}
		if len(a.Findings) < 3 || named < len(a.Findings)*3/4 {
			t.Errorf("period %d: %d of %d findings name it: %+v", tc.period, named, len(a.Findings), a.Findings)
		}
	}
}

func TestFigure(t *testing.T) {
	for v, want := range map[float64]string{
		0.0721: "0.07210", 1.5: "1.500", 84.55: "84.55", 363: "363.0", 1045.04: "1045", 23989.6: "23990", 2.5e7: "25000000", 0: "0",
	} {
		if got := phrase.Figure(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}
