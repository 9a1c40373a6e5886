package cpu

/*
#include "naive.h"
*/
import "C"

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func init() { constructors[slotNaive] = newNaive }

// naive is the triple loop on B as it is given.
type naive struct{ dev *Device }

func newNaive(d *Device) (kernels.Gemm, *kernels.Missing) { return naive{d}, nil }

func (naive) Name() string { return "naive" }

func (naive) Describe() string { return "plain C triple loop on unpacked weights" }

func (k naive) Supports(p kernels.Problem) error { return k.dev.supports(k.Name(), p) }

// rawWeights is B as it was given.
type rawWeights struct {
	problem kernels.Problem // normalized
	raw     kernels.Buffer
}

// Bytes is what a launch reads of B: its elements, not the gaps between rows.
func (w *rawWeights) Bytes() int64 {
	return int64(w.problem.N) * int64(w.problem.K) * int64(w.problem.DType.Size())
}

// Close does nothing: the raw B is its owner's.
func (w *rawWeights) Close() error { return nil }

func (k naive) PrepareWeights(p kernels.Problem, raw kernels.Buffer) (kernels.Weights, error) {
	p, err := p.Normalized()
	if err != nil {
		return nil, err
	}
	if _, err := k.dev.rawB(p, raw); err != nil {
		return nil, err
	}
	return &rawWeights{p, raw}, nil
}

func (k naive) Bind(p kernels.Problem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	if err := k.Supports(p); err != nil {
		return nil, err
	}
	p, err := p.Normalized()
	if err != nil {
		return nil, err
	}
	rw, ok := w.(*rawWeights)
	if !ok || rw == nil {
		return nil, fmt.Errorf("%v: weights are a %T, not prepared by kernel %s", p.Shape, w, k.Name())
	}
	if q := rw.problem; q.N != p.N || q.K != p.K || q.DType != p.DType || q.BLayout != p.BLayout || q.LDB != p.LDB {
		return nil, fmt.Errorf("%v %s: weights were prepared for n%d k%d %s", p.Shape, p.DType, q.N, q.K, q.DType)
	}
	g, err := k.dev.bindAC(p, a, c)
	if err != nil {
		return nil, err
	}
	if g.b, err = k.dev.rawB(p, rw.raw); err != nil {
		return nil, err
	}
	return kernelLaunch(C.ga_kernel(C.ga_naive), g, k.dev.threadsOf(p), "", a.Buffer, rw, c.Buffer), nil
}
