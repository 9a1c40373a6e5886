package kernels

import (
	"strings"
	"testing"
)

func FuzzNames(f *testing.F) {
	for _, s := range []string{
		"fp32", " BF16 ", "int8", "int4:128", "int8:column", "int4:64:zero", "plain", "int4 g128x1 fp16 zint4", "int8 g256x1 bf16",
		"gemm", "attention-decode", "kn", "nk", "cublaslt:2", "cublaslt:99", "a:0",
		"cublaslt:id66_tile20_stages35_splitk1_red0_swizzle1_custom0_inner0_cluster3",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := ParseDType(s); err == nil && d.Size() == 0 {
			t.Fatalf("%q is read as %q, which has no size", s, d)
		}
		if o, err := ParseOperation(s); err == nil {
			if again, err := ParseOperation(o.String()); err != nil || again != o {
				t.Fatalf("%q is operation %v, read again as %v, %v", s, o, again, err)
			}
		}
		if l, err := ParseLayout(s); err == nil {
			if again, err := ParseLayout(l.String()); err != nil || again != l {
				t.Fatalf("%q is layout %v, read again as %v, %v", s, l, again, err)
			}
		}
		if q, err := ParseWeights(s); err == nil {
			if again, err := ParseWeights(q.String()); err != nil || again != q {
				t.Fatalf("%q is %+v, read again as %+v, %v", s, q, again, err)
			}
			if w, err := q.For(FP16, q.GroupOf(1<<10)); err == nil {
				if again, err := ParseWeightFormat(w.String()); err != nil || again != w {
					t.Fatalf("%q makes weights %q, read again as %v, %v", s, w, again, err)
				}
			}
		}
		if w, err := ParseWeightFormat(s); err == nil && w.String() != s {
			t.Fatalf("%q is weights %v", s, w)
		}
		if kernel, n := SplitCandidate(s); n > 0 && CandidateName(kernel, n) != s {
			t.Fatalf("%q is candidate %d of %q", s, n, kernel)
		}
		if kernel, a, ok := SplitAlgorithm(s); ok && (AlgorithmName(kernel, a) != s || a.Validate() != nil) {
			t.Fatalf("%q is algorithm %+v of %q", s, a, kernel)
		}
		name := KernelOf(s)
		if again := KernelOf(name); !strings.HasPrefix(name, again) {
			t.Fatalf("%q is kernel %q, then %q", s, name, again)
		}
	})
}
