package cpu

/*
#include <stdlib.h>
#include "native/sequence.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// batchSupports is [kernels.Batcher.SupportsBatch] of a kernel that runs the products of
// a batch one after the other.
func batchSupports(k kernels.Gemm, b kernels.Batch) error {
	q, err := b.Normalized()
	if err != nil {
		return &kernels.Unsupported{Kernel: k.Name(), DType: b.DType, Reason: err.Error()}
	}
	return k.Supports(q.Problem)
}

// batchWeights are those of each product of a batch.
type batchWeights struct{ products []kernels.Weights }

// Bytes is what one launch reads of all of them.
func (w *batchWeights) Bytes() int64 {
	var bytes int64
	for _, p := range w.products {
		bytes += p.Bytes()
	}
	return bytes
}

// Detached says that no product reads the raw B.
func (w *batchWeights) Detached() bool {
	for _, p := range w.products {
		if d, ok := p.(kernels.Detached); !ok || !d.Detached() {
			return false
		}
	}
	return true
}

// Close releases those of every product.
func (w *batchWeights) Close() error {
	var errs []error
	for _, p := range w.products {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// batchPrepare is [kernels.Batcher.PrepareBatch]: every product's weights by themselves.
func (d *Device) batchPrepare(k kernels.Gemm, b kernels.Batch, raw kernels.Buffer) (kernels.Weights, error) {
	if err := batchSupports(k, b); err != nil {
		return nil, err
	}
	b, err := b.Normalized()
	if err != nil {
		return nil, err
	}
	whole, ok := raw.(*Buffer)
	if !ok || whole == nil {
		return nil, fmt.Errorf("%v: B is in a %T, not in a buffer of %s", b, raw, d.spec.ID)
	}
	w := &batchWeights{}
	for i := range b.Products {
		part, err := whole.from(int64(i) * int64(b.StrideB) * int64(b.DType.Size()))
		var one kernels.Weights
		if err == nil {
			one, err = k.PrepareWeights(b.Problem, part)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%v: weights of product %d: %w", b, i, err), w.Close())
		}
		w.products = append(w.products, one)
	}
	return w, nil
}

// from is the part of a buffer behind so many bytes. It is valid as long as the buffer,
// which it does not own, and must not be closed.
func (b *Buffer) from(bytes int64) (*Buffer, error) {
	switch {
	case b.data == nil:
		return nil, fmt.Errorf("buffer of %d bytes: it is closed", b.bytes)
	case bytes < 0 || bytes >= b.bytes:
		return nil, fmt.Errorf("byte %d of a buffer of %d", bytes, b.bytes)
	}
	return &Buffer{dev: b.dev, data: unsafe.Add(b.data, bytes), bytes: b.bytes - bytes}, nil
}

// sequence owns the memory of a launch of several products. A cleanup frees it once
// nothing refers to the launch any more.
type sequence struct{ c *C.ga_sequence }

// batchBind is [kernels.Batcher.BindBatch]: a launch that runs the products one after the
// other.
func (d *Device) batchBind(k kernels.Gemm, b kernels.Batch, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	if err := batchSupports(k, b); err != nil {
		return nil, err
	}
	b, err := b.Normalized()
	if err != nil {
		return nil, err
	}
	own, ok := w.(*batchWeights)
	if !ok || own == nil || len(own.products) != b.Products {
		return nil, fmt.Errorf("%v: weights are a %T, not those of %d products prepared by kernel %s", b, w, b.Products, k.Name())
	}
	launches := make([]*launch, b.Products)
	for i := range launches {
		one, err := k.Bind(b.Problem, kernels.Operand{Buffer: a.Buffer, Offset: a.Offset + i*b.StrideA},
			own.products[i], kernels.Operand{Buffer: c.Buffer, Offset: c.Offset + i*b.StrideC})
		if err != nil {
			return nil, fmt.Errorf("product %d of %v: %w", i, b, err)
		}
		launches[i], ok = one.(*launch)
		if first := launches[0]; !ok || launches[i].c.threads != first.c.threads || (launches[i].c.call == nil) != (first.c.call == nil) {
			return nil, fmt.Errorf("product %d of %v: kernel %s bound it in another way than the first", i, b, k.Name())
		}
	}
	seq := C.ga_sequence_new(C.int64_t(b.Products))
	if seq == nil {
		return nil, fmt.Errorf("%v: no memory for the launches of its products", b)
	}
	for i, l := range launches {
		C.ga_sequence_set(seq, C.int64_t(i), &l.c)
	}
	owner := &sequence{seq}
	runtime.AddCleanup(owner, func(seq *C.ga_sequence) { C.free(unsafe.Pointer(seq)) }, seq)
	label := "in sequence"
	if first := launches[0].label; first != "" {
		label = first + ", " + label
	}
	if launches[0].c.call != nil {
		return callLaunch(C.ga_call(C.ga_sequence_call), unsafe.Pointer(seq), label, owner, launches, a.Buffer, w, c.Buffer), nil
	}
	g := C.ga_gemm{plan: unsafe.Pointer(seq)}
	return kernelLaunch(C.ga_kernel(C.ga_sequence_kernel), g, int(launches[0].c.threads), label, owner, launches, a.Buffer, w, c.Buffer), nil
}
