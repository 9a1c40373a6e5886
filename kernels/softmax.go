package kernels

import "fmt"

// SoftmaxProblem is the softmax of each row of a matrix, or its logarithm: with z = Scale·x,
// Out is e^(z-max z) ÷ Σe^(z-max z), or z - max z - log Σe^(z-max z). In and Out are
// row-major, [Rows, Columns] in DType, tight, and do not overlap. Sums are fp32, and each
// output is rounded once.
//
// Infinities and NaN are treated as PyTorch does: a row with NaN or +Inf among what it sees is NaN
// wherever it is not masked, a row that sees nothing but -Inf likewise; beside finite elements -Inf
// gives 0, or -Inf of the logarithm.
type SoftmaxProblem struct {
	Rows, Columns int
	DType         DType // fp32, fp16 or bf16, of In and Out
	// Scale multiplies the elements of In, in fp32; 0 stands for 1.
	Scale float32
	// Queries makes the mask causal, unless it is 0: the rows are sequences of so many
	// queries, at most Columns, and row r sees the columns up to r mod Queries + Columns - Queries.
	// What is masked takes no part, whatever it is, and is 0 in Out, or -Inf of the logarithm.
	Queries int
	Log     bool
	In, Out Operand
}

// Normalized returns p with the Scale it stands for, or an error that names the field that
// can't be used. It does not look at operands.
func (p SoftmaxProblem) Normalized() (SoftmaxProblem, error) {
	switch {
	case p.Rows < 1 || p.Columns < 1:
		return p, fmt.Errorf("%v: expected at least 1 row and 1 column", p)
	case p.DType != FP32 && p.DType != FP16 && p.DType != BF16:
		return p, fmt.Errorf("%v: expected fp32, fp16 or bf16", p)
	case p.Queries < 0 || p.Queries > p.Columns:
		return p, fmt.Errorf("%v: %d queries, expected 0 to the %d columns", p, p.Queries, p.Columns)
	case !(p.Scale >= 0 && p.Scale <= maxScale):
		return p, fmt.Errorf("%v: scale %g, expected 0 to %g", p, p.Scale, float32(maxScale))
	}
	if p.Scale == 0 {
		p.Scale = 1
	}
	return p, nil
}

// maxScale keeps Scale·x of the larger half of a type's exponents finite.
const maxScale = 0x1p63

// Seen is how many columns a row sees, from the first on: at least 1.
func (p SoftmaxProblem) Seen(row int) int {
	if p.Queries == 0 {
		return p.Columns
	}
	return row%p.Queries + p.Columns - p.Queries + 1
}

// Operation is which operation the problem is.
func (p SoftmaxProblem) Operation() Operation {
	if p.Log {
		return LogSoftmax
	}
	return Softmax
}

// String prints the sizes: "softmax fp16 m2048 c512 q512".
func (p SoftmaxProblem) String() string {
	s := fmt.Sprintf("%v %s m%d c%d", p.Operation(), p.DType, p.Rows, p.Columns)
	if p.Queries != 0 {
		s += fmt.Sprintf(" q%d", p.Queries)
	}
	return s
}

// SoftmaxKernel is one way in which a device computes softmax and its logarithm.
type SoftmaxKernel interface {
	// Name is the name by which the kernel is selected and stored: "online".
	Name() string
	// Describe is one line for people.
	Describe() string
	// Supports looks at sizes and types, not at operands. It returns nil, or an
	// [*Unsupported] with the reason.
	Supports(p SoftmaxProblem) error
	// Bind binds a problem with its operands. The error names the operand or the size that
	// is wrong.
	Bind(p SoftmaxProblem) (Launch, error)
}

// SoftmaxKernels lists the ways in which d computes softmax, none where it does not tell.
func SoftmaxKernels(d Device) []SoftmaxKernel {
	if l, ok := d.(SoftmaxLister); ok {
		return l.SoftmaxKernels()
	}
	return nil
}

// softmax is a kernel of softmax as what computes the operation of a task.
type softmax struct {
	SoftmaxKernel
	device Device
}

// nothingStored are the weights of an operation that has none.
type nothingStored struct{}

func (nothingStored) Bytes() int64 { return 0 }
func (nothingStored) Close() error { return nil }

// Detached: there is nothing to keep.
func (nothingStored) Detached() bool { return true }

// Softmax is the softmax of a task, without operands.
func (t Task) Softmax() SoftmaxProblem {
	return SoftmaxProblem{Rows: t.M, Columns: t.Columns, DType: t.DType, Scale: 1, Queries: t.Queries, Log: t.Operation == LogSoftmax}
}

func (k softmax) Supports(t Task) error {
	no := func(reason string) error {
		return &Unsupported{Kernel: k.Name(), DType: t.DType, Reason: reason}
	}
	if err := t.Validate(); err != nil {
		return no(err.Error())
	}
	switch t.DType {
	case FP32, FP16, BF16:
	default:
		return no("softmax is computed in fp32, fp16 and bf16")
	}
	if t.Output != "" || t.Accumulator != "" {
		return no("its output and accumulator follow from the data type")
	}
	if d, ok := k.device.(Threaded); ok && t.Threads != 0 && t.Threads != d.Threads() {
		return no(fmt.Sprintf("softmax runs on all %d threads of the device", d.Threads()))
	}
	return k.SoftmaxKernel.Supports(t.Softmax())
}

// PrepareWeights has nothing to prepare.
func (softmax) PrepareWeights(Task, Buffer) (Weights, error) { return nothingStored{}, nil }

func (k softmax) Bind(t Task, in Operand, _ Weights, out Operand) (Launch, error) {
	if err := k.Supports(t); err != nil {
		return nil, err
	}
	p := t.Softmax()
	p.In, p.Out = in, out
	return k.SoftmaxKernel.Bind(p)
}
