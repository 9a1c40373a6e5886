package rules

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/phrase"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

func TestChoices(t *testing.T) {
	data, w := synthetic.ChosenBadly("lt", "lt:1", "lt:2")
	for rule, last := range map[Rule]int{Alternative: 192, Monotonic: 176} {
		f := only(t, rule, data, w)
		if len(f) != 1 || f[0].Series.Kernel != "lt" || f[0].FromM != 128 || f[0].ToM != last || f[0].Cause != cause.HeuristicChoice {
			t.Fatalf("%s: findings %+v", rule, f)
		}
		for _, want := range []string{"lt:2", "algo 66 tile 128x256x64 stages 4 splitk 1", "algo 21 tile 128x64x64 stages 5 splitk 1"} {
			if !strings.Contains(f[0].Explanation, want) {
				t.Errorf("%s: %q lacks %q", rule, f[0].Explanation, want)
			}
		}
	}
	article := Default()
	article.Method = MethodArticle
	a, err := RunAudit(context.Background(), data, article, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range a.Findings {
		if f.Series.Kernel != "lt" {
			t.Errorf("the article's method accuses a candidate: %+v", f)
		}
	}
}

func TestChoiceAlone(t *testing.T) {
	data, w := synthetic.ChosenBadly("lt:1")
	if f := only(t, Monotonic, data, w); !slices.ContainsFunc(f, func(f Finding) bool { return f.Series.Kernel == "lt:1" }) {
		t.Errorf("findings %+v", f)
	}
}

func TestChoicesOfOneLibrary(t *testing.T) {
	for pair, same := range map[[2]string]bool{
		{"cublas", "cublaslt:3"}: true, {"cublaslt", "cublas"}: true, {"lib:1", "lib:2"}: true,
		{"cublas", "hopper"}: false, {"lib", "libs"}: false,
		{"cublas@12.4.5", "cublaslt@12.4.5:2"}: true, {"cublaslt@12.4.5", "cublaslt@13.0.0"}: false, {"cublas", "cublasltx"}: false,
	} {
		if got := kernels.ChooserOf(pair[0]) == kernels.ChooserOf(pair[1]); got != same {
			t.Errorf("%v: one library is %v", pair, got)
		}
	}
	for label, want := range map[string]string{
		"void gemmk1_kernel<int>(x)":                                        "gemmk1_kernel<int",
		"void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm>(Params)": "cutlass_80_tensorop_f16_s16816gemm",
		"algo 1 splitk 1": "algo 1 splitk 1",
		"":                "an unnamed algorithm",
	} {
		if got := phrase.Kernel(label); got != want {
			t.Errorf("%q is cut to %q, want %q", label, got, want)
		}
	}
}
