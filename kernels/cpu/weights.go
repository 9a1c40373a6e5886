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

// packedWeights is B in the format of gemv, amx and tiled (see pack.h), which lets auto pick among them with
// one copy of B.
type packedWeights struct {
	problem kernels.Task // normalized; the format is independent of M
	packed  *Buffer
	// raw is raw B if each launch packs it.
	raw     kernels.Buffer
	seconds float64
}

var _ kernels.Packed = (*packedWeights)(nil)
var _ kernels.Copyable = (*packedWeights)(nil)

// Bytes returns the packed size with padding and column sums.
func (w *packedWeights) Bytes() int64 { return w.packed.bytes }

// Detached implements [kernels.Weights]; launches read raw B only if they pack it.
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
		return nil, fmt.Errorf("%v: copy weights: %w", w.problem.Shape(), err)
	}
	again := &packedWeights{problem: w.problem, packed: packed, seconds: w.seconds}
	if w.raw != nil {
		again.raw = raw
		return again, nil
	}
	if err := packed.CopyFrom(w.packed); err != nil {
		return nil, errors.Join(fmt.Errorf("%v: copy weights: %w", w.problem.Shape(), err), packed.Close())
	}
	return again, nil
}

// Close frees the packed weights but not raw B.
func (w *packedWeights) Close() error { return w.packed.Close() }

// pack packs B. With p.PackInside it only allocates memory, which launches fill.
func (d *Device) pack(p kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	p, err := p.Normalized()
	if err != nil {
		return nil, err
	}
	code, ok := dtypeCodes[p.DType]
	if !ok {
		return nil, fmt.Errorf("%v: the packed form has no dtype %q", p.Shape(), p.DType)
	}
	if _, err := d.rawB(p, raw); err != nil {
		return nil, err
	}
	packed, err := d.alloc(int64(C.ga_packed_bytes(code, C.int64_t(p.N), C.int64_t(p.K))))
	if err != nil {
		return nil, fmt.Errorf("%v: pack weights: %w", p.Shape(), err)
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

func (w *packedWeights) repack(d *Device, raw kernels.Buffer) error {
	p := w.problem
	b, err := d.rawB(p, raw)
	if err != nil {
		return err
	}
	transposed := C.int(0)
	if p.Layout == kernels.Transposed {
		transposed = 1
	}
	began := time.Now()
	C.ga_pack(d.pool.c, b, C.int64_t(p.LDB), transposed, dtypeCodes[p.DType], C.int64_t(p.N), C.int64_t(p.K), w.packed.data)
	w.seconds = time.Since(began).Seconds()
	return nil
}

func (w *packedWeights) serve(p kernels.Task) error {
	q := w.problem
	if q.N != p.N || q.K != p.K || q.DType != p.DType || q.PackInside != p.PackInside {
		return fmt.Errorf("%v %s: weights were packed for n%d k%d %s, packing inside the launch: %v",
			p.Shape(), p.DType, q.N, q.K, q.DType, q.PackInside)
	}
	if w.packed.data == nil {
		return fmt.Errorf("%v: weights are closed", p.Shape())
	}
	return nil
}

// bindPacked is join for kernels with packed weights.
func (d *Device) bindPacked(kernel string, p kernels.Task, a kernels.Operand, w kernels.Weights,
	c kernels.Operand) (C.ga_gemm, kernels.Task, error) {
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
		if q.Layout == kernels.Transposed {
			g.b_transposed = 1
		}
	}
	return g, p, nil
}
