package cuda

import (
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm/quantised"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

func TestPresent(t *testing.T) {
	for _, cc := range []int{75, 80, 86, 89, 90, 100, 120} {
		a := planning.Arch{CC: cc, SMs: 100, SharedMax: 99 << 10, L2: 50 << 20, ClockMHz: 1700, Bandwidth: 1e12}
		present, missing := gemm.Families{Plain: families, Quantized: quantised.Families()}.Present(a)
		names := map[string]bool{}
		for _, f := range slices.Concat(present.Plain, present.Quantized) {
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
		if there := names["w4a16"] && names["w8a16"]; there != (cc >= 80) {
			t.Errorf("%d: the kernels of quantized weights are there: %v", cc, there)
		}
		if cc != 90 && names["hopper"] {
			t.Errorf("%d: hopper is there", cc)
		}
		if d := gemm.DescribeAuto(a, present.Plain); !strings.Contains(d, "expected time") ||
			strings.Contains(d, "runs, not tuned") != (cc != 90) {
			t.Errorf("%d: auto describes itself as %q", cc, d)
		}
	}
}
