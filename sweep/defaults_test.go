package sweep

import (
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"pgregory.net/rapid"
)

// The default kernels are libraries, auto and user kernels; the ladder and its rungs must be named.
func TestWhatPeopleRun(t *testing.T) {
	gemm := func(name string, candidates ...simulated.KernelConfig) simulated.KernelConfig {
		return simulated.KernelConfig{Name: name, Cost: simulated.Linear(1e10, 0), Candidates: candidates}
	}
	next := gemm("")
	all := []simulated.KernelConfig{gemm("auto"), gemm("hopper"), gemm("mma"), gemm("wmma"), gemm("gemv"), gemm("tiled"), gemm("naive"),
		gemm("cublas"), gemm("cublaslt", next, next, next), gemm("mine")}
	for _, c := range []struct {
		name    string
		kind    kernels.Kind
		o       Options
		kernels string
		dtypes  string
	}{
		{"overnight on a card", kernels.CUDA, Options{Preset: "overnight"}, "auto cublas cublaslt cublaslt:1 cublaslt:2 mine",
			"bf16 fp16 fp8 int8"},
		{"overnight on a host", kernels.CPU, Options{Preset: "overnight"}, "auto cublas cublaslt cublaslt:1 cublaslt:2 mine",
			"bf16 fp16 fp8 int8 fp32"},
		{"standard on a card", kernels.CUDA, Options{Preset: "standard"}, "auto cublas cublaslt mine", "bf16"},
		{"quick on a host", kernels.CPU, Options{Preset: "quick"}, "auto cublas cublaslt mine", "bf16 fp32"},
		{"the ladder", kernels.CUDA,
			Options{Preset: "overnight", Kernels: []string{LadderKernels, "cublaslt"}, DTypes: []kernels.DType{kernels.FP32}},
			"hopper mma wmma gemv tiled naive cublaslt", "fp32"},
		{"algorithms", kernels.CUDA, Options{Preset: "overnight", Algorithms: 1}, "auto cublas cublaslt cublaslt:1 mine",
			"bf16 fp16 fp8 int8"},
	} {
		d := simulated.New(simulated.Config{Kind: c.kind, Gemms: all})
		c.o.Targets, c.o.Batches = []Target{{N: 64, K: 64}}, Batches{1, 2}
		p, err := NewPlan(t.Context(), []kernels.Device{d}, c.o, nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var names, dtypes []string
		for _, s := range p.Series {
			if !slices.Contains(names, s.Kernel) {
				names = append(names, s.Kernel)
			}
			if !slices.Contains(dtypes, string(s.DType)) {
				dtypes = append(dtypes, string(s.DType))
			}
		}
		if got := strings.Join(names, " "); got != c.kernels {
			t.Errorf("%s: %s, expected %s", c.name, got, c.kernels)
		}
		if got := strings.Join(dtypes, " "); got != c.dtypes {
			t.Errorf("%s: %s, expected %s", c.name, got, c.dtypes)
		}
	}
	bare := simulated.New(simulated.Config{Gemms: []simulated.KernelConfig{gemm("tiled"), gemm("naive")}})
	p, err := NewPlan(t.Context(), []kernels.Device{bare},
		Options{Targets: []Target{{N: 64, K: 64}}, Batches: Batches{1}, DTypes: []kernels.DType{kernels.FP32}}, nil)
	if err != nil || len(p.Series) != 2 {
		t.Errorf("a bare ladder: %+v, %v", p, err)
	}
	if _, err := NewPlan(t.Context(), []kernels.Device{declared(nil)}, Options{Kernels: []string{LadderKernels}}, nil); err == nil ||
		!strings.Contains(err.Error(), "sim has no kernels") {
		t.Errorf("a ladder where there is none: %v", err)
	}
}

func TestPresetsPlanAttention(t *testing.T) {
	d := simulated.New(simulated.Config{Attentions: []simulated.KernelConfig{{Name: "flash",
		Cost: func(kernels.Task) float64 { return 1e-5 }}}})
	for _, preset := range Presets() {
		p, err := NewPlan(t.Context(), []kernels.Device{d},
			Options{Preset: preset.Name, Operations: []kernels.Operation{kernels.AttentionDecode}}, nil)
		if err != nil {
			t.Errorf("%s: %v", preset.Name, err)
			continue
		}
		for _, s := range p.Series {
			if s.Infer {
				t.Errorf("%s infers %v", preset.Name, s.SeriesKey)
			}
		}
	}
}

// Sampling some Ms gives the same answer as querying each.
func TestAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5000).Draw(t, "n")
		most := rapid.IntRange(0, n).Draw(t, "most")
		ms, asked := Batches(upTo(n)), 0
		refusal := func(m int) error {
			asked++
			if m > most {
				return &kernels.Unsupported{Kernel: "k", Reason: "too large"}
			}
			return nil
		}
		kept, why, ok := alike(ms, refusal)
		if !ok || kept != most || (why == nil) != (most == n) {
			t.Fatalf("%d of %d are supported; found %d, %v, %v", most, n, kept, why, ok)
		}
		if asked > 250 {
			t.Fatalf("asked %d times about %d", asked, n)
		}
	})
	for name, supports := range map[string]func(m int) bool{
		"multiples of 16": func(m int) bool { return m%16 == 0 },
		"from 9":          func(m int) bool { return m > 8 },
	} {
		_, _, ok := alike(Batches(upTo(1000)), func(m int) error {
			if !supports(m) {
				return &kernels.Unsupported{}
			}
			return nil
		})
		if ok {
			t.Errorf("%s: taken for a largest M", name)
		}
	}
}
