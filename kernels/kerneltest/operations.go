package kerneltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// OperationsDevice is a device with the decoder operations other than products and attention.
type OperationsDevice interface {
	kernels.Device
	Embed(kernels.Embedding) (kernels.Launch, error)
	Normalize(kernels.Normalization) (kernels.Launch, error)
	Rotate(kernels.Rotation) (kernels.Launch, error)
	Activate(kernels.GatedUnit) (kernels.Launch, error)
	Choose(kernels.TokenChoice) (kernels.Launch, error)
}

// Operations compares every operation of d with a float64 reference in fp32, fp16 and bf16: sizes from one
// element, vector tails, operands anywhere in their buffers. Outputs and their surroundings begin as NaN;
// surroundings and inputs must not change, and a second run must return the same bits. Invalid operands must
// be refused by name. A device may refuse odd sizes and offsets with a [*kernels.Unsupported], but not a
// decoder's. If it refuses every case of a type that it may lack, the type is skipped.
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

type operationsOutcome struct {
	refused, failed []error
	// lacking is why the device lacks the type; nil if it has or must have it.
	lacking error
}

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

// mayLack reports whether a device may lack a type. Every device must have fp32 and fp16, and a host CPU all
// types: it can convert.
func mayLack(d OperationsDevice, dt kernels.DType) bool {
	return dt != kernels.FP32 && dt != kernels.FP16 && !d.Spec().Kind.Facts().Host
}

type operation struct {
	name     string
	required bool // of every device
	// bind sets the operands and their expected values and binds the launch.
	bind func(d OperationsDevice, m *memory) (kernels.Launch, error)
	// launches is the number of runs in a block; 0 for one.
	launches int
}

type memory struct {
	device   kernels.Device
	operands []*operand
}

// operand is part of a buffer, with its expected content.
type operand struct {
	kernels.Operand
	name   string
	dtype  kernels.DType
	n      int
	before []byte // content of the whole buffer
	// want are the values after the launch, NaN if not written, nil if unchanged.
	want []float64
	// bound is the allowed error of want[i]; nil for none. A negative bound allows anything.
	bound func(i int) float64
}

// The elements around an operand: aligned like the memory, which every device must accept, and unaligned.
const (
	alignedGuard = 64
	looseGuard   = 67
)

// poison fills memory that must not be read or written.
func poison(d kernels.DType) float64 {
	if d == kernels.INT32 {
		return -1_234_567
	}
	return math.NaN()
}

// put stores values among poison, guard elements from the start of a new buffer.
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

func (m *memory) blank(name string, d kernels.DType, guard, n int) (*operand, error) {
	v := make([]float64, n)
	for i := range v {
		v[i] = poison(d)
	}
	return m.put(name, d, guard, v)
}

func (o *operand) values() []float64 {
	v := make([]float64, o.n)
	if err := kernels.Decode(o.dtype, o.before[o.Offset*o.dtype.Size():], v); err != nil {
		panic(err)
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

// run binds the operation, executes it twice on the same operands and checks both results.
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

type stranger struct{ kernels.Buffer }

func (stranger) Bytes() int64 { return 1 << 40 }

// wrong is a change that makes a description invalid.
type wrong[T any] struct {
	name   string // name that the error must contain
	change func(*T)
}

// wrongOperands puts each operand of a description on another device, before its buffer, past its end, and one element past
// it: put leaves alignedGuard after the last.
func wrongOperands[T any](good T) (out []wrong[T]) {
	for i, name := range operandsOf(reflect.ValueOf(&good).Elem()) {
		for _, change := range []func(o *kernels.Operand){
			func(o *kernels.Operand) { o.Buffer = stranger{} }, func(o *kernels.Operand) { o.Offset = -1 },
			func(o *kernels.Operand) { o.Offset += 1 << 30 }, func(o *kernels.Operand) { o.Offset += alignedGuard + 1 },
		} {
			out = append(out, wrong[T]{name.name, func(x *T) { change(operandsOf(reflect.ValueOf(x).Elem())[i].at) }})
		}
	}
	return out
}

type namedOperand struct {
	name string
	at   *kernels.Operand
}

// operandsOf lists the operands that a description has, and those within its fields.
func operandsOf(v reflect.Value) (out []namedOperand) {
	for i := range v.NumField() {
		field := v.Field(i)
		if o, ok := field.Addr().Interface().(*kernels.Operand); !ok && field.Kind() == reflect.Struct {
			out = append(out, operandsOf(field)...)
		} else if ok && o.Buffer != nil {
			out = append(out, namedOperand{v.Type().Field(i).Name, o})
		}
	}
	return out
}

// launched binds a description, after checks that changes that make it invalid are refused by name: operands, sizes of 0 (the
// names of their fields), int8, and further ones.
func launched[T any](good T, bind func(T) (kernels.Launch, error), sizes string, further ...wrong[T]) (kernels.Launch, error) {
	launch, err := bind(good)
	if err != nil {
		return nil, err
	}
	field := func(x *T, name string) reflect.Value { return reflect.ValueOf(x).Elem().FieldByName(name) }
	changes := append(wrongOperands(good), wrong[T]{"int8", func(x *T) { field(x, "DType").SetString(string(kernels.INT8)) }})
	for _, name := range strings.Fields(sizes) {
		changes = append(changes, wrong[T]{name, func(x *T) { field(x, name).SetInt(0) }})
	}
	for i, w := range append(changes, further...) {
		bad := good
		w.change(&bad)
		l, err := bind(bad)
		if err == nil || l != nil {
			return nil, fmt.Errorf("%s that can't be (%d) was taken", w.name, i)
		}
		if !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(w.name)) {
			return nil, fmt.Errorf("%s that can't be (%d): the error does not name it: %w", w.name, i, err)
		}
	}
	return launch, nil
}

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

// u32 is the unit roundoff of fp32 arithmetic.
var u32 = kernels.FP32.UnitRoundoff()
