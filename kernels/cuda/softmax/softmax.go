// Package softmax plans softmax and log-softmax over rows and binds them on a device. Rows are kept in the
// registers of a warp, a block or a cluster, or rows of any length are read twice. Two baselines serve for
// comparison.
package softmax

import (
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Problem is the part of [kernels.Task] that plans depend on: everything but addresses.
type Problem struct {
	rows, columns int
	DType         kernels.DType
	scale         float32
	queries       int // 0 means no mask
	log           bool
	// aligned is the largest power of two, at most 16, that divides the byte addresses of input and output
	// and the row stride; based is the same for the addresses only.
	aligned, based int
	// keep requests output that stays in L2, whatever its size. Lines that several blocks write in parts are
	// then merged there.
	keep bool
}

// Addresses are the device addresses of a softmax's operands.
type Addresses struct{ in, out, exchange uint64 }

type (
	family = planning.Family[Problem, Addresses]
	plan   = planning.Plan[Addresses]
)

// ladder has auto's candidates, for the shortest rows first.
var ladder = []family{warp{}, block{}, cluster{}, reread{}}

var baselines = []family{fasterTransformer{}, naive{}}

// Families returns all kernels, the baselines last.
func Families() []planning.Family[Problem, Addresses] { return slices.Concat(ladder, baselines) }

// NewProblem checks the sizes of a softmax; the error names the first invalid one.
func NewProblem(o kernels.Task) (Problem, error) {
	o, err := o.Normalized()
	if err != nil {
		return Problem{}, err
	}
	p := Problem{
		rows: o.M, columns: o.Columns, DType: o.DType, scale: o.Scale, queries: o.Queries, log: o.Log(),
		aligned: planning.AlignmentOf(0, int64(o.Columns)*int64(o.DType.Size())), based: pieceBytes,
	}
	if max(o.M, o.Columns) > planning.LargestExtent {
		return p, fmt.Errorf("%v: an extent is beyond %d", o, planning.LargestExtent)
	}
	return p, nil
}

// pieceBytes is the size of a device access.
const pieceBytes = 16

// pieces returns the maximum pieces of 16 bytes, at multiples of 16, that a row touches.
func (p Problem) pieces() int {
	size := p.DType.Size()
	before := (pieceBytes - p.aligned) / size // elements of the first piece that may precede the row
	return planning.DivideUp((before+p.columns)*size, pieceBytes)
}

// form is a property of all rows, enum Form in softmax.cuh. Kernels are built separately for rows without
// special cases, or with separate ends only. It is the suffix of their names.
type form string

const (
	anyRows   form = ""
	wholeRows form = "_whole" // begin and end at multiples of 16 bytes, all columns seen
	endsApart form = "_ends"  // in a matrix at a multiple of 16, all columns seen
)

func (p Problem) form() form {
	switch {
	case p.queries != 0 || p.based < pieceBytes:
		return anyRows
	case p.aligned == pieceBytes:
		return wholeRows
	}
	return endsApart
}

// kept returns the maximum pieces of a row in its threads; for rows with separate ends, only pieces fully
// inside the row.
func (p Problem) kept() int {
	if p.form() == endsApart {
		return p.columns * p.DType.Size() / pieceBytes
	}
	return p.pieces()
}

func (p Problem) kernel(name string, f form) string {
	return fmt.Sprintf("ga_softmax_%s_%s%s", name, p.DType, f)
}

// seen returns the unmasked fraction of elements, above 0 and up to 1.
func (p Problem) seen() float64 {
	if p.queries == 0 {
		return 1
	}
	columns, queries := float64(p.columns), float64(p.queries)
	return (columns - (queries-1)/2) / columns
}

// bytes returns the bytes of input read and of output written.
func (p Problem) bytes() (in, out float64) {
	out = float64(p.rows) * float64(p.columns) * float64(p.DType.Size())
	return out * p.seen(), out
}

// stays reports whether input and output fit in L2 together.
func (p Problem) stays(a planning.Arch) bool {
	_, out := p.bytes()
	return 2*out <= float64(a.L2)/2
}

// call launches a softmax kernel with struct SoftmaxParams of softmax.cuh; each is its field of that name.
func (p Problem) call(a planning.Arch, kernel string, blocks, threads, each int, at Addresses) planning.Call {
	c := planning.Call{Kernel: kernel, Grid: planning.Dim3{X: blocks}, Block: planning.Dim3{X: threads}, Overlap: a.Overlaps()}
	c.Args.Pointer(at.in).Pointer(at.out).Pointer(at.exchange)
	c.Args.Int32(p.rows, p.columns, p.queries, each, planning.OneIf(p.log), planning.OneIf(!p.keep && !p.stays(a)))
	c.Args.Float32(float64(p.scale)).Float32(float64(p.scale) * math.Log2E)
	return c
}
