package cpu

/*
#include "native/launch.h"
*/
import "C"

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

type rawWeights struct {
	problem kernels.Task // normalized
	raw     kernels.Buffer
}

// Bytes counts the elements of B, without gaps between rows.
func (w *rawWeights) Bytes() int64 {
	return int64(w.problem.N) * int64(w.problem.K) * int64(w.problem.DType.Size())
}

// Close has no effect; the caller owns raw B.
func (w *rawWeights) Close() error { return nil }

func (d *Device) keepRaw(p kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	p, err := p.Normalized()
	if err != nil {
		return nil, err
	}
	if _, err := d.rawB(p, raw); err != nil {
		return nil, err
	}
	return &rawWeights{p, raw}, nil
}

// bindRaw is join for raw B.
func (d *Device) bindRaw(kernel string, p kernels.Task, a kernels.Operand, w kernels.Weights,
	c kernels.Operand) (C.ga_gemm, kernels.Task, error) {
	g, p, rw, err := join[*rawWeights](d, kernel, p, a, w, c)
	if err == nil {
		g.b, err = d.rawB(p, rw.raw)
	}
	return g, p, err
}

func (w *rawWeights) serve(p kernels.Task) error {
	q := w.problem
	if q.N != p.N || q.K != p.K || q.DType != p.DType || q.Layout != p.Layout || q.LDB != p.LDB {
		return fmt.Errorf("%v %s: weights were prepared for n%d k%d %s", p.Shape(), p.DType, q.N, q.K, q.DType)
	}
	return nil
}
