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
	"slices"
	"strings"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// batchWeights are the weights of a batch's products.
type batchWeights struct{ kernels.ManyWeights }

func (d *Device) batchPrepare(k kernels.Kernel, b kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	if err := k.Supports(b); err != nil {
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
			one, err = k.Prepare(b.Single(), part)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%v: weights of product %d: %w", b, i, err), w.Close())
		}
		w.Of = append(w.Of, one)
	}
	return w, nil
}

// from returns the rest of the buffer after bytes. It does not own the memory and must not be closed.
func (b *Buffer) from(bytes int64) (*Buffer, error) {
	switch {
	case b.data == nil:
		return nil, fmt.Errorf("buffer of %d bytes: it is closed", b.bytes)
	case bytes < 0 || bytes >= b.bytes:
		return nil, fmt.Errorf("byte %d of a buffer of %d", bytes, b.bytes)
	}
	return &Buffer{dev: b.dev, data: unsafe.Add(b.data, bytes), bytes: b.bytes - bytes}, nil
}

// sequence owns the memory of a launch of several products. A cleanup frees it with the launch.
type sequence struct{ c *C.ga_sequence }

// batchBind binds a batch as a launch that runs the products in sequence.
func (d *Device) batchBind(k kernels.Kernel, b kernels.Task, a kernels.Operand, w kernels.Weights,
	c kernels.Operand) (kernels.Launch, error) {
	if err := k.Supports(b); err != nil {
		return nil, err
	}
	b, err := b.Normalized()
	if err != nil {
		return nil, err
	}
	own, ok := w.(*batchWeights)
	if !ok || own == nil || len(own.Of) != b.Products {
		return nil, fmt.Errorf("%v: weights are a %T, expected %d products prepared by kernel %s", b, w, b.Products, k.Name())
	}
	launches := make([]kernels.Launch, b.Products)
	for i := range launches {
		launches[i], err = k.Bind(b.Single(), kernels.Operand{Buffer: a.Buffer, Offset: a.Offset + i*b.StrideA},
			own.Of[i], kernels.Operand{Buffer: c.Buffer, Offset: c.Offset + i*b.StrideC})
		if err != nil {
			return nil, fmt.Errorf("product %d of %v: %w", i, b, err)
		}
	}
	return inSequence(k.Name(), b, launches, a.Buffer, w, c.Buffer)
}

// inSequence returns a launch that runs a task's products, at least one, one after the other. keep are their operands.
func inSequence(kernel string, t kernels.Task, products []kernels.Launch, keep ...any) (kernels.Launch, error) {
	launches := make([]*launch, len(products))
	for i, of := range products {
		one, ok := of.(*launch)
		if first := launches[0]; !ok || i > 0 && (one.c.threads != first.c.threads || (one.c.call == nil) != (first.c.call == nil)) {
			return nil, fmt.Errorf("product %d of %v: kernel %s bound it in another way than the first", i, t, kernel)
		}
		launches[i] = one
	}
	seq := C.ga_sequence_new(C.int64_t(len(launches)))
	if seq == nil {
		return nil, fmt.Errorf("%v: no memory for the launches of its products", t)
	}
	for i, l := range launches {
		C.ga_sequence_set(seq, C.int64_t(i), &l.c)
	}
	owner := &sequence{seq}
	runtime.AddCleanup(owner, func(seq *C.ga_sequence) { C.free(unsafe.Pointer(seq)) }, seq)
	label := sequenceLabel(launches)
	keep = append(keep, owner, launches)
	if launches[0].c.call != nil {
		return callLaunch(C.ga_call(C.ga_sequence_call), unsafe.Pointer(seq), label, keep...), nil
	}
	g := C.ga_gemm{plan: unsafe.Pointer(seq)}
	return kernelLaunch(C.ga_kernel(C.ga_sequence_kernel), g, int(launches[0].c.threads), label, keep...), nil
}

// sequenceLabel names what runs, each label once: "gemv 1x32 memory, tiled 6x32 compute, in sequence".
func sequenceLabel(launches []*launch) string {
	var labels []string
	for _, l := range launches {
		if l.label != "" && !slices.Contains(labels, l.label) {
			labels = append(labels, l.label)
		}
	}
	return strings.Join(append(labels, "in sequence"), ", ")
}
