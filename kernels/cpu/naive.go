package cpu

/*
#include "native/naive.h"
*/
import "C"

import "github.com/gemmaudit/gemmaudit/kernels"

func init() { constructors[slotNaive] = newNaive }

// naive is the triple loop on B as it is given.
type naive struct{ dev *Device }

func newNaive(d *Device) (kernels.Gemm, *kernels.Missing) { return naive{d}, nil }

func (naive) Name() string { return "naive" }

func (naive) Describe() string { return "plain C triple loop on unpacked weights" }

func (k naive) Supports(p kernels.Problem) error { return k.dev.supports(k.Name(), p) }

func (k naive) PrepareWeights(p kernels.Problem, raw kernels.Buffer) (kernels.Weights, error) {
	return k.dev.keepRaw(p, raw)
}

func (k naive) Bind(p kernels.Problem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	if err := k.Supports(p); err != nil {
		return nil, err
	}
	g, p, err := k.dev.bindRaw(k.Name(), p, a, w, c)
	if err != nil {
		return nil, err
	}
	l := kernelLaunch(C.ga_kernel(C.ga_naive), g, k.dev.threadsOf(p), "", a.Buffer, w, c.Buffer)
	l.tiling = k.tiling(p)
	return l, nil
}

// tiling is how the launch of a normalized problem divides its work.
func (naive) tiling(kernels.Problem) kernels.Tiling {
	return kernels.Tiling{Tile: [3]int{1, 1, 1}, Split: 1}
}

// Choice implements [kernels.ChoiceTeller].
func (k naive) Choice(p kernels.Problem) (kernels.Choice, error) { return plannedChoice(k, p) }

// SupportsBatch implements [kernels.Batcher].
func (k naive) SupportsBatch(batch kernels.Batch) error { return batchSupports(k, batch) }

// PrepareBatch implements [kernels.Batcher].
func (k naive) PrepareBatch(batch kernels.Batch, raw kernels.Buffer) (kernels.Weights, error) {
	return k.dev.batchPrepare(k, batch, raw)
}

// BindBatch implements [kernels.Batcher]: the products run one after the other.
func (k naive) BindBatch(batch kernels.Batch, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	return k.dev.batchBind(k, batch, a, w, c)
}
