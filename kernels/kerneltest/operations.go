package kerneltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// OperationsDevice is a device with the operations of a decoder that are neither
// products nor attention.
type OperationsDevice interface {
	kernels.Device
	Embed(kernels.Embedding) (kernels.Launch, error)
	Normalize(kernels.Normalization) (kernels.Launch, error)
	Rotate(kernels.Rotation) (kernels.Launch, error)
	Activate(kernels.GatedUnit) (kernels.Launch, error)
	Choose(kernels.TokenChoice) (kernels.Launch, error)
}

// Operations holds every operation of d to a float64 reference in fp32, fp16 and bf16:
// sizes of one element and up, tails of every vector, operands anywhere in their
// buffers. Outputs begin as NaN among NaN; what lies beside them and what is only
// read must stay as it was, and a second run must give the same bits. Operands that
// can't be are to be refused by name. A device may refuse odd sizes and offsets with a
// [*kernels.Unsupported]; it may not refuse those of a decoder. A type whose every case is
// refused so is one that the device lacks, and is skipped where it may lack it.
func Operations(t *testing.T, d OperationsDevice) {
	for _, op := range []struct {
		name  string
		cases func(kernels.DType) []operation
	}{
		{"embed", embeddings}, {"normalize", normalizations}, {"rotate", rotations}, {"gate", gatedUnits}, {"choose", choices},
	} {
		for _, dt := range []kernels.DType{kernels.FP32, kernels.FP16, kernels.BF16} {
			t.Run(fmt.Sprintf("%s/%s", op.name, dt), func(t *testing.T) {
				o := holdOperations(t.Context(), d, dt, op.cases(dt))
				if o.lacking != nil {
					t.Skip(o.lacking)
				}
				for _, refusal := range o.refused {
					t.Log(refusal)
				}
				for _, err := range o.failed {
					t.Error(err)
				}
			})
		}
	}
}

// operationsOutcome is what came of the cases of one operation in one type.
type operationsOutcome struct {
	refused, failed []error // each names its case
	// lacking is why the device lacks the type; nil where it has it, or has to have it.
	lacking error
}

// holdOperations runs the cases of an operation in a type.
func holdOperations(ctx context.Context, d OperationsDevice, dt kernels.DType, cases []operation) (o operationsOutcome) {
	var last error
	lacks := mayLack(d, dt)
	for _, c := range cases {
		err := c.run(ctx, d)
		var refused *kernels.Unsupported
		unsupported := errors.As(err, &refused) && refused.DType == dt
		last, lacks = err, lacks && unsupported
		switch {
		case err == nil:
		case unsupported && !c.required:
			o.refused = append(o.refused, fmt.Errorf("%s: %w", c.name, err))
		default:
			o.failed = append(o.failed, fmt.Errorf("%s: %w", c.name, err))
		}
	}
	if lacks {
		return operationsOutcome{lacking: last}
	}
	return o
}

// mayLack says whether a device may be without a type: every device has fp32 and fp16, and
// the processor of the host converts what it has no instructions for.
func mayLack(d OperationsDevice, dt kernels.DType) bool {
	return dt != kernels.FP32 && dt != kernels.FP16 && !d.Spec().Kind.Facts().Host
}

// operation is one launch to be judged.
type operation struct {
	name     string
	required bool // of every device
	// bind lays the operands and binds the launch, and returns what each must be after.
	bind func(d OperationsDevice, m *memory) (kernels.Launch, error)
	// launches is how often it runs in a block, 0 for once.
	launches int
}

// memory are the operands of a launch.
type memory struct {
	device   kernels.Device
	operands []*operand
}

// operand is part of a buffer, with what it shall become.
type operand struct {
	kernels.Operand
	name   string
	dtype  kernels.DType
	n      int
	before []byte // of the whole buffer
	// want are the values after the launch, NaN for what is not written, nil for those before.
	want []float64
	// bound is the error allowed of want[i]; nil for none. A negative one lets anything pass.
	bound func(i int) float64
}

// The elements ahead of and behind an operand: aligned as the memory itself is, for
// what every device must take, and not aligned at all.
const (
	alignedGuard = 64
	looseGuard   = 67
)

// poison is what stands where nothing is to be read or written.
func poison(d kernels.DType) float64 {
	if d == kernels.INT32 {
		return -1_234_567
	}
	return math.NaN()
}

// put lays values among poison, guard elements from the beginning of a new buffer.
func (m *memory) put(name string, d kernels.DType, guard int, values []float64) (*operand, error) {
	all := make([]float64, len(values)+guard+alignedGuard)
	for i := range all {
		all[i] = poison(d)
	}
	copy(all[guard:], values)
	o := &operand{name: name, dtype: d, n: len(values), before: make([]byte, len(all)*d.Size())}
	if err := kernels.Encode(d, all, o.before); err != nil {
		return nil, err
	}
	b, err := m.device.Alloc(int64(len(o.before)))
	if err != nil {
		return nil, err
	}
	o.Operand = kernels.Operand{Buffer: b, Offset: guard}
	m.operands = append(m.operands, o)
	return o, nil
}

// blank is put of n elements of poison.
func (m *memory) blank(name string, d kernels.DType, guard, n int) (*operand, error) {
	v := make([]float64, n)
	for i := range v {
		v[i] = poison(d)
	}
	return m.put(name, d, guard, v)
}

// values are the operand's before the launch, as they were rounded.
func (o *operand) values() []float64 {
	v := make([]float64, o.n)
	if err := kernels.Decode(o.dtype, o.before[o.Offset*o.dtype.Size():], v); err != nil {
		panic(err) // the buffer was made for them
	}
	return v
}

func (m *memory) close() error {
	var errs []error
	for _, o := range m.operands {
		errs = append(errs, o.Buffer.Close())
	}
	return errors.Join(errs...)
}

// run binds the operation, executes it twice on the same operands and judges both.
func (c operation) run(ctx context.Context, d OperationsDevice) (err error) {
	m := &memory{device: d}
	defer func() { err = errors.Join(err, m.close()) }()
	launch, err := c.bind(d, m)
	if err != nil {
		return err
	}
	first := map[*operand][]byte{}
	for range 2 {
		for _, o := range m.operands {
			if err := o.Buffer.Upload(0, o.before); err != nil {
				return err
			}
		}
		if _, err := d.Execute(ctx, []kernels.Launch{launch}, max(c.launches, 1)); err != nil {
			return err
		}
		for _, o := range m.operands {
			got := make([]byte, len(o.before))
			if err := o.Buffer.Download(0, got); err != nil {
				return err
			}
			if err := o.judge(got); err != nil {
				return err
			}
			if first[o] == nil {
				first[o] = got
			} else if !bytes.Equal(first[o], got) {
				return fmt.Errorf("%s differs from run to run", o.name)
			}
		}
	}
	return nil
}

// judge compares the buffer with what it should be.
func (o *operand) judge(got []byte) error {
	size := o.dtype.Size()
	inside, end := o.Offset*size, (o.Offset+o.n)*size
	if o.want == nil {
		inside, end = 0, 0
	}
	for at := 0; at < len(got); at += size {
		if at == inside {
			at = end
		}
		if at < len(got) && !bytes.Equal(got[at:at+size], o.before[at:at+size]) {
			return fmt.Errorf("%s: element %d of %d was written to", o.name, at/size-o.Offset, o.n)
		}
	}
	values := make([]float64, len(o.want))
	if err := kernels.Decode(o.dtype, got[o.Offset*size:], values); err != nil {
		return err
	}
	for i, want := range o.want {
		bound := 0.0
		if o.bound != nil {
			bound = o.bound(i)
		}
		if at := (o.Offset + i) * size; math.IsNaN(want) && bytes.Equal(got[at:at+size], o.before[at:at+size]) {
			continue
		}
		if v := values[i]; bound >= 0 && v != want && !(math.Abs(v-want) <= bound) {
			return fmt.Errorf("%s: element %d of %d is %g, expected %g ± %.3g", o.name, i, o.n, v, want, bound)
		}
	}
	return nil
}

// stranger is a buffer of no device.
type stranger struct{ kernels.Buffer }

func (stranger) Bytes() int64 { return 1 << 40 }

// wrong is a change after which a description can't be bound.
type wrong[T any] struct {
	name   string // what the error must name
	change func(*T)
}

// wrongOperands are the ways in which one operand can't be.
func wrongOperands[T any](name string, at func(*T) *kernels.Operand) []wrong[T] {
	return []wrong[T]{
		{name, func(x *T) { at(x).Buffer = stranger{} }},
		{name, func(x *T) { at(x).Offset = -1 }},
		{name, func(x *T) { at(x).Offset += 1 << 30 }},
		// One element less than is needed: put leaves alignedGuard after the last.
		{name, func(x *T) { at(x).Offset += alignedGuard + 1 }},
	}
}

// refuses checks that bind refuses each of the changes of good.
func refuses[T any](good T, bind func(T) (kernels.Launch, error), changes ...[]wrong[T]) error {
	for _, list := range changes {
		for i, w := range list {
			bad := good
			w.change(&bad)
			l, err := bind(bad)
			if err == nil || l != nil {
				return fmt.Errorf("%s that can't be (%d) was taken", w.name, i)
			}
			if !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(w.name)) {
				return fmt.Errorf("%s that can't be (%d): the error does not name it: %w", w.name, i, err)
			}
		}
	}
	return nil
}

// rounding is what the rounding of x to a type is off by at most.
func rounding(d kernels.DType, x float64) float64 {
	step := 0x1p-149
	switch d {
	case kernels.FP16:
		step = 0x1p-24
	case kernels.BF16:
		step = 0x1p-133
	}
	return d.UnitRoundoff()*math.Abs(x) + step/2
}

// u32 is the unit roundoff of the fp32 arithmetic inside.
var u32 = kernels.FP32.UnitRoundoff()
