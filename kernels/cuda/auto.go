package cuda

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// pick plans p, which is normalized, with every family among those given that can run
// it and returns the plan of least expected time, the earlier family's where two are
// equal. ok is false when none can.
func pick(among []family, a arch, p kernels.Problem, o alignment) (best family, plan planned, ok bool) {
	for _, f := range among {
		if f.supports(a, p) != "" {
			continue
		}
		if this := f.plan(a, p, o); !ok || this.seconds < plan.seconds {
			best, plan, ok = f, this, true
		}
	}
	if ok {
		plan.label = joinLabel(best.name(), plan.label)
	}
	return best, plan, ok
}

// joinLabel puts what was picked before how it was planned.
func joinLabel(name, label string) string { return strings.TrimSpace(name + " " + label) }

// refusals are the families' reasons why none of them runs p, each once.
func refusals(among []family, a arch, p kernels.Problem) string {
	var reasons []string
	for _, f := range among {
		if r := f.supports(a, p); !slices.Contains(reasons, r) {
			reasons = append(reasons, r)
		}
	}
	return strings.Join(reasons, "; ")
}

// describeAuto says among what auto picks.
func describeAuto(among []family) string {
	names := make([]string, len(among))
	for i, f := range among {
		names[i] = f.name()
	}
	return fmt.Sprintf("picks the least expected time among %s, by tiles, waves and bytes", strings.Join(names, ", "))
}

// present divides the ladder into the families that run on a and the reasons of those
// that don't. A family that runs some type and shape is there.
func present(a arch) (there []family, missing []kernels.Missing) {
	for _, f := range families {
		if f == nil {
			continue
		}
		if reason := nothing(f, a); reason != "" {
			missing = append(missing, kernels.Missing{Name: f.name(), Reason: reason})
			continue
		}
		there = append(there, f)
	}
	return there, missing
}

// nothing is why a family runs nothing at all on a, empty when it runs something. It
// asks for a decoder's product and for a large one in every type.
func nothing(f family, a arch) string {
	first := ""
	for _, d := range kernels.DTypes() {
		for _, m := range []int{1, 4096} {
			p, err := kernels.Problem{Shape: kernels.Shape{M: m, N: 4096, K: 4096}, DType: d}.Normalized()
			if err != nil {
				return err.Error()
			}
			reason := f.supports(a, p)
			if reason == "" {
				return ""
			}
			if d == kernels.FP16 && m == 1 {
				first = reason // of the type that every tensor core has
			}
		}
	}
	return first
}

// alignmentOf is the largest power of two, at most 16, that divides an address and the
// distance of rows, in bytes.
func alignmentOf(address uint64, rowBytes int64) int {
	n := 16
	for n > 1 && (address|uint64(rowBytes))&uint64(n-1) != 0 {
		n /= 2
	}
	return n
}
