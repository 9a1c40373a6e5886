package cpu

/*
#include "native/onednn.h"
*/
import "C"

import (
	"fmt"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

func batchSizes(b kernels.Task) C.ga_gemm {
	g := sizes(b)
	g.products, g.stride_a = C.int64_t(b.Products), C.int64_t(b.StrideA)
	g.stride_b, g.stride_c = C.int64_t(b.StrideB), C.int64_t(b.StrideC)
	return g
}

// prepareBatch reorders B of all products of a normalized batch for a 3-D matmul. If oneDNN lacks an optimized
// implementation or reorder, it prepares separate weights to run in sequence.
func (k *onednn) prepareBatch(b kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	plan, err := k.api.plan(batchSizes(b), k.dev.threadsOf(b), b.PackInside)
	if err != nil {
		return k.dev.batchPrepare(k, b, raw)
	}
	defer C.ga_dnn_plan_free(plan)
	if strings.HasPrefix(C.GoString(C.ga_dnn_plan_label(plan)), "ref") {
		return k.dev.batchPrepare(k, b, raw)
	}
	behind := (b.Products - 1) * b.StrideB
	rows, cols := b.K, b.N
	if b.Layout == kernels.Transposed {
		rows, cols = b.N, b.K
	}
	if _, err := k.dev.matrix("B", kernels.Operand{Buffer: raw, Offset: behind}, rows, cols, b.LDB, b.DType); err != nil {
		return nil, fmt.Errorf("%v: %w", b, err)
	}
	w := &onednnWeights{rawWeights: rawWeights{b, raw}}
	if b.PackInside {
		return w, nil
	}
	if _, err := w.pick(k, batchSizes(b), plan); err != nil {
		return k.dev.batchPrepare(k, b, raw)
	}
	return w, nil
}

// bindBatch binds one batched matmul or a sequence, as the weights were prepared.
func (k *onednn) bindBatch(b kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	if _, each := w.(*batchWeights); each {
		return k.dev.batchBind(k, b, a, w, c)
	}
	b, err := b.Normalized()
	if err != nil {
		return nil, err
	}
	first, _, dw, err := join[*onednnWeights](k.dev, k.Name(), b, a, w, c)
	if err != nil {
		return nil, err
	}
	if q := dw.problem; q.Products != b.Products || q.StrideB != b.StrideB {
		return nil, fmt.Errorf("%v: weights were prepared for %d products", b, q.Products)
	}
	last := b.Products - 1
	a.Offset += last * b.StrideA
	c.Offset += last * b.StrideC
	if _, err := k.dev.bindAC(b, a, c); err != nil {
		return nil, fmt.Errorf("product %d of %v: %w", last, b, err)
	}
	g := batchSizes(b)
	g.a, g.c = first.a, first.c
	return k.bind(b, g, dw, a.Buffer, c.Buffer)
}
