package cpu

/*
#include "native/epilogue.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Kernels of products compute panels of 32 columns. For a gated epilogue on sums in cache, the panel holds 16 columns of gates and
// the 16 that they multiply: the weights are interleaved before they are packed.

// gatesOfPanel is the number of gates in a panel.
const gatesOfPanel = C.GA_GATES

// interleavedColumns returns the columns of interleaved weights with n columns: whole panels.
func interleavedColumns(n int) int { return divideUp(n/2, gatesOfPanel) * panelColumns }

// interleaved returns the column of B, of n, that is column i of the interleaved weights; -1 for zeros.
func interleaved(n, i int) int {
	gate := i/panelColumns*gatesOfPanel + i%gatesOfPanel
	switch {
	case gate >= n/2:
		return -1
	case i%panelColumns >= gatesOfPanel:
		return n/2 + gate
	}
	return gate
}

// interleave returns a copy of a gated product's weights in the order of [interleaved], which the caller closes.
func (d *Device) interleave(t kernels.Task, raw kernels.Buffer) (*Buffer, error) {
	product := kernels.Task{Subject: kernels.Product(t.DType, t.N, t.K).In(t.Layout), M: 1}
	product, err := product.Normalized()
	if err != nil {
		return nil, err
	}
	from, err := d.rawB(product, raw)
	if err != nil {
		return nil, err
	}
	n, size := interleavedColumns(t.N), t.DType.Size()
	b, err := d.alloc(int64(n) * int64(t.K) * int64(size))
	if err != nil {
		return nil, fmt.Errorf("%v: interleave gates: %w", t, err)
	}
	in, out := unsafe.Slice((*byte)(from), t.N*t.K*size), b.Content()
	if t.Layout == kernels.Transposed {
		row := t.K * size
		for i := range n {
			if column := interleaved(t.N, i); column >= 0 {
				copy(out[i*row:(i+1)*row], in[column*row:])
			}
		}
		return b, nil
	}
	for k := range t.K {
		for i := 0; i < n; i += gatesOfPanel {
			column := interleaved(t.N, i)
			width := min(gatesOfPanel, t.N/2-column%(t.N/2))
			copy(out[(k*n+i)*size:][:width*size], in[(k*t.N+column)*size:])
		}
	}
	return b, nil
}

// gates returns where a gated product without its epilogue is written: C itself, which the epilogue makes narrower in cache, or
// memory that the kernel's launches share.
func (k *fused) gates(product kernels.Task, c unsafe.Pointer) (*Buffer, error) {
	bytes := int64(product.M) * int64(product.N) * int64(product.DType.Size())
	if !k.separate {
		return &Buffer{dev: k.dev, data: c, bytes: bytes}, nil
	}
	b, err := k.products.of(k.dev, bytes)
	if err != nil {
		return nil, fmt.Errorf("memory for the product: %w", err)
	}
	return b, nil
}
