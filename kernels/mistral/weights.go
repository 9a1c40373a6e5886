package mistral

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/mistral/checkpoint"
)

// FormatError is the error of weights that can't have the requested format.
type FormatError struct {
	Format kernels.WeightFormat // the requested quantization
	Of     string               // the weights, named as in the checkpoint or by [Part]
	Err    error
}

func (e *FormatError) Error() string { return fmt.Sprintf("weights %v: %s: %v", e.Format, e.Of, e.Err) }

func (e *FormatError) Unwrap() error { return e.Err }

// chooseFormats sets each projection's weight format: the options', or else the checkpoint's if the kernel
// supports it.
func (l *loader) chooseFormats() error {
	for _, p := range l.m.projections() {
		f, err := l.chooseFormat(p)
		if err != nil {
			return err
		}
		p.format = f
	}
	return nil
}

func (l *loader) packed(p *projection) (n int) {
	if l.from == nil {
		return 0
	}
	for _, t := range p.tensors {
		if l.from.Packed(t.name) {
			n++
		}
	}
	return n
}

func (l *loader) chooseFormat(p *projection) (kernels.WeightFormat, error) {
	plain := kernels.WeightFormat{}
	want, packed := l.options.Weights, l.packed(p)
	switch {
	case p.shared, p.part == PartRouter, want != nil && want.Bits == 0, packed < len(p.tensors) && (want == nil || p.part == PartHead):
		return plain, nil
	}
	q := kernels.WeightFormat{}
	if want != nil {
		q = *want
	}
	scale := l.m.dtype
	if packed > 0 {
		stored := l.m.config.Quantization
		if want != nil && (want.Bits != stored.Bits || want.GroupOf(p.k) != (kernels.WeightFormat{GroupK: stored.Group}).GroupOf(p.k)) {
			return plain, &FormatError{*want, string(p.part), fmt.Errorf("the checkpoint has them as %v",
				kernels.IntegerWeights(stored.Bits, stored.Group, stored.Zeros))}
		}
		q = kernels.IntegerWeights(stored.Bits, stored.Group, stored.Zeros || q.ZeroPoint != "")
		scale = l.from.ScaleDType(p.tensors[0].name)
	}
	// Scales keep the stored type if the kernel supports it; otherwise they are rounded to the activations'
	// type.
	var reason error
	for _, s := range []kernels.DType{scale, l.m.dtype, kernels.FP16} {
		f, err := q.For(s, p.k)
		if err == nil {
			err = l.m.takes(p, f)
		} else if s == kernels.FP32 {
			continue // scales have 16 bits
		} else {
			err = &FormatError{q, string(p.part), err}
		}
		if err == nil {
			return f, nil
		}
		if reason == nil {
			reason = err
		}
	}
	if want == nil {
		return plain, nil
	}
	return plain, reason
}

func (m *Model) takes(p *projection, f kernels.WeightFormat) error {
	g, err := kernels.FindProduct(m.dev, m.kernel)
	if err != nil {
		return err
	}
	as := *p
	as.format = f
	return g.Supports(as.task(m.dtype, 1))
}

// quantized combines a projection's tensors into one matrix of its format: stored integers keep their codes,
// others round to nearest. The format has no zero points if all are in the middle.
func (l *loader) quantized(p *projection) (*kernels.QuantizedMatrix, error) {
	m := kernels.NewQuantizedMatrix(p.format, p.n, p.k)
	row, middle := 0, true
	for _, t := range p.tensors {
		q, err := l.from.Quantized(t.name, t.rows, p.k)
		if err != nil {
			return nil, err
		}
		if q == nil {
			middle = false
			err = l.roundRows(m, row, t)
		} else {
			middle = middle && q.Zeros == nil
			err = takeCodes(m, row, q)
		}
		if err != nil {
			return nil, err
		}
		row += t.rows
	}
	if middle {
		m.Zeros, m.Format.ZeroPoint, m.Format.ZeroPointBits = nil, "", 0
	}
	return m, nil
}

// roundedWeights is the number of weights that a goroutine quantizes at a time.
const roundedWeights = 1 << 18

// roundRows quantizes an unquantized tensor into rows from row on, on all processors.
func (l *loader) roundRows(m *kernels.QuantizedMatrix, row int, t rowsOf) error {
	from, err := l.from.Tensor(t.name, t.rows, m.K)
	if err != nil {
		return err
	}
	size := from.DType.Size()
	step := max(1, roundedWeights/m.K)
	work := make(chan int)
	var failed error
	var once sync.Once
	var wait sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), (t.rows+step-1)/step) {
		wait.Go(func() {
			values := make([]float64, step*m.K)
			for first := range work {
				rows := min(step, t.rows-first)
				part := values[:rows*m.K]
				err := kernels.Decode(from.DType, from.Data[first*m.K*size:(first+rows)*m.K*size], part)
				if err == nil {
					err = m.QuantizeRows(row+first, part)
				}
				if err != nil {
					once.Do(func() {
						failed = &checkpoint.Error{Path: l.from.Dir(), Tensor: t.name, Reason: "can't be quantized", Err: err}
					})
				}
			}
		})
	}
	for first := 0; first < t.rows; first += step {
		if l.ctx.Err() != nil {
			break
		}
		work <- first
	}
	close(work)
	wait.Wait()
	if err := l.ctx.Err(); err != nil {
		return err
	}
	return failed
}

func takeCodes(m *kernels.QuantizedMatrix, row int, q *checkpoint.Quantized) error {
	copy(m.Codes[row*m.K:], q.Values)
	first := row * q.Groups()
	scales, err := q.ScalesAs(m.Format.Scale)
	if err != nil {
		return err
	}
	copy(m.Scales[first:], scales)
	for i := range m.Zeros[min(first, len(m.Zeros)):min(first+len(scales), len(m.Zeros))] {
		zero := 1 << (q.Bits - 1)
		if q.Zeros != nil {
			zero = int(q.Zeros[i])
		}
		m.Zeros[first+i] = uint8(zero)
	}
	return nil
}

// Weights returns the quantization of the first quantized product; lm_head's may differ.
func (m *Model) Weights() kernels.WeightFormat {
	p := m.firstOfIntegers()
	if p == nil {
		return kernels.WeightFormat{}
	}
	q, _ := p.format.Requested(p.k) // takes accepted the format
	return q
}

// firstOfIntegers returns the first quantized projection, nil if none is.
func (m *Model) firstOfIntegers() *projection {
	for _, p := range m.projections() {
		if !p.plain() {
			return p
		}
	}
	return nil
}
