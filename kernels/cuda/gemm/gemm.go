// Package gemm is what the families of kernels for products share: the problem that they
// plan, where its operands lie, and the ladder that makes kernels of a device of them. Each
// family is a package below.
package gemm

import (
	"fmt"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// Problem is what a family of kernels is asked to do: a normalized product, and how its
// operands lie.
type Problem struct {
	kernels.Problem
	Aligned Alignment
}

// NewProblem is the normalized p with operands that are aligned to so many bytes.
func NewProblem(p kernels.Problem, a, c int) Problem {
	return Problem{Problem: p, Aligned: Alignment{A: a, C: c}}
}

// Alignment is the largest power of two, at most 16, in bytes, that divides the
// address of a matrix and the distance of its rows. B needs none: packed weights
// are aligned to 16 bytes.
type Alignment struct{ A, C int }

// Addresses are where a product's operands lie on the device. B is a packed
// matrix: N rows of K elements, LDB apart, LDB·size a multiple of 16, with zeros
// between K and LDB.
type Addresses struct {
	A, B, C        uint64
	LDB            int
	Scratch, Flags uint64
}

// Family and Plan are those of products.
type (
	Family = planning.Family[Problem, Addresses]
	Plan   = planning.Plan[Addresses]
)

// labelOf names a plan among several families by its family as well.
func labelOf(among []Family, best Family, plan Plan) string {
	if len(among) > 1 {
		return planning.JoinLabel(best.Name(), plan.Label)
	}
	return plan.Label
}

// bufferAlignment is how the address of a buffer is aligned at least, in bytes.
const bufferAlignment = 256

// ChoiceOf is what the best of families would launch on a for p, normalized, with operands at
// the beginning of buffers. ok is false when none runs it.
func ChoiceOf(among []Family, a planning.Arch, p kernels.Problem) (c kernels.Choice, ok bool) {
	q := Problem{p, Alignment{
		A: planning.AlignmentOf(bufferAlignment, int64(p.LDA)*int64(p.DType.Size())),
		C: planning.AlignmentOf(bufferAlignment, int64(p.LDC)*int64(p.DType.Output().Size())),
	}}
	best, plan, ok := planning.Pick(among, a, q)
	if !ok {
		return c, false
	}
	calls := plan.Bind(Addresses{LDB: support.PackedLDB(p.DType, p.K)})
	main := calls[len(calls)-1]
	c = kernels.Choice{Label: labelOf(among, best, plan), Tiling: plan.Tiling, Stages: plan.Stages, Slots: float64(plan.Slots)}
	c.Grid = [3]int{max(1, main.Grid.X), max(1, main.Grid.Y), max(1, main.Grid.Z)}
	if main.Cluster != (planning.Dim3{}) {
		c.Cluster = [3]int{max(1, main.Cluster.X), max(1, main.Cluster.Y), max(1, main.Cluster.Z)}
	}
	return c, true
}

// DescribeAuto says among what auto picks on a GPU, and whether anything was measured on its like.
func DescribeAuto(a planning.Arch, among []Family) string {
	names := make([]string, len(among))
	for i, f := range among {
		names[i] = f.Name()
	}
	return fmt.Sprintf("picks the least expected time among %s, by tiles, waves and bytes%s", strings.Join(names, ", "), untuned(a))
}

// untuned says of a GPU of a compute capability on which nothing was measured that the models of times are another's.
func untuned(a planning.Arch) string {
	c, err := calibration.Nearest(a.CC, a.SMs, a.Bandwidth)
	if err != nil || c.Capability == a.CC {
		return ""
	}
	return fmt.Sprintf("; runs, not tuned: nothing was measured on compute capability %d.%d, so times are expected as on %s", a.CC/10, a.CC%10, c.Card)
}

// Present divides families into the families that run on a and the reasons of those
// that don't. A family that runs some type and shape is there.
func Present(families []Family, a planning.Arch) (there []Family, missing []kernels.Missing) {
	for _, f := range families {
		if reason := nothing(f, a); reason != "" {
			missing = append(missing, kernels.Missing{Name: f.Name(), Reason: reason})
			continue
		}
		there = append(there, f)
	}
	return there, missing
}

// nothing is why a family runs nothing at all on a, empty when it runs something. It
// asks for a decoder's product and for a large one in every type.
func nothing(f Family, a planning.Arch) string {
	first := ""
	for _, d := range kernels.DTypes() {
		for _, m := range []int{1, 4096} {
			p, err := kernels.Problem{Shape: kernels.Shape{M: m, N: 4096, K: 4096}, DType: d}.Normalized()
			if err != nil {
				return err.Error()
			}
			reason := f.Supports(a, Problem{Problem: p})
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
