package producer

import (
	"errors"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Reasons that several formats have for leaving a row out.
var (
	errTransposed = errors.New("its activations are stored transposed")
	errPadded     = errors.New("a leading dimension shows padded rows")
	errGrouped    = errors.New("it is a grouped product")
	errShared     = errors.New("the products of a batch share an operand")
	errMixed      = errors.New("its operands have two types")
	errNoTime     = errors.New("it has no time")
	errFunction   = errors.New("it is another operation than gemm")
	errLayout     = errors.New("column layout is neither kn nor nk")
	errCut        = errors.New("its line is cut short")
	errSizes      = errors.New("its sizes contradict each other")
	errUnknown    = errors.New("its sizes are unknown")
	errType       = errors.New("double and complex products are not measured")
)

// columnMajor is a product as BLAS is called for it: C[m,n] = op(A) op(B), each stored by columns.
type columnMajor struct {
	transA, transB string // "N", "T" or "C"
	m, n, k        int
	lda, ldb, ldc  int // 0 where they are not known
	batch          int // 0 and 1 for a single product
}

// fill sets the sizes and the layout of a row.
func (c columnMajor) fill(r *Row) error {
	s := &r.Subject
	s.N, s.K, r.M = c.m, c.k, c.n
	if c.batch > 1 {
		s.Products = c.batch
	}
	rows := c.m // of A as it is stored
	switch strings.ToUpper(c.transA) {
	case "T", "C":
		s.Layout, rows = kernels.Transposed, c.k
	case "N":
		s.Layout = kernels.RowMajor
	default:
		return errors.New("transA is neither N nor T")
	}
	r.LayoutKnown = true
	switch strings.ToUpper(c.transB) {
	case "N":
	case "T", "C":
		if c.n > 1 && c.k > 1 { // a vector is the same either way
			return errTransposed
		}
	default:
		return errors.New("transB is neither N nor T")
	}
	columns := c.k + c.m - rows
	if differs(c.lda, rows, columns) || differs(c.ldb, c.k, c.n) && strings.EqualFold(c.transB, "N") || differs(c.ldc, c.m, c.n) {
		return errPadded
	}
	return nil
}

// differs says whether a known leading dimension is not the number of rows. It has no meaning for one column.
func differs(ld, rows, columns int) bool { return ld > 0 && ld != rows && columns > 1 }
