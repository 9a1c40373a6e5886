package simulated

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/lazymemory"
)

type launch struct {
	device  *Device
	kernel  *kernel // nil if a copy
	row     *row    // of a machine, or with a declared kernel's label and tiling
	placed  float64 // effect of the operands' addresses on log time
	move    func() error
	weights *weights
	in, out kernels.Operand
	info    LaunchInfo
}

func (l *launch) Label() string { return l.row.label }

func (l *launch) Tiling() kernels.Tiling { return l.row.tiling }

// seconds is the true time at the nominal clock.
func (l *launch) seconds() float64 {
	switch t := l.info.Task; {
	case l.kernel == nil || l.kernel.cfg.truth != nil:
		return l.row.seconds
	case t.Quantized():
		return l.kernel.cfg.Quantized(t)
	default:
		return float64(max(1, t.Products)) * l.kernel.cfg.Cost(t)
	}
}

func (l *launch) watts() float64 {
	if g := l.device.cfg.Governor; g != nil {
		return g.Watts(l.info.Task)
	}
	return l.row.watts
}

// run computes, where a kernel does, and fails on purpose.
func (l *launch) run() error {
	if l.kernel == nil {
		return l.move()
	}
	if f := l.kernel.cfg.ExecuteError; f != nil {
		if err := f(l.info.Task); err != nil {
			return err
		}
	}
	if !l.kernel.cfg.Arithmetic {
		return nil
	}
	if reference := l.info.Operation.Definition().Reference; reference != nil {
		return l.compute(reference)
	}
	for product := range max(1, l.info.Products) {
		if err := l.multiply(product); err != nil {
			return err
		}
	}
	return nil
}

func (l *launch) multiply(product int) error {
	t := l.info.Task
	rows, cols := t.K, t.N
	if t.Layout == kernels.Transposed {
		rows, cols = t.N, t.K
	}
	from := func(o kernels.Operand, stride int) kernels.Operand {
		return kernels.Operand{Buffer: o.Buffer, Offset: o.Offset + product*stride}
	}
	a, err := matrix(from(l.in, t.StrideA), t.M, t.K, t.LDA, t.DType)
	if err != nil {
		return err
	}
	if err := l.scale(a); err != nil {
		return err
	}
	b, err := l.weightsOf(from(kernels.Operand{Buffer: l.weights.raw}, t.StrideB), rows, cols)
	if err != nil {
		return err
	}
	c := from(l.out, t.StrideC)
	out := t.DType.Output()
	row, encoded := make([]float64, t.N), make([]byte, t.N*out.Size())
	for i := range t.M {
		for j := range t.N {
			var sum float64
			for k := range t.K {
				if t.Layout == kernels.Transposed {
					sum += a[i*t.K+k] * b[j*cols+k]
				} else {
					sum += a[i*t.K+k] * b[k*cols+j]
				}
			}
			if f := l.kernel.cfg.Sum; f != nil {
				sum = f(t, sum)
			}
			row[j] = sum
		}
		if err := kernels.Encode(out, row, encoded); err != nil {
			return err
		}
		if err := c.Buffer.Upload(int64(c.Offset+i*t.LDC)*int64(out.Size()), encoded); err != nil {
			return err
		}
	}
	return nil
}

// scale multiplies A by the scales of its activations, if any.
func (l *launch) scale(a []float64) error {
	t := l.info.Task
	scales, err := kernels.ReadScales(t, l.in)
	if len(scales) == 0 || err != nil {
		return err
	}
	groups := len(scales) / t.M
	for i := range a {
		a[i] *= scales[i/t.K*groups+i%t.K/t.Weights.GroupK]
	}
	return nil
}

// weightsOf reads one product's weights as they are stored, with quantized ones as values.
func (l *launch) weightsOf(raw kernels.Operand, rows, cols int) ([]float64, error) {
	t := l.info.Task
	if !t.Quantized() {
		return matrix(raw, rows, cols, t.LDB, t.DType)
	}
	all := make([]int, t.N)
	for i := range all {
		all[i] = i
	}
	columns, err := kernels.WeightColumns(raw.Buffer, t.Subject, all)
	return slices.Concat(columns...), err
}

// compute writes the results of an operation's reference.
func (l *launch) compute(reference func(t kernels.Task, in, stored []float64) (want, bound []float64)) error {
	t := l.info.Task
	var raw kernels.Buffer
	if l.weights.raw != nil {
		raw = l.weights.raw
	}
	in, stored, err := kernels.ReadOperands(t, l.in, raw)
	if err != nil {
		return err
	}
	out, _ := reference(t, in, stored)
	out = l.kernel.cfg.Fault.Wrong(t, in, stored, out)
	size := t.OutputType().Size()
	encoded := make([]byte, len(out)*size)
	if err := kernels.Encode(t.OutputType(), out, encoded); err != nil {
		return err
	}
	return l.out.Buffer.Upload(int64(l.out.Offset*size), encoded)
}

// matrix reads rows×cols values with leading dimension ld as contiguous float64.
func matrix(o kernels.Operand, rows, cols, ld int, d kernels.DType) ([]float64, error) {
	raw, out := make([]byte, cols*d.Size()), make([]float64, rows*cols)
	for r := range rows {
		if err := o.Buffer.Download(int64(o.Offset+r*ld)*int64(d.Size()), raw); err != nil {
			return nil, err
		}
		if err := kernels.Decode(d, raw, out[r*cols:(r+1)*cols]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// BindCopy implements [kernels.LaunchCopier] with the time of the copy bandwidth. Bytes move only on devices
// that compute.
func (d *Device) BindCopy(to kernels.Buffer, toOffset int64, from kernels.Buffer, fromOffset, bytes int64) (kernels.Launch, error) {
	target, toOK := to.(*buffer)
	source, fromOK := from.(*buffer)
	if !toOK || !fromOK {
		return nil, fmt.Errorf("%s: a copy between buffers of another device", d.cfg.ID)
	}
	if err := errors.Join(target.Within(toOffset, bytes), source.Within(fromOffset, bytes)); err != nil {
		return nil, fmt.Errorf("%s: copy: %w", d.cfg.ID, err)
	}
	if to == from && toOffset < fromOffset+bytes && fromOffset < toOffset+bytes {
		return nil, fmt.Errorf("%s: copy %d bytes from byte %d to byte %d of one buffer: they overlap",
			d.cfg.ID, bytes, fromOffset, toOffset)
	}
	move := func() error {
		if d.TimesOnly() {
			return nil
		}
		content := make([]byte, bytes)
		if err := source.Download(fromOffset, content); err != nil {
			return err
		}
		return target.Upload(toOffset, content)
	}
	l := &launch{device: d, move: move, info: LaunchInfo{Kernel: copyKernel, Copied: bytes}}
	if d.card != nil {
		l.row = d.card.copying(bytes)
	} else {
		l.row = &row{kernel: copyKernel, label: copyKernel, seconds: 2 * float64(bytes) / d.cfg.Ceilings.CopyBandwidth}
	}
	return l, nil
}

// copyKernel is not visible to a sweep.
const copyKernel = "copy"

// buffer is memory. Its content is made when it is read.
type buffer struct {
	lazymemory.Memory
	device *Device
	place  uint64
}

func (b *buffer) Fill(dist kernels.Distribution, d kernels.DType, n int64, seed uint64) error {
	if err := b.device.idle("fill"); err != nil {
		return err
	}
	if err := b.CheckFill(d, n); err != nil {
		return err
	}
	return b.FillWith(func(dst []byte) error {
		rng := rand.New(rand.NewPCG(seed, 0))
		v := make([]float64, n)
		for i := range v {
			switch {
			case dist == kernels.Integers:
				v[i] = float64(rng.IntN(9) - 4)
			case dist == kernels.Zeros:
			case d == kernels.INT8:
				v[i] = rng.NormFloat64() * 32
			default:
				v[i] = rng.NormFloat64()
			}
		}
		return kernels.Encode(d, v, dst[:n*int64(d.Size())])
	})
}

func (b *buffer) Close() error {
	if err := b.Memory.Close(); err != nil {
		return err
	}
	b.device.release(b.Bytes())
	return b.device.idle("free memory")
}
