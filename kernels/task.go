// Package kernels defines operations and their operands, the [Kernel] and [Device] interfaces, the registry of
// devices and the correctness check that all kernels must pass. It is independent of processors and measures
// no time: the packages below it (cpu, cuda) provide kernels, and package sweep times them.
package kernels

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Task is one execution of a subject: the operation, its M, and where its operands lie.
type Task struct {
	Subject
	M int
	// LDA, LDB and LDC are the leading dimensions of a product's row-major A [M,K], of B as Layout has it, and
	// of C [M,N], in elements; 0 means tight.
	LDA, LDB, LDC int
	// StrideA, StrideB and StrideC are elements between the starts of consecutive products of a batch; 0 means
	// contiguous.
	StrideA, StrideB, StrideC int
	// ScalesAt and LDScales place the scales of activations: see [Task.ActivationScales]. 0 stands for behind A.
	ScalesAt, LDScales int
	// ResidualAt is where a [Residual] begins, in elements after the first of A and in the same buffer. It is contiguous. 0
	// stands for behind A.
	ResidualAt int
	// Scale multiplies the elements of a softmax's input in fp32; 0 stands for 1.
	Scale float32
	// Threads is the number of CPU threads, 0 for all. Devices without threads ignore it.
	Threads int
	// PackInside makes every launch pack B again, like a framework with unprepared weights. Kernels that
	// never pack ignore it.
	PackInside bool
	// Part says that the output is a part of a larger one, as in a split. A kernel that returns a new output must put
	// it in its place within the launch.
	Part bool
}

// Shape returns the size of one product.
func (t Task) Shape() Shape { return Shape{M: t.M, N: t.N, K: t.K} }

// String returns the size in conventional form and quantized weights: "m512 n4096 k4096 x8", "m1 n4096 k4096
// int4 g128x1 fp16". Operations other than the product come first, with their type: "softmax fp16 m8 c4096".
func (t Task) String() string {
	s := fmt.Sprintf("m%d %s", t.M, t.Size())
	if !t.Operation.IsDefault() {
		s = fmt.Sprintf("%v %s %s", t.Operation, t.DType, s)
	}
	if t.Quantized() {
		s += " " + t.Weights.String()
	}
	return s
}

// Quantized reports whether the weights have another format than elements of DType.
func (s Subject) Quantized() bool { return s.Weights != (WeightFormat{}) }

// Normalized returns the task with its defaults filled in. The error names the invalid field.
func (t Task) Normalized() (Task, error) {
	if normalize := t.Operation.definition().Normalize; normalize != nil {
		return normalize(t)
	}
	return t, t.Validate()
}

// normalizeProduct fills in leading dimensions and strides. Operands of a batch's neighboring products must not
// overlap, row padding included.
func normalizeProduct(t Task) (Task, error) {
	switch err := t.Shape().Validate(); {
	case err != nil:
		return t, err
	case t.Products < 0:
		return t, fmt.Errorf("%v: %d products, expected at least 1", t.Shape(), t.Products)
	case t.DType.Bits() == 0 || t.DType == INT32 || t.DType == E8M0:
		return t, fmt.Errorf("%v: dtype %q can't be an operand", t, t.DType)
	case int(t.Layout) >= len(layoutNames):
		return t, fmt.Errorf("%v: unknown %v of B: expected kn or nk", t, t.Layout)
	case t.Threads < 0:
		return t, fmt.Errorf("%v: %d threads, expected at least 1", t, t.Threads)
	}
	rows, cols := t.sidesOfB()
	// Separate parameters: in a struct with its name, the pointer would escape and move t to the heap.
	fill := func(name string, value *int, least int) error {
		if *value == 0 {
			*value = least
		}
		if *value < least {
			return fmt.Errorf("%v: %s is %d, expected at least %d", t, name, *value, least)
		}
		return nil
	}
	if err := cmp.Or(fill("lda", &t.LDA, t.K), fill("ldb", &t.LDB, cols), fill("ldc", &t.LDC, t.N)); err != nil {
		return t, err
	}
	if t.Quantized() {
		return t, cmp.Or(t.checkQuantized(), t.placeScales())
	}
	if err := t.placeScales(); err != nil || t.Products == 0 {
		return t, err
	}
	err := cmp.Or(fill("the stride of A", &t.StrideA, t.M*t.LDA), fill("the stride of B", &t.StrideB, rows*t.LDB),
		fill("the stride of C", &t.StrideC, t.M*t.LDC))
	return t, err
}

// checkQuantized names the field that a normalized product of quantized weights can't have.
func (t Task) checkQuantized() error {
	if err := t.Weights.check(t.K); err != nil {
		return fmt.Errorf("%v: %w", t.Shape(), err)
	}
	switch {
	case t.Layout != Transposed:
		return fmt.Errorf("%v: quantized weights are stored [N,K], layout %v, not %v", t.Shape(), Transposed, t.Layout)
	case t.LDB != t.K:
		return fmt.Errorf("%v: ldb is %d, expected %d: quantized weights have no gaps between rows", t.Shape(), t.LDB, t.K)
	case t.PackInside:
		return fmt.Errorf("%v: quantized weights are packed before launches, never inside", t.Shape())
	case t.Products > 0:
		return fmt.Errorf("%v: products of a batch have plain weights", t.Shape())
	}
	return nil
}

// Batch returns a batch of products like t.
func (t Task) Batch(products int) Task {
	t.Products = products
	return t
}

// WithWeights returns t with weights of a format.
func (t Task) WithWeights(f WeightFormat) Task {
	t.Weights = f
	return t
}

// Single returns one product of a batch.
func (t Task) Single() Task {
	t.Products, t.StrideA, t.StrideB, t.StrideC = 0, 0, 0, 0
	return t
}

// sidesOfB returns the rows and columns of B as it is stored.
func (t Task) sidesOfB() (rows, cols int) {
	if t.Layout == Transposed {
		return t.N, t.K
	}
	return t.K, t.N
}

// Extras are what a kernel of products takes beyond one product of two plain matrices.
type Extras uint8

// The extras.
const (
	Batches          Extras = 1 << iota // independent products in one launch
	QuantizedWeights                    // integers
	LevelWeights                        // quantized weights of a type with [WeightType.Levels]
	ScaledWeights                       // fp8 weights and activations with scales in fp32
)

// Product returns the normalized task if it is a product that a kernel with the extras may compute, otherwise the
// reason as an [*Unsupported].
func (t Task) Product(kernel string, extras Extras) (Task, error) {
	if !t.Operation.IsProduct() {
		return t, t.Unsupported(kernel, "it computes matrix products")
	}
	return t.Supported(kernel, extras)
}

// Supported returns the normalized task if a kernel of its operation with the extras may compute it, otherwise the
// reason as an [*Unsupported].
func (t Task) Supported(kernel string, extras Extras) (Task, error) {
	def := t.Operation.definition()
	switch {
	case t.Products > 0 && extras&Batches == 0:
		return t, t.Unsupported(kernel, "it computes one product a launch")
	case t.Quantized() && (extras&(QuantizedWeights|LevelWeights|ScaledWeights) == 0 || t.Products > 0):
		return t, t.Unsupported(kernel, def.takesPlain())
	case t.DType.Size() == 0 && t.DType.Bits() > 0:
		return t, t.Unsupported(kernel, "no kernel of this program computes "+string(t.DType))
	case t.Weights.Activations() != "" && t.Weights.Scale != FP32:
		return t, t.Unsupported(kernel, "no kernel of this program takes "+t.Weights.Type)
	case t.Weights.Activations() != "" && extras&ScaledWeights == 0:
		return t, t.Unsupported(kernel, "it takes no activations with scales")
	case t.Quantized() && t.Weights.Activations() == "" && extras&(QuantizedWeights|LevelWeights) == 0:
		return t, t.Unsupported(kernel, "it takes no quantized weights but fp8 with scales")
	case t.Weights.levels() != nil && extras&LevelWeights == 0:
		return t, t.Unsupported(kernel, "its quantized weights are integers")
	case def.DTypes != nil && !slices.Contains(def.DTypes, t.DType):
		return t, t.Unsupported(kernel, cmp.Or(def.Group, def.Name)+" is computed in "+listed(def.DTypes))
	case t.Output != "" || t.Accumulator != "":
		return t, t.Unsupported(kernel, "its output and accumulator follow from the data type")
	}
	n, err := t.Normalized()
	if err != nil {
		return t, t.Unsupported(kernel, err.Error())
	}
	return n, nil
}

// takesPlain is the reason of a kernel without quantized weights.
func (d *Definition) takesPlain() string {
	if d.Product {
		return "it takes plain weights"
	}
	return fmt.Sprintf("its %s products take plain weights", d.Name)
}

// listed joins types for people: "fp32, fp16 and bf16".
func listed(types []DType) string {
	words := make([]string, len(types))
	for i, d := range types {
		words[i] = string(d)
	}
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
	return strings.Join(words, "")
}

// Extents returns the sizes of a normalized task's operands, up to the last element of the last row: elements of
// in and out, and bytes of what is stored.
func (t Task) Extents() (in, stored, out int64) {
	if extents := t.Operation.definition().Extents; extents != nil {
		return extents(t)
	}
	return t.InputElements(t.M), t.Stored(t.M), t.OutputElements(t.M)
}

// productExtents is [Task.Extents] of products.
func productExtents(t Task) (in, stored, out int64) {
	last := func(stride, rows, ld, cols int) int64 {
		return int64(max(1, t.Products)-1)*int64(stride) + int64(rows-1)*int64(ld) + int64(cols)
	}
	rows, _ := t.sidesOfB()
	stored = last(t.StrideB, rows, t.LDB, t.LDB) * int64(t.DType.Size())
	if t.Quantized() {
		stored = t.Stored(t.M)
	}
	in = last(t.StrideA, t.M, t.LDA, t.K)
	if a, ok := t.ActivationScales(); ok {
		in = a.end(t)
	}
	return in, stored, last(t.StrideC, t.M, t.LDC, t.N)
}

// Unsupported is the error of a kernel that refuses a task. Reason is complete by itself ("needs AMX, which
// this CPU lacks").
type Unsupported struct {
	Kernel string
	DType  DType
	// Weights is the quantization, "int4:128"; empty for unquantized weights.
	Weights string
	// Option is the option that is refused for every type and weights, "--threads 2"; empty for others.
	Option string
	Reason string
}

// Unsupported returns the error of a kernel that refuses the task.
func (t Task) Unsupported(kernel, reason string) *Unsupported {
	e := &Unsupported{Kernel: kernel, DType: t.DType, Reason: reason}
	if t.Quantized() {
		e.Weights = t.Weights.String()
		if request, ok := t.Weights.Requested(t.K); ok {
			e.Weights = request.String()
		}
	}
	return e
}

// UnsupportedAs returns an error of a kernel that computes a part of the task: a refusal becomes that of the task.
func (t Task) UnsupportedAs(kernel string, err error) error {
	var no *Unsupported
	if errors.As(err, &no) {
		return t.Unsupported(kernel, no.Reason)
	}
	return err
}

func (e *Unsupported) Error() string {
	what := string(e.DType)
	if e.Option != "" {
		return fmt.Sprintf("kernel %s does not support %s: %s", e.Kernel, e.Option, e.Reason)
	}
	if e.Weights != "" {
		what += " with weights " + e.Weights
	}
	return fmt.Sprintf("kernel %s does not support %s: %s", e.Kernel, what, e.Reason)
}

// RawWeights is the layout of raw quantized weights, in bytes. The codes begin at 0.
type RawWeights struct {
	Scales int64 // start of the scales
	Zeros  int64 // start of the zero points, 0 if none
	Bytes  int64 // of all
}

const rawAlignment = 16

// rawWeights requires a format that [WeightFormat.check] accepts.
func (f WeightFormat) rawWeights(n, k int) RawWeights {
	up := func(bytes int64) int64 { return (bytes + rawAlignment - 1) / rawAlignment * rawAlignment }
	groups := int64(ceilDiv(n, f.GroupN)) * int64(ceilDiv(k, f.GroupK))
	r := RawWeights{Scales: up(int64(n) * int64(k*f.Bits/8))}
	r.Bytes = up(r.Scales + groups*int64(f.Scale.Size()))
	if f.ZeroPoint != "" {
		r.Zeros = r.Bytes
		r.Bytes = up(r.Zeros + (groups*int64(f.ZeroPointBits)+7)/8)
	}
	return r
}

// Raw returns the layout of a normalized task's raw quantized weights. A weight is (code − zero point) · scale,
// rounded once to the type of A, or unrounded for a [SumScaler]. Without zero points the zero point is
// 2^(Bits−1). Codes of fp8 are elements, and their weights unrounded. The parts begin at multiples of 16 bytes:
//
//   - Codes [N,K], unsigned, each row a whole number of bytes. With 4 bits, an even k is in the
//     lower half of its byte.
//   - Scales [N ÷ GroupN, K ÷ GroupK], rounded up.
//   - Zero points [N, K ÷ GroupK], if any, one stream of codes.
func (t Task) Raw() RawWeights { return t.Weights.rawWeights(t.N, t.K) }

// RawBytes returns the size of raw weights [N,K]. f must come from [WeightFormat.For].
func (f WeightFormat) RawBytes(n, k int) int64 { return f.rawWeights(n, k).Bytes }
