package cpu

/*
#include "native/launch.h"
*/
import "C"

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

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

// keepRaw takes B as it is for the kernels that never pack.
func (d *Device) keepRaw(p kernels.Problem, raw kernels.Buffer) (kernels.Weights, error) {
	p, err := p.Normalized()
	if err != nil {
		return nil, err
	}
	if _, err := d.rawB(p, raw); err != nil {
		return nil, err
	}
	return &rawWeights{p, raw}, nil
}

// bindRaw is join for B as it was given.
func (d *Device) bindRaw(kernel string, p kernels.Problem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (C.ga_gemm, kernels.Problem, error) {
	g, p, rw, err := join[*rawWeights](d, kernel, p, a, w, c)
	if err == nil {
		g.b, err = d.rawB(p, rw.raw)
	}
	return g, p, err
}

func (w *rawWeights) serve(p kernels.Problem) error {
	q := w.problem
	if q.N != p.N || q.K != p.K || q.DType != p.DType || q.BLayout != p.BLayout || q.LDB != p.LDB {
		return fmt.Errorf("%v %s: weights were prepared for n%d k%d %s", p.Shape, p.DType, q.N, q.K, q.DType)
	}
	return nil
}
