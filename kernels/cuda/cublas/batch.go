package cublas

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// normalize is the batch normalized; one without products stands for a single product.
func normalize(b kernels.Batch) (kernels.Batch, error) {
	if b.Products > 0 {
		return b.Normalized()
	}
	var err error
	b.Problem, err = b.Problem.Normalized()
	return b, err
}

// stackedB is a product whose B holds that of every product of a normalized batch, and the
// rows between them: so the weights of a batch are kept and packed like those of a single
// one. strideRows is how many rows one product's B begins behind the other's; it is 0 for
// a single product.
func stackedB(b kernels.Batch) (stack kernels.Problem, strideRows int) {
	stack = b.Problem
	if b.Products == 0 {
		return stack, 0
	}
	strideRows = b.StrideB / b.LDB
	side := &stack.K
	if b.BLayout == kernels.Transposed {
		side = &stack.N
	}
	*side += (b.Products - 1) * strideRows
	stack.LDA, stack.LDC = 0, 0 // nothing is multiplied by it
	return stack, strideRows
}

// batchRefusal is why the libraries can't run what is a normalized batch, empty when
// nothing speaks against it or it is a single product.
func batchRefusal(b kernels.Batch) string {
	switch {
	case b.Products == 0:
		return ""
	case b.StrideB%b.LDB != 0:
		return fmt.Sprintf("the B of its products lie %d elements apart, expected whole rows of %d", b.StrideB, b.LDB)
	case blasPacks(b.DType) && b.BLayout != kernels.Transposed:
		return "weights of 8 bits are read with K contiguous, and those of a batch are not turned round: it takes layout nk"
	case b.DType == kernels.INT8 && b.StrideA%4 != 0:
		return fmt.Sprintf("int8 begins at multiples of 4 bytes: the A of its products lie %d apart", b.StrideA)
	}
	return ""
}

// batched is the product as one of many, where there are many: with the distances between
// their operands.
func (p blasProduct) batched(b kernels.Batch, strideB int) blasProduct {
	if b.Products > 0 {
		p.products, p.strideB, p.strideA, p.strideC = b.Products, strideB, b.StrideA, b.StrideC
	}
	return p
}

// productAsked is a normalized batch, or single product, with tight weights in the form that
// the libraries read, as they are asked about it before there are operands.
func productAsked(b kernels.Batch) blasProduct {
	ldb, transposed := b.LDB, b.BLayout == kernels.Transposed
	if blasPacks(b.DType) {
		ldb, transposed = support.PackedLDB(b.DType, b.K), true
	}
	_, strideRows := stackedB(b)
	return blasProductOf(b.Problem, ldb, transposed).batched(b, strideRows*ldb)
}

// alignedStrides is how the operands of a batch's later products are aligned when those of
// the first begin a buffer: B, A and C.
func alignedStrides(p blasProduct, d kernels.DType) [3]int {
	out := d.Output().Size()
	return [3]int{addressAlignment(uint64(p.strideB * d.Size())), addressAlignment(uint64(p.strideA * d.Size())), addressAlignment(uint64(p.strideC * out))}
}
