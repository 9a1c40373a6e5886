package cublas

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// stackedB returns a product whose B holds every product's B of a normalized batch, with the rows between
// them, so a batch's weights are stored and packed like a single product's. strideRows is the row distance
// between the products' Bs, 0 for a single product.
func stackedB(b kernels.Task) (stack kernels.Task, strideRows int) {
	stack = b.Single()
	if b.Products == 0 {
		return stack, 0
	}
	strideRows = b.StrideB / b.LDB
	side := &stack.K
	if b.Layout == kernels.Transposed {
		side = &stack.N
	}
	*side += (b.Products - 1) * strideRows
	stack.LDA, stack.LDC = 0, 0 // unused: it is never multiplied
	return stack, strideRows
}

// batchRefusal returns why the libraries can't run a normalized batch, or "". A single product is never
// refused.
func batchRefusal(b kernels.Task) string {
	switch {
	case b.Products == 0:
		return ""
	case b.StrideB%b.LDB != 0:
		return fmt.Sprintf("the B of its products lie %d elements apart, expected whole rows of %d", b.StrideB, b.LDB)
	case blasPacks(b.DType) && b.Layout != kernels.Transposed:
		return "batched 8-bit weights need K contiguous: use layout nk"
	case b.DType == kernels.INT8 && b.StrideA%4 != 0:
		return fmt.Sprintf("int8 begins at multiples of 4 bytes: the A of its products lie %d apart", b.StrideA)
	}
	return ""
}

// batched sets the number of products and the strides of their operands, if there are several.
func (p blasProduct) batched(b kernels.Task, strideB int) blasProduct {
	if b.Products > 0 {
		p.products, p.strideB, p.strideA, p.strideC = b.Products, strideB, b.StrideA, b.StrideC
	}
	return p
}

// productAsked returns a normalized batch or single product with tight weights in the libraries' form, for
// queries before operands exist.
func productAsked(b kernels.Task) blasProduct {
	ldb, transposed := b.LDB, b.Layout == kernels.Transposed
	if blasPacks(b.DType) {
		ldb, transposed = support.PackedLDB(b.DType, b.K), true
	}
	_, strideRows := stackedB(b)
	return blasProductOf(b, ldb, transposed).batched(b, strideRows*ldb)
}

// alignedStrides returns the alignment of the later products' operands B, A and C, if the first begin at a
// buffer's start.
func alignedStrides(p blasProduct, d kernels.DType) [3]int {
	out := d.Output().Size()
	return [3]int{addressAlignment(uint64(p.strideB * d.Size())), addressAlignment(uint64(p.strideA * d.Size())),
		addressAlignment(uint64(p.strideC * out))}
}
