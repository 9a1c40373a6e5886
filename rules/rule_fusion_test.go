package rules

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

func fusedKey(kernel string, e kernels.Epilogue) results.SeriesKey {
	k := synthetic.Keyed(kernel, kernels.BF16)
	k.Subject = kernels.Subject{Operation: kernels.FusedGEMM, DType: kernels.BF16, Dims: kernels.Dims{N: 2048, K: 1024, Epilogue: e},
		Layout: kernels.Transposed}
	return k
}

// fusedTime is the time of a product with half a microsecond of launch, and of a separate pass over C, in microseconds. lost are
// the Ms where fusing loses 40 %.
func fusedTime(lost func(m int) bool) func(results.Case) float64 {
	return func(c results.Case) float64 {
		us := 0.5 + 1e6*c.FLOPs()/100e12
		if strings.Contains(c.Kernel, "-separate") {
			return us + 0.5 + 1e6*2*float64(c.OutputElements(c.M))*2/4e12
		}
		if lost(c.M) {
			us *= 1.4
		}
		return us
	}
}

func never(int) bool { return false }

func fusionAudit(t *testing.T, cfg Config, keys []results.SeriesKey, us func(results.Case) float64) *Audit {
	t.Helper()
	data, w := synthetic.Joined(keys, us, synthetic.Grid(256, 4096, 256), 5)
	a, err := RunAudit(t.Context(), data, cfg, w)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// Fusing that loses at some Ms has one finding there, confirmed, and the audit says where it pays. The rule alternative leaves
// the pair alone.
func TestFusion(t *testing.T) {
	e := kernels.Bias + kernels.GELU
	keys := []results.SeriesKey{fusedKey("lib@13.1", e), fusedKey("lib-separate@13.1", e), fusedKey("other", e)}
	a := fusionAudit(t, Default().Only(Fusion, Alternative), keys[:2], fusedTime(func(m int) bool { return m >= 1024 && m <= 2048 }))
	if len(a.Findings) != 1 {
		t.Fatalf("findings %+v", a.Findings)
	}
	f := a.Findings[0]
	if f.Rule != Fusion || f.Series != keys[0] || f.FromM != 1024 || f.ToM != 2048 || f.Status != Confirmed ||
		f.Cause != cause.Implementation || f.Against == nil || f.Against.Kernel != "lib-separate@13.1" {
		t.Errorf("finding %+v", f)
	}
	for text, in := range map[string]string{"lib-separate@13.1 runs the product": f.Explanation, "then bias+gelu": f.Explanation,
		"--kernel lib@13.1,lib-separate@13.1 --op fused": f.Reproduce, "--epilogue bias+gelu": f.Reproduce} {
		if !strings.Contains(in, text) {
			t.Errorf("%q lacks %q", in, text)
		}
	}
	if len(a.Fusing) != 1 || a.Fusing[0].Series != keys[0] || a.Fusing[0].Separate != "lib-separate@13.1" {
		t.Fatalf("answers %+v", a.Fusing)
	}
	var got []string
	for _, s := range a.Fusing[0].Stretches() {
		got = append(got, string(s.Answer))
		us := func(key results.SeriesKey) float64 {
			return fusedTime(never)(results.Case{SeriesKey: key, M: s.Most.M})
		}
		gain := us(keys[1]) / us(keys[0])
		if s.Answer == FusingCosts {
			gain /= 1.4
		}
		if math.Abs(s.Most.Gain.Mid/gain-1) > 0.02 || s.Most.Gain.Lo > s.Most.Gain.Hi {
			t.Errorf("at M %d a gain of %v, expected %g", s.Most.M, s.Most.Gain, gain)
		}
	}
	if !slices.Equal(got, []string{"pays", "costs", "pays"}) {
		t.Errorf("answers %q", got)
	}
	// Another kernel has no parts in the run, and without the parts no row is judged.
	a = fusionAudit(t, Default().Only(Fusion), []results.SeriesKey{keys[0], keys[2]}, fusedTime(func(int) bool { return true }))
	if len(a.Findings)+len(a.Fusing) != 0 || a.Judged[0].Decided+a.Judged[0].Undecided != 0 {
		t.Errorf("findings %+v, answers %+v, judged %+v", a.Findings, a.Fusing, a.Judged)
	}
	// A third kernel is still compared with both.
	slow := func(c results.Case) float64 {
		if us := fusedTime(never)(c); c.Kernel == "other" {
			return 2 * us
		} else {
			return us
		}
	}
	a = fusionAudit(t, Default().Only(Fusion, Alternative), keys, slow)
	if len(a.Findings) != 1 || a.Findings[0].Rule != Alternative || a.Findings[0].Series.Kernel != "other" {
		t.Errorf("findings %+v", a.Findings)
	}
}

// Where fusing costs exactly what is allowed, at most the stated share of runs has a finding; where it costs 12 %, nearly all do.
func TestFusionErrorRates(t *testing.T) {
	t.Parallel()
	const runs = 40
	keys := []results.SeriesKey{fusedKey("lib", kernels.Gated), fusedKey("lib-separate", kernels.Gated)}
	cfg := Default().Only(Fusion)
	for _, c := range []struct {
		cost                float64
		least, most         int // runs with a finding
		mostWrong, leastSay int // runs with a wrong answer, runs with a right one
	}{{1 + cfg.Rules.Fusion.Margin, 0, 6, 6, 38}, {1, 0, 0, 6, 0}, {1.12, 38, runs, 0, 38}, {0.9, 0, 0, 0, 38}} {
		found, wrong, right := 0, 0, 0
		for run := range uint64(runs) {
			data, _ := synthetic.Joined(keys, func(c2 results.Case) float64 {
				us := float64(c2.M)
				if c2.Kernel == "lib" {
					us *= c.cost
				}
				return us
			}, synthetic.Grid(256, 4096, 256), run)
			a, err := RunAudit(t.Context(), noisier(data, run), cfg, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(a.Findings) > 0 {
				found++
			}
			said := map[FusingAnswer]bool{}
			for _, r := range a.Fusing[0].Rows {
				said[r.Answer] = true
			}
			if said[FusingPays] && c.cost >= 1 || said[FusingCosts] && c.cost <= 1 {
				wrong++
			}
			if said[FusingPays] && c.cost < 1 || said[FusingCosts] && c.cost > 1 {
				right++
			}
		}
		if wrong > c.mostWrong || right < c.leastSay {
			t.Errorf("fusing takes %.2f times as long: %d of %d runs have a wrong answer, %d a right one", c.cost, wrong, runs, right)
		}
		if found < c.least || found > c.most {
			t.Errorf("fusing takes %.2f times as long: %d of %d runs have a finding, expected %d to %d", c.cost, found, runs,
				c.least, c.most)
		}
	}
}

// noisier scatters the samples of a run by 2 %.
func noisier(data infer.Data, seed uint64) infer.Data {
	rng := rand.New(rand.NewPCG(seed, 3))
	for i := range data.Series {
		for r := range data.Series[i].Rows {
			samples := data.Series[i].Rows[r].Samples
			for k := range samples {
				samples[k].US *= math.Exp(0.02 * rng.NormFloat64())
			}
		}
	}
	return data
}

// Few samples raise a suspicion.
func TestSuspectedFusion(t *testing.T) {
	keys := []results.SeriesKey{fusedKey("lib", kernels.Residual), fusedKey("lib-separate", kernels.Residual)}
	data, _ := synthetic.Joined(keys, fusedTime(func(int) bool { return true }), synthetic.Grid(256, 4096, 256), 5)
	wantSuspicion(t, data, Fusion)
}

// An answer that the second measurement does not uphold is open, also by kept proof.
func TestFusingIsSettled(t *testing.T) {
	key := fusedKey("lib", kernels.Bias)
	a := Audit{Fusing: []Fusing{{Series: key, Rows: []FusingRow{{M: 8, Answer: FusingCosts}, {M: 16, Answer: FusingCosts},
		{M: 32, Answer: FusingPays}}}}}
	a.settleFusing([]SeriesProof{{Series: key, Rows: []RowProof{{M: 8, Verdict: Clean}, {M: 16, Verdict: Anomalous},
		{M: 32, Verdict: Undecided}}}, {Series: fusedKey("other", kernels.Bias), Rows: []RowProof{{M: 16, Verdict: Clean}}}})
	for i, want := range []FusingAnswer{FusingOpen, FusingCosts, FusingPays} {
		if got := a.Fusing[0].Rows[i]; got.Answer != want {
			t.Errorf("M %d: %s, expected %s", got.M, got.Answer, want)
		}
	}
}

func TestSeparateKernel(t *testing.T) {
	for kernel, want := range map[string]string{"auto": "auto-separate", "cublaslt@13.1": "cublaslt-separate@13.1", "auto-separate": "",
		"cublaslt-separate@13.1": "", "cublaslt:2": "", "cublaslt@13.1:2": ""} {
		if got := kernels.SeparateKernel(kernel); got != want {
			t.Errorf("the parts of %s are %q, expected %q", kernel, got, want)
		}
	}
}
