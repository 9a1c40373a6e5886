package cpu

/*
#include "native/amx.h"
#include "native/quantised.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Quantised weights are multiplied by gemv, which takes few rows times integers and decodes weights for more, by
// tiled, which decodes slices of panels where it widens those of plain weights, by amx, which decodes tiles, and
// by auto.
var (
	_ kernels.QuantisedGemm = (*blocked)(nil)
	_ kernels.QuantisedGemm = amx{}
	_ kernels.QuantisedGemm = (*auto)(nil)

	_ kernels.SumScaler = (*blocked)(nil)
	_ kernels.SumScaler = (*auto)(nil)
)

// groupStep is what groups are multiples of, unless they are whole columns.
const groupStep = 32

// sharedRows is the largest M whose rows share weights that are decoded along K. To transpose them for tiles
// of 32 columns costs a shuffle and a half a weight's vector more, which more rows repay.
const sharedRows = 32

// supportsQuantised is what holds for all of them.
func (d *Device) supportsQuantised(kernel string, q kernels.QuantisedProblem) (kernels.QuantisedProblem, error) {
	n, err := q.Normalized()
	if err != nil {
		return q, &kernels.Unsupported{Kernel: kernel, DType: q.DType, Reason: err.Error()}
	}
	if err := d.supports(kernel, n.Problem); err != nil {
		return q, err
	}
	switch {
	case n.DType == kernels.INT8:
		return q, &kernels.Unsupported{Kernel: kernel, DType: q.DType, Reason: "activations of quantised weights are fp32, fp16 or bf16"}
	case n.Weights.GroupK%groupStep != 0 && n.Weights.GroupK != n.K:
		return q, &kernels.Unsupported{Kernel: kernel, DType: q.DType,
			Reason: fmt.Sprintf("groups are multiples of %d or whole columns, not %d", groupStep, n.Weights.GroupK)}
	}
	return n, nil
}

// SupportsQuantised implements [kernels.QuantisedGemm].
func (b *blocked) SupportsQuantised(q kernels.QuantisedProblem) error {
	q, err := b.dev.supportsQuantised(b.name, q)
	if err != nil || b.maxM == 0 {
		return err
	}
	if err := b.Supports(q.Problem); err != nil {
		return err
	}
	if g := b.dev.quantisedSizes(q); C.ga_quantised_fits(&g) == 0 {
		return &kernels.Unsupported{Kernel: b.name, DType: q.DType, Reason: fmt.Sprintf("%d rows of k %d do not fit beside the weights' stream", q.M, q.K)}
	}
	return nil
}

// PrepareQuantised implements [kernels.QuantisedGemm].
func (b *blocked) PrepareQuantised(q kernels.QuantisedProblem, raw kernels.Buffer) (kernels.Weights, error) {
	return b.dev.packQuantised(b.name, q, raw)
}

// BindQuantised implements [kernels.QuantisedGemm].
func (b *blocked) BindQuantised(q kernels.QuantisedProblem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	if err := b.SupportsQuantised(q); err != nil {
		return nil, err
	}
	g, q, err := b.dev.joinQuantised(b.name, q, a, w, c)
	if err != nil {
		return nil, err
	}
	kernel, tiling := b.kernel, b.tiling(q.Problem)
	if form := b.dev.form(q.DType); b.maxM > 0 || q.M <= sharedRows && C.ga_quantised_fits(&g) != 0 {
		rows := int(form.rows)
		kernel = C.ga_kernel(C.ga_quantised_few)
		if q.M > rows {
			rows = int(form.tile)
			kernel = C.ga_kernel(C.ga_quantised_rows)
		}
		tiling = kernels.Tiling{Tile: [3]int{divideUp(q.M, divideUp(q.M, rows)), C.GA_QUAD, int(form.group)}, Split: 1}
	}
	l := kernelLaunch(kernel, g, b.dev.threadsOf(q.Problem), "", a.Buffer, w, c.Buffer)
	l.tiling = tiling
	return l, nil
}

// ScalesSums implements [kernels.SumScaler]: few rows are multiplied by integers.
func (b *blocked) ScalesSums(q kernels.QuantisedProblem) bool {
	g := b.dev.quantisedSizes(q)
	return q.M <= int(b.dev.form(q.DType).rows) && (b.maxM > 0 || C.ga_quantised_fits(&g) != 0)
}

// joinQuantised is join with quantised weights: a whole product, and the problem normalized.
func (d *Device) joinQuantised(kernel string, q kernels.QuantisedProblem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (C.ga_gemm, kernels.QuantisedProblem, error) {
	q, err := q.Normalized()
	if err != nil {
		return C.ga_gemm{}, q, err
	}
	g, _, qw, err := join[*quantisedWeights](d, kernel, q.Problem, a, w, c)
	if err != nil {
		return g, q, err
	}
	if qw.problem.Weights != q.Weights {
		return g, q, fmt.Errorf("%v: weights were packed as %v", q, qw.problem.Weights)
	}
	g.b, g.weights = qw.packed.data, d.quantisedSizes(q).weights
	g.plan = unsafe.Pointer(d.path(q.DType))
	return g, q, nil
}

// SupportsQuantised implements [kernels.QuantisedGemm].
func (k amx) SupportsQuantised(q kernels.QuantisedProblem) error {
	q, err := k.dev.supportsQuantised(k.Name(), q)
	if err != nil {
		return err
	}
	if err := k.Supports(q.Problem); err != nil {
		return err
	}
	if g := k.dev.quantisedSizes(q); C.ga_amx_quantised_fits(&g) == 0 {
		return &kernels.Unsupported{Kernel: k.Name(), DType: q.DType, Reason: fmt.Sprintf("32 rows of k %d do not fit beside the weights' tiles", q.K)}
	}
	return nil
}

// PrepareQuantised implements [kernels.QuantisedGemm].
func (k amx) PrepareQuantised(q kernels.QuantisedProblem, raw kernels.Buffer) (kernels.Weights, error) {
	return k.dev.packQuantised(k.Name(), q, raw)
}

// BindQuantised implements [kernels.QuantisedGemm].
func (k amx) BindQuantised(q kernels.QuantisedProblem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	if err := k.SupportsQuantised(q); err != nil {
		return nil, err
	}
	g, q, err := k.dev.joinQuantised(k.Name(), q, a, w, c)
	if err != nil {
		return nil, err
	}
	l := kernelLaunch(C.ga_kernel(C.ga_amx_quantised), g, k.dev.threadsOf(q.Problem), "", a.Buffer, w, c.Buffer)
	// Its tiles are of the product turned.
	l.tiling = kernels.Tiling{Tile: [3]int{panelColumns, panelColumns, amxStepBytes / q.DType.Size()}, Split: 1}
	return l, nil
}

// form is how quantised weights lie and are decoded for activations of a type.
func (d *Device) form(t kernels.DType) *C.ga_form { return C.ga_form_for(dtypeCodes[t], d.isa()) }

// quantisedSizes is a product without addresses, of a normalized problem.
func (d *Device) quantisedSizes(q kernels.QuantisedProblem) C.ga_gemm {
	g := sizes(q.Problem)
	g.weights = C.ga_weights{
		bits: C.int(q.Weights.Bits), group: C.int64_t(q.Weights.GroupK), scale: dtypeCodes[q.Weights.Scale], form: unsafe.Pointer(d.form(q.DType)),
		few: unsafe.Pointer(C.ga_few_for(dtypeCodes[q.DType], C.int(q.Weights.Bits), d.isa())),
	}
	if q.Weights.ZeroPoint != "" {
		g.weights.zeros = 1
	}
	return g
}

// quantisedWeights are codes, scales and zero points in the form that gemv and tiled share.
type quantisedWeights struct {
	problem kernels.QuantisedProblem // normalized; M is not part of the form
	packed  *Buffer
	seconds float64 // that packing took
}

var (
	_ kernels.Packed   = (*quantisedWeights)(nil)
	_ kernels.Copyable = (*quantisedWeights)(nil)
	_ kernels.Detached = (*quantisedWeights)(nil)
)

// Bytes is the size of the packed form, padding included.
func (w *quantisedWeights) Bytes() int64 { return w.packed.bytes }

// Detached says that launches read the packed form alone.
func (w *quantisedWeights) Detached() bool { return true }

// Packing implements [kernels.Packed].
func (w *quantisedWeights) Packing() (seconds float64, ok bool) { return w.seconds, true }

// Close returns the memory of the packed form.
func (w *quantisedWeights) Close() error { return w.packed.Close() }

// Copy implements [kernels.Copyable].
func (w *quantisedWeights) Copy(kernels.Buffer) (kernels.Weights, error) {
	packed, err := w.packed.dev.alloc(w.packed.bytes)
	if err != nil {
		return nil, fmt.Errorf("%v: copy weights: %w", w.problem, err)
	}
	if err := packed.CopyFrom(w.packed); err != nil {
		return nil, errors.Join(fmt.Errorf("%v: copy weights: %w", w.problem, err), packed.Close())
	}
	return &quantisedWeights{problem: w.problem, packed: packed, seconds: w.seconds}, nil
}

func (w *quantisedWeights) serve(p kernels.Problem) error {
	q := w.problem
	if q.N != p.N || q.K != p.K || q.DType != p.DType {
		return fmt.Errorf("%v %s: weights were packed for n%d k%d %s", p.Shape, p.DType, q.N, q.K, q.DType)
	}
	if w.packed.data == nil {
		return fmt.Errorf("%v: weights are closed", p.Shape)
	}
	return nil
}

// packQuantised brings raw quantised weights into the packed form, with all threads.
func (d *Device) packQuantised(kernel string, q kernels.QuantisedProblem, raw kernels.Buffer) (kernels.Weights, error) {
	q, err := d.supportsQuantised(kernel, q)
	if err != nil {
		return nil, err
	}
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
	g := d.quantisedSizes(q)
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
	return &quantisedWeights{problem: q, packed: packed, seconds: time.Since(began).Seconds()}, nil
}

// SupportsQuantised implements [kernels.QuantisedGemm].
func (k *auto) SupportsQuantised(q kernels.QuantisedProblem) error {
	_, err := k.dev.supportsQuantised(k.Name(), q)
	return err
}

// PrepareQuantised implements [kernels.QuantisedGemm].
func (k *auto) PrepareQuantised(q kernels.QuantisedProblem, raw kernels.Buffer) (kernels.Weights, error) {
	return k.dev.packQuantised(k.Name(), q, raw)
}

// pickQuantised is the kernel for a product with quantised weights: gemv for as many rows as it takes, up to
// which tiled took longer wherever both were measured, and amx from decodedRows on where it takes them.
func (k *auto) pickQuantised(q kernels.QuantisedProblem) string {
	can := func(name string) bool {
		g, ok := k.dev.gemm(name).(kernels.QuantisedGemm)
		return ok && g.SupportsQuantised(q) == nil
	}
	switch {
	case q.M >= decodedRows && can("amx"):
		return "amx"
	case can("gemv"):
		return "gemv"
	}
	return "tiled"
}

// ScalesSums implements [kernels.SumScaler].
func (k *auto) ScalesSums(q kernels.QuantisedProblem) bool {
	s, ok := k.dev.gemm(k.pickQuantised(q)).(kernels.SumScaler)
	return ok && s.ScalesSums(q)
}

// decodedRows is from how many rows on a tile of weights is worth being stored and multiplied by AMX: its
// multiplication takes as long whether it has one row or sixteen.
const decodedRows = 3

// BindQuantised implements [kernels.QuantisedGemm].
func (k *auto) BindQuantised(q kernels.QuantisedProblem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	if err := k.SupportsQuantised(q); err != nil {
		return nil, err
	}
	name := k.pickQuantised(q)
	bound, err := k.dev.gemm(name).(kernels.QuantisedGemm).BindQuantised(q, a, w, c)
	if err != nil {
		return nil, err
	}
	l, ok := bound.(*launch)
	if !ok {
		return nil, fmt.Errorf("%v: kernel %s bound a %T", q, name, bound)
	}
	labelled := *l
	labelled.label = name
	return &labelled, nil
}
