package kernels

import (
	"context"
	"slices"
)

// Dim is a dimension that is constant along a curve over M.
type Dim struct {
	Name  string // stored name, such as "kv_heads"
	Short string // printed before the number: "kv"
	// Optional dimensions are 0 if they don't apply, and not printed then.
	Optional bool
	// Routes means that the stored operand does not depend on the dimension, which only says which part of it a row needs.
	Routes bool
	// Word returns the text that is printed for the value, instead of Short and the number; nil for numbers.
	Word func(value int) string
	// In returns the dimension's field.
	In func(*Dims) *int
}

// Definition is what the program knows about an operation. Planning, measuring, checks, rules, tables and reports
// ask it; none of them knows an operation by name.
type Definition struct {
	Name  string
	Title string
	Swept string // what M counts
	Dims  []Dim
	Along []Dim // see [Operation.Along]
	// Scaled are the dimensions that grow with M along a scale.
	Scaled []Dim
	// DTypes are the operands' types; nil allows all.
	DTypes []DType
	// Check refuses inconsistent dimensions; each is already at least 1, also the one that the curve runs along.
	Check func(Subject) error
	// Normalize fills in a task's defaults; nil has none.
	Normalize func(Task) (Task, error)
	// FLOPs returns the operations of one execution.
	FLOPs func(s Subject, m float64) float64
	// Input and Output return the elements read and written per execution. Stored returns the bits read of
	// the operand that stays in memory between launches; Operand is its name.
	Input, Output, Stored func(s Subject, m float64) float64
	Operand               string
	// Residual returns the elements of a second input in the output's shape, which is added; nil if there is none. See
	// [Task.ResidualAt].
	Residual func(s Subject, m float64) float64
	// Read returns the input elements read, if not all.
	Read func(s Subject, m float64) float64
	// Room returns the bits of a stored operand that serves every M up to most; nil if it does not depend on M.
	Room func(s Subject, most int) float64
	// Held returns the bits of the stored operand, if launches don't read all of it.
	Held func(s Subject) float64
	// Extents is [Task.Extents] of operands that may have gaps; nil if they have none.
	Extents func(Task) (in, stored, out int64)
	Weights bool // the stored operand is weights with a layout
	// Pads reports whether a larger size along the subject's curve, with padding in place, gives the result of a
	// smaller one. Divides reports whether the rows may be split into launches. nil is never.
	Pads, Divides func(Subject) bool
	// Product is true for C = A·B with weights: its kernels have tiles, its weights can be read back.
	Product bool
	// Composite operations are measured by their own commands, not swept.
	Composite bool
	// MFU says in reports what MFU is relative to, where memory limits the operation at every size. Empty means the
	// peak of the operands' type.
	MFU string
	// Group selects the operation together with others: "attention". Their kernels share one check, and are
	// named by it in a selftest; empty for kernels that are named alone.
	Group string
	// Gate checks kernels of the group on a device in a type; each has its own summary and error. Without Gate
	// and Reference there is no check.
	Gate func(ctx context.Context, d Device, ks []Kernel, dt DType, seed uint64) ([]CheckSummary, []error)
	// Reference computes a task in float64 from its operands: the exact output, and the error allowed for each element. in has the
	// residual or the scales of activations behind A; [ReadOperands] reads them. It makes the check of an operation without Gate.
	Reference func(t Task, in, stored []float64) (want, bound []float64)
	// Cases are the tasks of the check by Reference in a type. The check sets their operation.
	Cases func(dt DType) []Task
	// Faults must be found by the check by Reference; a bound that accepts one is too wide.
	Faults []Fault
	// Computes reports whether a device's kernels of the group compute, as simulated ones may not; nil if all do.
	Computes func(d Device) bool
	// Parts are the parts of a model that the operation computes.
	Parts ModelParts
	// Expected describes how a shape is written, for error messages.
	Expected string
	// Probes are the sizes that show whether a kernel supports a type at M 1 and 4096; Least are sizes at M 1.
	Probes, Least []Dims
	// Ladder lists kernels that are measured only on request, with the reasons.
	Ladder map[string]string
}

// Fault is a mistake that kernels of an operation may make.
type Fault struct {
	Name string
	// Applies reports whether a task's operands are such that the mistake can be made; nil is always.
	Applies func(Task) bool
	// Inject changes a task's exact output to the wrong one.
	Inject func(t Task, out []float64)
	// Compute returns the wrong output instead, from the task's operands.
	Compute func(t Task, in, stored []float64) []float64
}

// Wrong returns the output of a kernel with the fault. exact is the output of a right one, in and stored are the operands.
func (f Fault) Wrong(t Task, in, stored, exact []float64) []float64 {
	if f.Applies != nil && !f.Applies(t) {
		return slices.Clone(exact)
	}
	if f.Compute != nil {
		return f.Compute(t, in, stored)
	}
	out := slices.Clone(exact)
	if f.Inject != nil {
		f.Inject(t, out)
	}
	return out
}

// ModelParts are parts of a model that one operation computes.
type ModelParts uint8

// The parts.
const (
	NoParts           ModelParts = iota
	Projections                  // products with weights
	PromptAttention              // of all tokens of a prompt
	TokenAttention               // of one token over those before it
	Probabilities                // over the vocabulary
	LogProbabilities             // over the vocabulary
	ExpertProjections            // products with the weights of experts
)

// Operation returns the operation that computes the parts: for [Projections] the matrix product.
func (p ModelParts) Operation() Operation {
	return Operation(slices.IndexFunc(definitions, func(d Definition) bool { return d.Parts == p }))
}

// Define adds an operation and returns it; undefine removes it, and all that were added later. Define operations
// before anything else asks for them, as in a package's init: they are not guarded against concurrent use.
func Define(d Definition) (o Operation, undefine func()) {
	n := len(definitions)
	if o = Operation(n); d.Gate == nil && d.Reference != nil {
		d.Gate = o.checkByReference
	}
	definitions = append(definitions[:n:n], d)
	return o, func() { definitions = definitions[:n:n] }
}
