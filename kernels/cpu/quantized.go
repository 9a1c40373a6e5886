package cpu

/*
#include "native/amx.h"
#include "native/quantised.h"
#include "native/strips.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// gemv multiplies few rows as integers and decodes weights for more. tiled decodes slices of panels, amx
// decodes tiles, auto picks.
var (
	_ kernels.SumScaler = (*blocked)(nil)
	_ kernels.SumScaler = (*auto)(nil)
)

// groupStep must divide the group size, except for whole columns.
const groupStep = 32

// sharedRows is the largest M that uses weights decoded along K. Transposing to tiles of 32 columns costs 1.5
// more shuffles per weight vector, which only more rows amortize.
const sharedRows = 32

func (b *blocked) bindQuantized(q kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	g, q, err := joinQuantized[*quantizedWeights](b.dev, b.name, q, a, w, c)
	if err != nil {
		return nil, err
	}
	kernel, tiling := b.kernel, b.tiling(q)
	if form := b.dev.form(q); form.strip > 0 {
		if b.integers(q) {
			rows := int(form.code.rows)
			kernel = C.ga_kernel(C.ga_strips)
			tiling = kernels.Tiling{Tile: [3]int{divideUp(q.M, divideUp(q.M, rows)), int(form.strip), C.GA_BLOCK_K}, Split: 1}
		}
	} else if b.maxM > 0 || q.M <= sharedRows && C.ga_quantised_fits(&g) != 0 {
		rows := int(form.rows)
		kernel = C.ga_kernel(C.ga_quantised_few)
		if q.M > rows {
			rows = int(form.tile)
			kernel = C.ga_kernel(C.ga_quantised_rows)
		}
		tiling = kernels.Tiling{Tile: [3]int{divideUp(q.M, divideUp(q.M, rows)), C.GA_QUAD, int(form.group)}, Split: 1}
	}
	l := kernelLaunch(kernel, g, b.dev.threadsOf(q), "", a.Buffer, w, c.Buffer)
	l.tiling = tiling
	return l, nil
}

// ScalesSums implements [kernels.SumScaler]: few rows are multiplied as integers.
func (b *blocked) ScalesSums(q kernels.Task) bool {
	form := b.dev.form(q)
	if form.strip > 0 {
		return true // more rows are multiplied by unrounded weights
	}
	g := b.dev.quantizedSizes(q)
	return q.M <= int(form.rows) && (b.maxM > 0 || C.ga_quantised_fits(&g) != 0)
}

// integers reports whether a product of weights in strips is computed with integers.
func (b *blocked) integers(q kernels.Task) bool {
	g := b.dev.quantizedSizes(q)
	return b.maxM > 0 || q.M <= int(b.dev.form(q).code.rows) && C.ga_strips_fit(&g) != 0
}

// quantizedFits reports whether few rows of a supported task fit next to the weights.
func (d *Device) quantizedFits(q kernels.Task) bool {
	g := d.quantizedSizes(q)
	if d.form(q).strip > 0 {
		return C.ga_strips_fit(&g) != 0
	}
	return C.ga_quantised_fits(&g) != 0
}

// integerWeights are quantized weights of this package in one of its layouts.
type integerWeights interface {
	ownWeights
	integers() *quantizedWeights
}

// joinQuantized is join for quantized weights, with B included.
func joinQuantized[W integerWeights](d *Device, kernel string, q kernels.Task, a kernels.Operand, w kernels.Weights,
	c kernels.Operand) (C.ga_gemm, kernels.Task, error) {
	q, err := q.Normalized()
	if err != nil {
		return C.ga_gemm{}, q, err
	}
	g, _, own, err := join[W](d, kernel, q, a, w, c)
	if err != nil {
		return g, q, err
	}
	qw := own.integers()
	if qw.problem.Weights != q.Weights {
		return g, q, fmt.Errorf("%v: weights were packed as %v", q, qw.problem.Weights)
	}
	g.b, g.weights = qw.packed.data, d.quantizedSizes(q).weights
	g.plan = unsafe.Pointer(d.path(q.DType))
	return g, q, nil
}

func (k amx) bindQuantized(q kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	g, q, err := joinQuantized[*quantizedWeights](k.dev, k.Name(), q, a, w, c)
	if err != nil {
		return nil, err
	}
	l := kernelLaunch(C.ga_kernel(C.ga_amx_quantised), g, k.dev.threadsOf(q), "", a.Buffer, w, c.Buffer)
	// amx computes the transposed product.
	l.tiling = kernels.Tiling{Tile: [3]int{panelColumns, panelColumns, amxStepBytes / q.DType.Size()}, Split: 1}
	return l, nil
}

// form returns the layout and decoder of a task's quantized weights.
func (d *Device) form(q kernels.Task) *C.ga_form {
	return C.ga_form_for(dtypeCodes[q.DType], C.int(q.Weights.Bits), d.isa())
}

func (d *Device) quantizedSizes(q kernels.Task) C.ga_gemm {
	g := sizes(q)
	g.weights = C.ga_weights{
		bits: C.int(q.Weights.Bits), group: C.int64_t(q.Weights.GroupK), scale: dtypeCodes[q.Weights.Scale],
		form: unsafe.Pointer(d.form(q)), limbs: C.GA_EXACT_LIMBS,
		few: unsafe.Pointer(C.ga_few_for(dtypeCodes[q.DType], C.int(q.Weights.Bits), d.isa())),
	}
	if q.Weights.ZeroPoint != "" {
		g.weights.zeros = 1
	}
	return g
}

type quantizedWeights struct {
	problem kernels.Task // normalized; the format is independent of M
	packed  *Buffer
	seconds float64 // that packing took
}

var (
	_ kernels.Packed   = (*quantizedWeights)(nil)
	_ kernels.Copyable = (*quantizedWeights)(nil)
	_ kernels.Detached = (*quantizedWeights)(nil)
)

func (w *quantizedWeights) integers() *quantizedWeights { return w }

func (w *quantizedWeights) Bytes() int64 { return w.packed.bytes }

// Detached implements [kernels.Weights]; launches read only packed weights.
func (w *quantizedWeights) Detached() bool { return true }

// Packing implements [kernels.Packed].
func (w *quantizedWeights) Packing() (seconds float64, ok bool) { return w.seconds, true }

func (w *quantizedWeights) Close() error { return w.packed.Close() }

// Copy implements [kernels.Copyable].
func (w *quantizedWeights) Copy(kernels.Buffer) (kernels.Weights, error) {
	packed, err := w.packed.dev.alloc(w.packed.bytes)
	if err != nil {
		return nil, fmt.Errorf("%v: copy weights: %w", w.problem, err)
	}
	if err := packed.CopyFrom(w.packed); err != nil {
		return nil, errors.Join(fmt.Errorf("%v: copy weights: %w", w.problem, err), packed.Close())
	}
	return &quantizedWeights{problem: w.problem, packed: packed, seconds: w.seconds}, nil
}

func (w *quantizedWeights) serve(p kernels.Task) error {
	q := w.problem
	if q.N != p.N || q.K != p.K || q.DType != p.DType {
		return fmt.Errorf("%v %s: weights were packed for n%d k%d %s", p.Shape(), p.DType, q.N, q.K, q.DType)
	}
	if w.packed.data == nil {
		return fmt.Errorf("%v: weights are closed", p.Shape())
	}
	return nil
}

// packQuantized packs the raw weights of a normalized task.
func (d *Device) packQuantized(q kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	w, err := d.packIntegers(q, d.quantizedSizes(q), raw)
	if err != nil {
		return nil, err // a nil *quantizedWeights would give non-nil weights
	}
	return w, nil
}

// packIntegers packs the raw weights of a normalized task in the layout of g.
func (d *Device) packIntegers(q kernels.Task, g C.ga_gemm, raw kernels.Buffer) (*quantizedWeights, error) {
	at := q.Raw()
	b, ok := raw.(*Buffer)
	switch {
	case !ok || b == nil:
		return nil, fmt.Errorf("%v: raw weights are a %T, not a buffer of %s", q, raw, d.spec.ID)
	case b.data == nil:
		return nil, fmt.Errorf("%v: the buffer of raw weights is closed", q)
	case b.bytes < at.Bytes:
		return nil, fmt.Errorf("%v: raw weights take %d bytes, the buffer has %d", q, at.Bytes, b.bytes)
	}
	packed, err := d.alloc(int64(C.ga_quantised_bytes(&g)))
	if err != nil {
		return nil, fmt.Errorf("%v: pack weights: %w", q, err)
	}
	var zeros unsafe.Pointer
	if at.Zeros > 0 {
		zeros = unsafe.Add(b.data, at.Zeros)
	}
	began := time.Now()
	C.ga_quantised_pack(d.pool.c, &g, b.data, unsafe.Add(b.data, at.Scales), zeros, packed.data)
	return &quantizedWeights{problem: q, packed: packed, seconds: time.Since(began).Seconds()}, nil
}

// pickQuantized picks a kernel for quantized weights: amx from decodedRows on if supported, else gemv up to
// its maximum M. Below that, tiled was slower in all measurements.
func (k *auto) pickQuantized(q kernels.Task) string {
	switch {
	case q.M >= decodedRows && k.can("amx", q):
		return "amx"
	case k.can("gemv", q):
		return "gemv"
	}
	return "tiled"
}

// ScalesSums implements [kernels.SumScaler].
func (k *auto) ScalesSums(q kernels.Task) bool {
	s, ok := k.dev.gemm(k.pickQuantized(q)).(kernels.SumScaler)
	return ok && s.ScalesSums(q)
}

// decodedRows is the smallest M where AMX pays off: its multiplication takes the same time for 1 to 16
// rows.
const decodedRows = 3
