package producer

import (
	"errors"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Reasons for skipped rows, shared by several formats.
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

// columnMajor is a BLAS product: C[m,n] = op(A) op(B), all column-major.
type columnMajor struct {
	transA, transB string // "N", "T" or "C"
	m, n, k        int
	lda, ldb, ldc  int // 0 if unknown
	batch          int // 0 and 1 for a single product
}

func (c columnMajor) fill(r *Row) error {
	s := &r.Subject
	s.N, s.K, r.M = c.m, c.k, c.n
	if c.batch > 1 {
		s.Products = c.batch
	}
	rows := c.m // of A as stored
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
		if c.n > 1 && c.k > 1 { // a vector has both layouts
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

// differs reports whether a known leading dimension is not the number of rows. It is irrelevant for one
// column.
func differs(ld, rows, columns int) bool { return ld > 0 && ld != rows && columns > 1 }
