package cpu

/*
#include "native/pack.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// packedWeights is B in the form that gemv, amx and tiled share (see pack.h), so
// that auto can pick among them without holding B more than once.
type packedWeights struct {
	problem kernels.Problem // normalized; M is not part of the form
	packed  *Buffer
	// raw is B as it was given when each launch packs it anew into packed.
	raw kernels.Buffer
	// seconds is how long packing took.
	seconds float64
}

var _ kernels.Packed = (*packedWeights)(nil)
var _ kernels.Copyable = (*packedWeights)(nil)

// Bytes is the size of the packed form, padding and column sums included.
func (w *packedWeights) Bytes() int64 { return w.packed.bytes }

// Detached says that the packed form is all that launches read, unless they pack.
func (w *packedWeights) Detached() bool { return w.raw == nil }

// Packing implements [kernels.Packed].
func (w *packedWeights) Packing() (seconds float64, ok bool) { return w.seconds, w.raw == nil }

// Copy implements [kernels.Copyable].
func (w *packedWeights) Copy(raw kernels.Buffer) (kernels.Weights, error) {
	d := w.packed.dev
	if _, err := d.rawB(w.problem, raw); err != nil {
		return nil, err
	}
	packed, err := d.alloc(w.packed.bytes)
	if err != nil {
		return nil, fmt.Errorf("%v: copy weights: %w", w.problem.Shape, err)
	}
	again := &packedWeights{problem: w.problem, packed: packed, seconds: w.seconds}
	if w.raw != nil {
		again.raw = raw
		return again, nil
	}
	if err := packed.CopyFrom(w.packed); err != nil {
		return nil, errors.Join(fmt.Errorf("%v: copy weights: %w", w.problem.Shape, err), packed.Close())
	}
	return again, nil
}

// Close returns the memory of the packed form. The raw B stays its owner's.
func (w *packedWeights) Close() error { return w.packed.Close() }

// pack brings B into the packed form. With p.PackInside only the memory is
// taken: the launches fill it.
func (d *Device) pack(p kernels.Problem, raw kernels.Buffer) (*packedWeights, error) {
	p, err := p.Normalized()
	if err != nil {
		return nil, err
	}
	code, ok := dtypeCodes[p.DType]
	if !ok {
		return nil, fmt.Errorf("%v: the packed form has no dtype %q", p.Shape, p.DType)
	}
	if _, err := d.rawB(p, raw); err != nil {
		return nil, err
	}
	packed, err := d.alloc(int64(C.ga_packed_bytes(code, C.int64_t(p.N), C.int64_t(p.K))))
	if err != nil {
		return nil, fmt.Errorf("%v: pack weights: %w", p.Shape, err)
	}
	w := &packedWeights{problem: p, packed: packed}
	if p.PackInside {
		w.raw = raw
		return w, nil
	}
	if err := w.repack(d, raw); err != nil {
		packed.Close()
		return nil, err
	}
	return w, nil
}

// repack packs raw, stored as the weights' problem says, with all threads.
func (w *packedWeights) repack(d *Device, raw kernels.Buffer) error {
	p := w.problem
	b, err := d.rawB(p, raw)
	if err != nil {
		return err
	}
	transposed := C.int(0)
	if p.BLayout == kernels.Transposed {
		transposed = 1
	}
	began := time.Now()
	C.ga_pack(d.pool.c, b, C.int64_t(p.LDB), transposed, dtypeCodes[p.DType], C.int64_t(p.N), C.int64_t(p.K), w.packed.data)
	w.seconds = time.Since(began).Seconds()
	return nil
}

func (w *packedWeights) serve(p kernels.Problem) error {
	q := w.problem
	if q.N != p.N || q.K != p.K || q.DType != p.DType || q.PackInside != p.PackInside {
		return fmt.Errorf("%v %s: weights were packed for n%d k%d %s, packing inside the launch: %v",
			p.Shape, p.DType, q.N, q.K, q.DType, q.PackInside)
	}
	if w.packed.data == nil {
		return fmt.Errorf("%v: weights are closed", p.Shape)
	}
	return nil
}

// bindPacked is join for what a kernel of the packed form takes.
func (d *Device) bindPacked(kernel string, p kernels.Problem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (C.ga_gemm, kernels.Problem, error) {
	if err := d.supports(kernel, p); err != nil {
		return C.ga_gemm{}, p, err
	}
	g, p, pw, err := join[*packedWeights](d, kernel, p, a, w, c)
	if err != nil {
		return g, p, err
	}
	q := pw.problem
	g.b = pw.packed.data
	if p.PackInside {
		if g.b_raw, err = d.rawB(q, pw.raw); err != nil {
			return g, p, err
		}
		g.ldb, g.b_inside = C.int64_t(q.LDB), pw.packed.data
		g.b_transposed = 0
		if q.BLayout == kernels.Transposed {
			g.b_transposed = 1
		}
	}
	return g, p, nil
}
