package kernels

import "fmt"

// Batch is independent products of one size that one launch computes, each with weights
// of its own: A [Products, M, K], B [Products, K, N] or [Products, N, K], C [Products, M, N].
type Batch struct {
	Problem
	Products int
	// StrideA, StrideB and StrideC are the elements from the beginning of one product's
	// operand to the next one's; 0 means that it lies right behind.
	StrideA, StrideB, StrideC int
}

// Normalized returns b with its zero fields replaced by the defaults they stand for, or an
// error that names the field that can't be used. Operands of neighbouring products do not
// overlap, the padding of their rows included.
func (b Batch) Normalized() (Batch, error) {
	if b.Products < 1 {
		return b, fmt.Errorf("%v: %d products, expected at least 1", b.Shape, b.Products)
	}
	var err error
	if b.Problem, err = b.Problem.Normalized(); err != nil {
		return b, err
	}
	rows, _ := b.sidesOfB()
	for _, f := range []struct {
		name  string
		value *int
		least int
	}{{"stride of A", &b.StrideA, b.M * b.LDA}, {"stride of B", &b.StrideB, rows * b.LDB}, {"stride of C", &b.StrideC, b.M * b.LDC}} {
		if *f.value == 0 {
			*f.value = f.least
		}
		if *f.value < f.least {
			return b, fmt.Errorf("%v: the %s is %d, expected at least %d", b, f.name, *f.value, f.least)
		}
	}
	return b, nil
}

// String prints the size as the field writes it: "m512 n4096 k4096 x8".
func (b Batch) String() string { return fmt.Sprintf("%v x%d", b.Shape, b.Products) }

// sidesOfB is how B is stored: so many rows of so many elements.
func (p Problem) sidesOfB() (rows, cols int) {
	if p.BLayout == Transposed {
		return p.N, p.K
	}
	return p.K, p.N
}
