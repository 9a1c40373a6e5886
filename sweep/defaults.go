package sweep

import (
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// LadderKernels is the kernel name that selects each of our own matrix kernels.
const LadderKernels = "ladder"

// rungs lists our kernels of an operation's ladder.
func rungs(o kernels.Operation, all []kernels.Kernel) []kernels.Kernel {
	return slices.DeleteFunc(slices.Clone(all), func(k kernels.Kernel) bool { return o.Definition().Ladder[k.Name()] == "" })
}

// A host also gets fp32, often its fastest type.
func (p Preset) dtypes(d kernels.Device) []kernels.DType {
	if d.Spec().Kind.Facts().Host && !slices.Contains(p.DTypes, kernels.FP32) {
		return append(slices.Clone(p.DTypes), kernels.FP32)
	}
	return p.DTypes
}

// With fewer Ms, a designer would measure most of them anyway.
const leastInferred = 64

func infers(o kernels.Operation, ms Batches) bool {
	return o.IsProduct() && len(ms) >= leastInferred
}
