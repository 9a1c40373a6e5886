// Package softmax plans the softmax of rows and its logarithm, and binds it on a device:
// rows in the registers of a warp, a block or a cluster of blocks, rows of any length read
// twice, and two baselines that these are held against.
package softmax

import (
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Problem is what a plan may depend on: [kernels.SoftmaxProblem] without addresses.
type Problem struct {
	rows, columns int
	DType         kernels.DType
	scale         float32
	queries       int // 0 for no mask
	log           bool
	// aligned is the largest power of two, at most 16, that divides in bytes the addresses
	// of input and output and the distance of rows; based is the same of the addresses alone.
	aligned, based int
	// keep is whether a plan's output is written as what stays in L2, whatever its size: parts of a line that several
	// blocks write are to meet there.
	keep bool
}

// Addresses are where the operands of a softmax lie on the device.
type Addresses struct{ in, out, exchange uint64 }

// family and plan are those of softmax.
type (
	family = planning.Family[Problem, Addresses]
	plan   = planning.Plan[Addresses]
)

// ladder are the kernels among which auto picks, for the shortest rows first.
var ladder = []family{warp{}, block{}, cluster{}, reread{}}

// baselines are the kernels that those are held against.
var baselines = []family{fasterTransformer{}, naive{}}

// Families are all kernels, the baselines last.
func Families() []planning.Family[Problem, Addresses] { return slices.Concat(ladder, baselines) }

// NewProblem checks the sizes of a softmax; the error names the first that is impossible.
func NewProblem(o kernels.SoftmaxProblem) (Problem, error) {
	o, err := o.Normalized()
	if err != nil {
		return Problem{}, err
	}
	p := Problem{
		rows: o.Rows, columns: o.Columns, DType: o.DType, scale: o.Scale, queries: o.Queries, log: o.Log,
		aligned: planning.AlignmentOf(0, int64(o.Columns)*int64(o.DType.Size())), based: pieceBytes,
	}
	if max(o.Rows, o.Columns) > planning.LargestExtent {
		return p, fmt.Errorf("%v: an extent is beyond %d", o, planning.LargestExtent)
	}
	return p, nil
}

// pieceBytes is what device code reads and writes at once.
const pieceBytes = 16

// pieces is how many pieces of 16 bytes at multiples of 16 a row touches at most.
func (p Problem) pieces() int {
	size := p.DType.Size()
	before := (pieceBytes - p.aligned) / size // elements of the first piece that may stand before the row
	return planning.DivideUp((before+p.columns)*size, pieceBytes)
}

// form is what is known of all rows, enum Form in softmax.cuh: kernels are built apart for those that have
// nothing, or only their ends, to look out for. It is the end of their names.
type form string

const (
	anyRows   form = ""
	wholeRows form = "_whole" // begin and end at multiples of 16 bytes, all columns seen
	endsApart form = "_ends"  // in a matrix that begins at one, all columns seen
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

// kept is how many pieces of a row its threads have at most: of rows whose ends are apart, those
// that are all of the row's.
func (p Problem) kept() int {
	if p.form() == endsApart {
		return p.columns * p.DType.Size() / pieceBytes
	}
	return p.pieces()
}

// kernel is the symbol of a kernel for rows of a form of p's type.
func (p Problem) kernel(name string, f form) string {
	return fmt.Sprintf("ga_softmax_%s_%s%s", name, p.DType, f)
}

// seen is the part of the elements that is not masked, more than 0 to 1.
func (p Problem) seen() float64 {
	if p.queries == 0 {
		return 1
	}
	columns, queries := float64(p.columns), float64(p.queries)
	return (columns - (queries-1)/2) / columns
}

// bytes are those of the input that is read and of the output.
func (p Problem) bytes() (in, out float64) {
	out = float64(p.rows) * float64(p.columns) * float64(p.DType.Size())
	return out * p.seen(), out
}

// stays is whether input and output stay in L2 beside each other.
func (p Problem) stays(a planning.Arch) bool {
	_, out := p.bytes()
	return 2*out <= float64(a.L2)/2
}

// call launches a kernel of softmax: struct SoftmaxParams in softmax.cuh. each is the
// field of that name.
func (p Problem) call(a planning.Arch, kernel string, blocks, threads, each int, at Addresses) planning.Call {
	c := planning.Call{Kernel: kernel, Grid: planning.Dim3{X: blocks}, Block: planning.Dim3{X: threads}, Overlap: a.CC >= 90}
	c.Args.Pointer(at.in).Pointer(at.out).Pointer(at.exchange)
	c.Args.Int32(p.rows, p.columns, p.queries, each, planning.OneIf(p.log), planning.OneIf(!p.keep && !p.stays(a)))
	c.Args.Float32(float64(p.scale)).Float32(float64(p.scale) * math.Log2E)
	return c
}
