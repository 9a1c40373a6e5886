package cuda

import (
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

func TestPresent(t *testing.T) {
	for _, cc := range []int{75, 80, 86, 89, 90, 100, 120} {
		a := planning.Arch{CC: cc, SMs: 100, SharedMax: 99 << 10, L2: 50 << 20, ClockMHz: 1700, Bandwidth: 1e12}
		there, missing := gemm.Present(families, a)
		names := map[string]bool{}
		for _, f := range there {
			names[f.Name()] = true
			if f.Describe(a) == "" {
				t.Errorf("%d: %s does not describe itself", cc, f.Name())
			}
		}
		for _, m := range missing {
			if names[m.Name] || m.Reason == "" {
				t.Errorf("%d: %s is missing (%q) and there: %v", cc, m.Name, m.Reason, names[m.Name])
			}
		}
		for _, f := range families {
			if f.Name() == "naive" && !names["naive"] {
				t.Errorf("%d: naive is not there", cc)
			}
		}
		if cc != 90 && names["hopper"] {
			t.Errorf("%d: hopper is there", cc)
		}
		if d := gemm.DescribeAuto(a, there); !strings.Contains(d, "expected time") || strings.Contains(d, "runs, not tuned") != (cc != 90) {
			t.Errorf("%d: auto describes itself as %q", cc, d)
		}
	}
}
