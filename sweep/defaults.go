package sweep

import (
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// LadderKernels is what selects the rungs of the ladder of our own kernels, as a kernel's name.
const LadderKernels = "ladder"

// slowReference and rung are why a kernel is left out by default.
const (
	slowReference = "it is the slow reference"
	rung          = "auto picks among the rungs of our own ladder: --kernel " + LadderKernels + " takes them"
)

// ladder are our own kernels for matrix products, each with the reason why a sweep leaves it
// out unless it is asked for: what people run is a library, or auto.
var ladder = map[string]string{
	"naive": slowReference,
	"tiled": rung, "gemv": rung, // of CPUs and GPUs
	"amx":  rung,                              // of CPUs
	"wmma": rung, "mma": rung, "hopper": rung, // of GPUs
}

// softmaxLadder is the same of softmax. What it does not name is a baseline, or auto.
var softmaxLadder = map[string]string{
	"naive": slowReference,
	"warp":  rung, "block": rung, "cluster": rung, "reread": rung,
}

// forQuantised are our kernels that take quantised weights only. auto has them all.
var forQuantised = map[string]bool{"w4a16": true, "w8a16": true}

// leftOut is why a kernel is measured only when it is asked for; empty where it is by default.
func leftOut(o kernels.Operation, kernel string) string {
	if o == kernels.GEMM && forQuantised[kernel] {
		return "auto picks among our kernels for quantised weights"
	}
	return ladderOf(o)[kernel]
}

// ladderOf are our own kernels of an operation beside auto, with why they are left out.
func ladderOf(o kernels.Operation) map[string]string {
	switch {
	case o == kernels.GEMM:
		return ladder
	case isSoftmax(o):
		return softmaxLadder
	}
	return map[string]string{"naive": slowReference}
}

// rungs lists the kernels of our own ladder among those of an operation.
func rungs(o kernels.Operation, all []kernels.Implementation) []kernels.Implementation {
	return slices.DeleteFunc(slices.Clone(all), func(k kernels.Implementation) bool { return ladderOf(o)[k.Name()] == "" })
}

// dtypes are the preset's data types for a device: a host has fp32 too, which is often what it
// is fastest in.
func (p Preset) dtypes(d kernels.Device) []kernels.DType {
	if d.Spec().Kind.Facts().Host && !slices.Contains(p.DTypes, kernels.FP32) {
		return append(slices.Clone(p.DTypes), kernels.FP32)
	}
	return p.DTypes
}

// leastInferred is the number of Ms from which on a series is inferred: of fewer, those that
// a designer would measure are most of them.
const leastInferred = 64

// infers says whether a series of an operation over so many Ms is inferred where that is asked
// for.
func infers(o kernels.Operation, ms Batches) bool {
	return o == kernels.GEMM && len(ms) >= leastInferred
}
