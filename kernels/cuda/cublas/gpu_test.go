//go:build cuda

package cublas

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gputest"
)

func kernelOf(t *testing.T, d gputest.GPU, name string) kernels.Kernel {
	t.Helper()
	d.Products, _ = Open(d.Device)
	g, err := kernels.Find(d, kernels.GEMM, name)
	if err != nil {
		t.Skip(err)
	}
	return g
}

func TestBlasTypes(t *testing.T) {
	d := gputest.First(t)
	for _, name := range []string{"cublas", "cublaslt"} {
		g := kernelOf(t, d, name)
		t.Log(g.Describe())
		for _, dt := range kernels.DTypes() {
			needs := map[kernels.DType]int{kernels.TF32: 80, kernels.BF16: 80, kernels.FP8: 89}[dt]
			want := d.Arch().CC >= needs && (name != "cublas" || dt != kernels.FP8)
			err := g.Supports(kernels.Task{Subject: kernels.Product(dt, 64, 64), M: 64})
			if got := err == nil; got != want {
				t.Errorf("%s takes %s: %v, want %v: %v", name, dt, got, want, err)
			}
		}
	}
	for _, name := range []string{"cublaslt:1", "cublaslt:3"} {
		g := kernelOf(t, d, name)
		for _, dt := range []kernels.DType{kernels.BF16, kernels.FP8, kernels.INT8} {
			s, err := kernels.CheckKernel(t.Context(), d, g, dt, 7)
			if err != nil {
				t.Errorf("%s %s: %v", name, dt, err)
				continue
			}
			t.Logf("%s %s: %d passed, %d skipped, %.2f of the bound used", name, dt, s.Passed, len(s.Skipped), s.Margin)
			if len(s.Skipped) > 0 {
				t.Log(s.Skipped[0])
			}
		}
	}
}

// timesOf returns each kernel's median time per launch in microseconds, over interleaved rounds with weights
// rotating past L2; NaN if a kernel refuses the product.
func timesOf(t *testing.T, d gputest.GPU, gemms []kernels.Kernel, p kernels.Task, rounds int) (us []float64, labels []string) {
	t.Helper()
	p, err := p.Normalized()
	if err != nil {
		t.Fatal(err)
	}
	size, out := int64(p.DType.Size()), int64(p.DType.Output().Size())
	var closers []func() error
	defer func() {
		for _, c := range slices.Backward(closers) {
			if err := c(); err != nil {
				t.Error(err)
			}
		}
	}()
	alloc := func(bytes int64) kernels.Buffer {
		b, err := d.Alloc(bytes)
		if err != nil {
			t.Fatal(err)
		}
		closers = append(closers, b.Close)
		return b
	}
	a, c := alloc(int64(p.M*p.K)*size), alloc(int64(p.M*p.N)*out)
	if err := a.Fill(kernels.Normal, p.DType, int64(p.M*p.K), 1); err != nil {
		t.Fatal(err)
	}
	bytes := int64(p.N*p.K) * size
	launches := make([][]kernels.Launch, len(gemms))
	us, labels = make([]float64, len(gemms)), make([]string, len(gemms))
	for i := range 3*d.Spec().LastLevelCacheBytes/bytes + 1 {
		raw := alloc(bytes)
		if err := raw.Fill(kernels.Normal, p.DType, int64(p.N*p.K), uint64(i)+2); err != nil {
			t.Fatal(err)
		}
		for g, gemm := range gemms {
			if math.IsNaN(us[g]) {
				continue
			}
			w, err := gemm.Prepare(p, raw)
			if err == nil {
				closers = append(closers, w.Close)
				var l kernels.Launch
				if l, err = gemm.Bind(p, kernels.Operand{Buffer: a}, w, kernels.Operand{Buffer: c}); err == nil {
					launches[g] = append(launches[g], l)
				}
			}
			var refused *kernels.Unsupported
			if errors.As(err, &refused) {
				us[g], labels[g] = math.NaN(), refused.Reason
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	samples := make([][]float64, len(gemms))
	for range rounds {
		for g := range gemms {
			if math.IsNaN(us[g]) {
				continue
			}
			n := max(len(launches[g]), 40)
			span, err := d.Execute(context.Background(), launches[g], n)
			if err != nil {
				t.Fatal(err)
			}
			samples[g] = append(samples[g], span.Seconds/float64(n)*1e6)
		}
	}
	for g, s := range samples {
		if len(s) > 0 {
			slices.Sort(s)
			us[g], labels[g] = s[len(s)/2], launches[g][0].Label()
		}
	}
	return us, labels
}

// TestBlasChoices logs the heuristics' choices and the alternatives. It fails only for impossible times.
func TestBlasChoices(t *testing.T) {
	d := gputest.First(t)
	cublas, lt := kernelOf(t, d, "cublas"), kernelOf(t, d, "cublaslt")
	gemms := []kernels.Kernel{cublas, lt}
	for n := range 4 {
		gemms = append(gemms, lt.(kernels.Candidates).Candidate(n+1))
	}
	for _, dt := range []kernels.DType{kernels.BF16, kernels.FP8, kernels.INT8} {
		if lt.Supports(kernels.Task{Subject: kernels.Product(dt, 64, 64), M: 64}) != nil {
			continue
		}
		for _, m := range []int{1, 96, 3000} {
			for _, nk := range [][2]int{{4096, 14336}, {14336, 4096}} {
				p := kernels.Task{Subject: kernels.Product(dt, nk[0], nk[1]), M: m}
				us, labels := timesOf(t, d, gemms, p, 5)
				for i, g := range gemms {
					t.Logf("%v %s %-10s %8.2f us  %s", p.Shape(), dt, g.Name(), us[i], labels[i])
					if i == 1 && (math.IsNaN(us[i]) || labels[i] == "") {
						t.Errorf("%v %s: the heuristic has nothing: %q", p.Shape(), dt, labels[i])
					}
				}
				seen := map[string]bool{}
				if labels[0] == "" {
					t.Errorf("%v %s: cublas does not name its kernel", p.Shape(), dt)
				}
				for i, l := range labels[1:] {
					if !math.IsNaN(us[i+1]) && seen[l] {
						t.Errorf("%v %s: two choices are %q", p.Shape(), dt, l)
					}
					seen[l] = true
				}
			}
		}
	}
}

// TestBlasSplitSums logs the cost of fp32 partial sums of split K, and whether lower precision passes the
// gate.
func TestBlasSplitSums(t *testing.T) {
	d := gputest.First(t)
	exact := kernelOf(t, d, "cublas").(*cublas)
	first := kernelOf(t, d, "cublaslt").(*cublasLtChoice)
	gemms := []kernels.Kernel{
		exact, &cublas{dev: d.Device, lib: exact.lib, loading: exact.loading, about: exact.about, sums: sumsRounded},
		first, &cublasLtChoice{cublasLt: &cublasLt{dev: d.Device, lib: first.lib, about: first.about, sums: sumsRounded}},
	}
	for _, g := range gemms {
		for _, dt := range []kernels.DType{kernels.BF16, kernels.FP16} {
			_, err := kernels.CheckKernel(t.Context(), d, g, dt, 7)
			t.Logf("%s %s: %v", g.Describe(), dt, err)
		}
	}
	for _, m := range []int{1, 8, 32, 100, 256, 1000} {
		for _, nk := range [][2]int{{4096, 14336}, {1024, 4096}, {4096, 4096}} {
			p := kernels.Task{Subject: kernels.Product(kernels.BF16, nk[0], nk[1]), M: m}
			us, labels := timesOf(t, d, gemms, p, 5)
			t.Logf("%v cublas %.2f, rounded %.2f; cublaslt %.2f (%s), rounded %.2f (%s)", p.Shape(), us[0], us[1], us[2], labels[2], us[3],
				labels[3])
		}
	}
}

// Each offered algorithm can be rebuilt from its attributes, with the same label and bits.
func TestBlasAlgorithmsByAttributes(t *testing.T) {
	d := gputest.First(t)
	lt := kernelOf(t, d, "cublaslt").(*cublasLtChoice)
	p := kernels.Task{Subject: kernels.Linear(kernels.BF16, 4096, 4096), M: 264}
	var offered, refused int
	for n := range 8 {
		var choice kernels.Kernel = lt
		if n > 0 {
			choice = lt.Candidate(n)
		}
		if choice.Supports(p) != nil {
			break
		}
		told, err := choice.Choice(p)
		if err != nil {
			t.Fatal(err)
		}
		offered++
		built := lt.WithAlgorithm(told.Algorithm)
		if err := built.Supports(p); err != nil {
			refused++
			t.Logf("%s: %v", told.Label, err)
			continue
		}
		again, err := built.Choice(p)
		if err != nil || again.Label != told.Label || again.Algorithm != told.Algorithm {
			t.Errorf("%s is %s by its attributes, %v", told.Label, again.Label, err)
		}
		if _, err := kernels.CheckKernel(t.Context(), d, built, kernels.BF16, 7); err != nil {
			t.Errorf("%s: %v", built.Name(), err)
		}
	}
	if offered < 2 || 2*refused > offered {
		t.Errorf("of %d algorithms %d are refused by their attributes", offered, refused)
	}
}

// The library passes the gate of products with scales, or refuses them with a reason.
func TestScaledGate(t *testing.T) {
	d := gputest.First(t)
	for _, name := range []string{"cublaslt", "cublaslt:1"} {
		g := kernelOf(t, d, name)
		passed, most, refused := map[string]int{}, 0.0, map[string]int{}
		for _, p := range kernels.QuantizedCheckProblems(kernels.FP8) {
			check, err := kernels.NewGemmCheck(p, 3)
			if err != nil {
				t.Fatal(err)
			}
			request, _ := p.Weights.Requested(p.K)
			margin, err := check.Margin(t.Context(), d, g)
			var no *kernels.Unsupported
			switch {
			case errors.As(err, &no):
				refused[no.Reason]++
				if strings.Contains(no.Reason, "no algorithm") && p.LDA%16 == 0 && p.N%16 == 0 && p.K%16 == 0 {
					t.Logf("%s %v lda %d: %s", name, p, p.LDA, no.Reason)
				}
			case err != nil:
				t.Errorf("%s: %v", name, err)
			default:
				passed[request.String()]++
				most = max(most, margin)
			}
		}
		t.Logf("%s: passed %v, %.3f of the bound, refused %v", name, passed, most, refused)
		if least := map[string]int{"cublaslt": 3, "cublaslt:1": 1}[name]; len(passed) < least {
			t.Errorf("%s computes %v only", name, passed)
		}
	}
}
