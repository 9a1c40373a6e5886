// Package kernels defines what a matrix product is here: data types, shapes,
// the [Gemm] and [Device] interfaces that every processor implements, the
// registry in which they are found, and the correctness gate that all of them
// pass. It knows no particular processor and measures no time; the packages
// below it (cpu, cuda) bring the kernels, and package sweep times them.
package kernels

import "fmt"

// Problem is one product to be computed, with the storage of its operands.
// A is row-major M×K in DType, C row-major M×N in DType.Output().
type Problem struct {
	Shape
	DType DType
	// LDA, LDB and LDC are leading dimensions in elements; 0 means tight.
	LDA, LDB, LDC int
	// BLayout is how B is given to PrepareWeights.
	BLayout Layout
	// Threads is the number of CPU threads, 0 for all of the device. Devices
	// without threads ignore it.
	Threads int
	// PackInside makes every launch pack B anew, as a framework does that gets
	// its weights unprepared. Kernels that never pack ignore it.
	PackInside bool
}

// Normalized returns p with its zero fields replaced by the defaults they stand
// for, or an error that names the field that can't be used.
func (p Problem) Normalized() (Problem, error) {
	if err := p.Shape.Validate(); err != nil {
		return p, err
	}
	if p.DType.Size() == 0 || p.DType == INT32 {
		return p, fmt.Errorf("%v: dtype %q can't be an operand", p.Shape, p.DType)
	}
	minLDB := p.N
	switch p.BLayout {
	case RowMajor:
	case Transposed:
		minLDB = p.K
	default:
		return p, fmt.Errorf("%v: unknown %v of B: expected kn or nk", p.Shape, p.BLayout)
	}
	for _, f := range []struct {
		name  string
		value *int
		least int
	}{{"lda", &p.LDA, p.K}, {"ldb", &p.LDB, minLDB}, {"ldc", &p.LDC, p.N}} {
		if *f.value == 0 {
			*f.value = f.least
		}
		if *f.value < f.least {
			return p, fmt.Errorf("%v: %s is %d, expected at least %d", p.Shape, f.name, *f.value, f.least)
		}
	}
	if p.Threads < 0 {
		return p, fmt.Errorf("%v: %d threads, expected at least 1", p.Shape, p.Threads)
	}
	return p, nil
}

// Unsupported is the error of a kernel that can't run a problem, with the
// reason in words that stand on their own ("needs AMX, which this CPU lacks").
type Unsupported struct {
	Kernel string
	DType  DType
	// Weights is how they are quantised, "int4:128"; empty for plain ones.
	Weights string
	Reason  string
}

func (e *Unsupported) Error() string {
	what := string(e.DType)
	if e.Weights != "" {
		what += " with weights " + e.Weights
	}
	return fmt.Sprintf("kernel %s does not support %s: %s", e.Kernel, what, e.Reason)
}

// Missing is a kernel, a library or a device that this machine can't offer, and why.
type Missing struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
	// Broken says that it is here and fails, rather than that there is none.
	Broken bool `json:"broken,omitempty"`
}

// Gemm is one implementation of the matrix product on one device: one of our
// kernels, or a vendor's library. Implementations hold no state of a problem
// and may be used by one goroutine at a time, like the device they belong to.
type Gemm interface {
	// Name is the name by which the kernel is selected and stored: "tiled".
	Name() string
	// Describe is one line for people: instruction set, tile sizes, version.
	Describe() string
	// Supports returns nil, or an [*Unsupported] with the reason.
	Supports(p Problem) error
	// PrepareWeights brings B into the form that the kernel reads, ahead of
	// timing: packed, uploaded, or as it is. raw holds B as p says and must
	// outlive the weights, unless they are [Detached]. The form does not depend on p.M.
	PrepareWeights(p Problem, raw Buffer) (Weights, error)
	// Bind joins a problem with its operands. a holds A, c receives C. Offsets
	// of a and c are in elements, so that parts of a split write into one output.
	Bind(p Problem, a Operand, w Weights, c Operand) (Launch, error)
}

// Operand is a matrix inside a buffer, beginning at Offset elements.
type Operand struct {
	Buffer Buffer
	Offset int
}

// Weights is B in the form that one kernel reads.
type Weights interface {
	// Bytes is the memory held, which is what one launch reads of B.
	Bytes() int64
	Close() error
}

// Launch is a product that is ready to run on its device by [Device.Execute].
type Launch interface {
	// Label names what runs inside when the kernel chose it by itself (the
	// library's kernel or algorithm, the tile), empty when there is no choice.
	Label() string
}
