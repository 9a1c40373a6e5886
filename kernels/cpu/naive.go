package cpu

/*
#include "native/naive.h"
*/
import "C"

import "github.com/gemmaudit/gemmaudit/kernels"

func init() { constructors[slotNaive] = newNaive }

type naive struct{ dev *Device }

func newNaive(d *Device) (kernels.Kernel, *kernels.Missing) { return naive{d}, nil }

func (naive) Name() string { return "naive" }

func (naive) Describe() string { return "plain C triple loop on unpacked weights" }

func (k naive) Supports(t kernels.Task) error {
	_, err := k.dev.supports(k.Name(), t, kernels.Batches|kernels.ScaledWeights)
	return err
}

func (k naive) Prepare(t kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	if t.Scaled() {
		return k.prepareScaled(t, raw)
	}
	return k.dev.prepare(k, kernels.Batches, t, raw, k.dev.keepRaw)
}

// Bind implements [kernels.Kernel]; the products of a batch run in sequence.
func (k naive) Bind(t kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand, _ ...kernels.Operand) (kernels.Launch, error) {
	if err := k.Supports(t); err != nil {
		return nil, err
	}
	switch {
	case t.Products > 0:
		return k.dev.batchBind(k, t, a, w, c)
	case t.Scaled():
		return k.bindScaled(t, a, w, c)
	}
	g, p, err := k.dev.bindRaw(k.Name(), t, a, w, c)
	if err != nil {
		return nil, err
	}
	l := kernelLaunch(C.ga_kernel(C.ga_naive), g, k.dev.threadsOf(p), "", a.Buffer, w, c.Buffer)
	l.tiling = k.tiling(p)
	return l, nil
}

func (naive) tiling(kernels.Task) kernels.Tiling {
	return kernels.Tiling{Tile: [3]int{1, 1, 1}, Split: 1}
}

// Choice implements [kernels.Kernel].
func (k naive) Choice(p kernels.Task) (kernels.Choice, error) { return plannedChoice(k, p) }
