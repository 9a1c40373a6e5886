// Package gemm is the common part of kernel families for products: the problem to plan, its operands'
// addresses, and the ladder that turns families into a device's kernels. Each family is a package below.
package gemm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// Problem is a normalized product and the alignment of its operands. A task with an epilogue is that of a fused product, which
// families support that have kernels for it.
type Problem struct {
	kernels.Task
	Aligned Alignment
}

// NewProblem returns the normalized p with the alignment of A and C in bytes.
func NewProblem(p kernels.Task, a, c int) Problem {
	return Problem{Task: p, Aligned: Alignment{A: a, C: c}}
}

// Alignment is the largest power of two in bytes, at most 16, that divides a matrix's address and row stride.
// Packed weights are aligned to 16 bytes.
type Alignment struct{ A, C int }

// Addresses are the device addresses of a product's operands. B is a packed matrix: N rows of K elements, LDB
// apart, LDB·size a multiple of 16, with zeros between K and LDB.
type Addresses struct {
	A, B, C        uint64
	LDB            int
	Scratch, Flags uint64
	// ScalesA and ScalesB are those of activations and weights, 0 if there are none.
	ScalesA, ScalesB uint64
	// Bias and Residual are those of an epilogue, 0 if it has none.
	Bias, Residual uint64
}

// Family and Plan are planning's types for products.
type (
	Family = planning.Family[Problem, Addresses]
	Plan   = planning.Plan[Addresses]
)

// bufferAlignment is the minimum alignment of a buffer's address, in bytes.
const bufferAlignment = 256

// InBuffers returns the normalized p with operands at the beginning of buffers.
func InBuffers(p kernels.Task) Problem { return At(p, bufferAlignment, bufferAlignment) }

// At returns the normalized p with A and C at addresses.
func At(p kernels.Task, a, c uint64) Problem {
	return NewProblem(p, planning.AlignmentOf(a, int64(p.LDA)*int64(p.DType.Size())),
		planning.AlignmentOf(c, int64(p.LDC)*int64(p.DType.Output().Size())))
}

// ChoiceOf returns the launch that the best of families would make on a for the normalized p, with operands
// at the beginning of buffers. ok is false if no family supports p.
func ChoiceOf(among []Family, a planning.Arch, p kernels.Task) (c kernels.Choice, ok bool) {
	choice, why := planning.Choose(among, a, InBuffers(p))
	if why != "" {
		return c, false
	}
	plan := choice.Plan
	calls := plan.Bind(Addresses{LDB: support.PackedLDB(p.DType, p.K)})
	main := calls[len(calls)-1]
	c = kernels.Choice{Label: choice.Label, Tiling: plan.Tiling, Stages: plan.Stages, Slots: float64(plan.Slots)}
	c.Grid = [3]int{max(1, main.Grid.X), max(1, main.Grid.Y), max(1, main.Grid.Z)}
	if main.Cluster != (planning.Dim3{}) {
		c.Cluster = [3]int{max(1, main.Cluster.X), max(1, main.Cluster.Y), max(1, main.Cluster.Z)}
	}
	return c, true
}

// DescribeAuto describes auto's candidates on a GPU, and notes if its compute capability was never measured.
func DescribeAuto(a planning.Arch, among []Family) string {
	names := make([]string, len(among))
	for i, f := range among {
		names[i] = f.Name()
	}
	return fmt.Sprintf("picks the least expected time among %s, by tiles, waves and bytes%s", strings.Join(names, ", "), untuned(a))
}

func untuned(a planning.Arch) string {
	c := calibration.Nearest(a.CC, a.SMs, a.Bandwidth)
	if c.Capability == a.CC {
		return ""
	}
	return fmt.Sprintf("; runs, not tuned: compute capability %d.%d was not measured, so times are predicted as for %s", a.CC/10, a.CC%10,
		c.Card)
}

// Families are kernel families for plain weights, for quantized ones, and for fp8 with scales of activations and weights.
type Families struct{ Plain, Quantized, Scaled []Family }

// of returns the families for the weights of a product.
func (f Families) of(p kernels.Task) []Family {
	switch {
	case p.Scaled():
		return f.Scaled
	case p.Quantized():
		return f.Quantized
	}
	return f.Plain
}

// weights says what weights the families take that are not those of a product.
func (f Families) weights() string {
	switch {
	case len(f.Plain) > 0:
		return "its weights are plain"
	case len(f.Scaled) > 0:
		return "its weights are fp8 with scales, as --weights fp8:128x128 makes them"
	}
	return "its weights are integers with scales, as --weights int4:128 makes them, not plain"
}

// Present divides families into those that run on a and the reasons of the others. A family runs if it
// supports some type and shape.
func (f Families) Present(a planning.Arch) (there Families, missing []kernels.Missing) {
	present := func(families []Family, probes []kernels.Task) (some []Family) {
		for _, f := range families {
			if reason := nothing(f, a, probes); reason != "" {
				missing = append(missing, kernels.Missing{Name: f.Name(), Reason: reason})
				continue
			}
			some = append(some, f)
		}
		return some
	}
	there.Plain = present(f.Plain, plainProbes())
	there.Quantized = present(f.Quantized, quantizedProbes())
	there.Scaled = present(f.Scaled, scaledProbes())
	return there, missing
}

// plainProbes are a decode-sized and a large product in every type, first of the type that every tensor core
// has.
func plainProbes() (all []kernels.Task) {
	types := kernels.DTypes()
	slices.SortStableFunc(types, func(a, b kernels.DType) int {
		return planning.OneIf(a != kernels.FP16) - planning.OneIf(b != kernels.FP16)
	})
	for _, d := range types {
		for _, m := range []int{1, 4096} {
			all = append(all, kernels.Task{Subject: kernels.Product(d, 4096, 4096), M: m})
		}
	}
	return all
}

func quantizedProbes() (all []kernels.Task) {
	for _, bits := range []int{4, 8} {
		p := kernels.Task{Subject: kernels.Linear(kernels.FP16, 4096, 4096), M: 1}
		if weights, err := kernels.IntegerWeights(bits, support.RecordK, false).For(p.DType, p.K); err == nil {
			all = append(all, p.WithWeights(weights))
		}
	}
	return all
}

func scaledProbes() (all []kernels.Task) {
	for _, of := range []string{"fp8:128x128", "fp8:column"} {
		p := kernels.Task{Subject: kernels.Linear(kernels.FP8, 4096, 4096), M: 1}
		f, err := kernels.ParseWeights(of)
		if err == nil {
			f, err = f.For(p.DType, p.K)
		}
		if err == nil {
			all = append(all, p.WithWeights(f))
		}
	}
	return all
}

// nothing returns the first probe's reason if the family supports none.
func nothing(f Family, a planning.Arch, probes []kernels.Task) (first string) {
	for _, p := range probes {
		p, err := p.Normalized()
		if err != nil {
			return err.Error()
		}
		reason := f.Supports(a, Problem{Task: p})
		if reason == "" {
			return ""
		}
		first = cmp.Or(first, reason)
	}
	return first
}
