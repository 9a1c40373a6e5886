package mistral

import (
	"context"
	"errors"
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/mistral/checkpoint"
)

// Options describe how a checkpoint is loaded.
type Options struct {
	// DType is the type of weights and activations: fp32, fp16 or bf16; empty for the checkpoint's.
	DType kernels.DType
	// Weights is the quantization of product weights, except a tied embedding and an unquantized lm_head. nil
	// keeps the stored format if the kernel supports it, otherwise unquantized, which is also the zero value.
	// Stored integers keep their codes; other weights round to nearest.
	Weights *kernels.WeightFormat
	// Kernel is the product kernel's name; empty for "auto".
	Kernel string
	// KeepRaw keeps the stored weights in addition to the kernel's copy, so that [Model.Use] can change the
	// kernel.
	KeepRaw bool
	// Session is the largest session that must fit into device memory with the weights; none if it has no
	// Positions.
	Session SessionOptions
	// Progress receives the bytes uploaded and the total; may be nil.
	Progress func(done, total int64)
}

type Model struct {
	dev    Backend
	config checkpoint.Config
	dtype  kernels.DType
	kernel string

	embedding kernels.Buffer // [Vocab, Hidden]
	layers    []layer
	norm      kernels.Buffer // [Hidden]
	head      projection
	all       []*projection
	buffers   []kernels.Buffer // all buffers but the projections'
}

type layer struct {
	attentionNorm, gateNorm kernels.Buffer // [Hidden]
	queryNorm, keyNorm      kernels.Buffer // [Dim], nil if heads are not normalized
	qkv, o                  projection
	gatedUnit               // unless there are experts
	router                  projection
	experts                 []gatedUnit
}

type gatedUnit struct{ gateUp, down projection }

// projections lists the layer's in order.
func (l *layer) projections() []*projection {
	all := []*projection{&l.qkv, &l.o}
	if len(l.experts) == 0 {
		return append(all, &l.gateUp, &l.down)
	}
	all = append(all, &l.router)
	for i := range l.experts {
		all = append(all, &l.experts[i].gateUp, &l.experts[i].down)
	}
	return all
}

// TooLarge is the error of a model that does not fit into a device's memory.
type TooLarge struct {
	Device string
	// Needs is the bytes needed, Has the bytes free.
	Needs, Has int64
	// Of names what needs them.
	Of string
}

func (e *TooLarge) Error() string {
	return fmt.Sprintf("%s needs %d bytes (%.1f GiB), %s has %d (%.1f GiB) free", e.Of, e.Needs, gib(e.Needs), e.Device, e.Has, gib(e.Has))
}

func gib(bytes int64) float64 { return float64(bytes) / (1 << 30) }

// Load uploads a checkpoint's weights to a device. The checkpoint may be closed afterwards. It returns a
// [*TooLarge] before loading anything, or errors of the checkpoint's tensors or the device.
func Load(ctx context.Context, d kernels.Device, c *checkpoint.Checkpoint, o Options) (m *Model, err error) {
	return load(d, c.Config(), &loader{ctx: ctx, from: c, options: o})
}

func load(d kernels.Device, c checkpoint.Config, l *loader) (m *Model, err error) {
	o := l.options
	dev, err := backendOf(d)
	if err != nil {
		return nil, err
	}
	m = &Model{dev: dev, config: c, dtype: o.DType, kernel: o.Kernel}
	if m.dtype == "" {
		m.dtype = m.config.DType
	}
	if m.kernel == "" {
		m.kernel = "auto"
	}
	switch m.dtype {
	case kernels.FP32, kernels.FP16, kernels.BF16:
	default:
		return nil, fmt.Errorf("dtype %q: a decoder's activations are fp32, fp16 or bf16", m.dtype)
	}
	m.describe()
	l.m = m
	if err := l.chooseFormats(); err != nil {
		return nil, err
	}
	if err := m.supported(m.kernel); err != nil {
		return nil, err
	}
	l.total = m.Bytes()
	needs, of := l.total, fmt.Sprintf("the model in %s", m.dtype)
	if o.KeepRaw && d.Spec().Kind.Facts().Host {
		needs *= 2 // CPU kernels repack weights, so both copies exist
	} else if o.KeepRaw {
		for _, p := range m.projections() {
			if !p.plain() {
				needs += p.bytes(m.dtype) // so do GPU kernels of quantized weights
			}
		}
	}
	if o.Session.Positions > 0 {
		needs += SessionBytes(m.config, m.dtype, o.Session)
		of += fmt.Sprintf(" with a session of %d tokens", o.Session.Positions)
	}
	if has, _ := kernels.FreeMemory(d); has > 0 && needs > has {
		return nil, &TooLarge{Device: d.Spec().ID, Needs: needs, Has: has, Of: of}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
			m = nil
		}
	}()
	return m, l.load()
}

func (m *Model) supported(kernel string) error {
	g, err := kernels.FindProduct(m.dev, kernel)
	if err != nil {
		return err
	}
	for _, p := range m.projections() {
		if p.format != (kernels.WeightFormat{}) {
			return g.Supports(p.task(m.dtype, 1))
		}
	}
	h := m.config.Hidden
	return g.Supports(kernels.Task{Subject: kernels.Linear(m.dtype, h, h), M: 1})
}

// Use changes the kernel of the model's products. Existing sessions keep theirs.
func (m *Model) Use(kernel string) error {
	if err := m.supported(kernel); err != nil {
		return err
	}
	m.kernel = kernel
	return nil
}

// Kernel returns the name of the product kernel.
func (m *Model) Kernel() string { return m.kernel }

// DType returns the type of weights and activations.
func (m *Model) DType() kernels.DType { return m.dtype }

// Config returns the model's configuration.
func (m *Model) Config() checkpoint.Config { return m.config }

// Bytes returns the size of all weights, in the model's type except for quantized ones.
func (m *Model) Bytes() int64 {
	bytes := m.config.Parameters() * int64(m.dtype.Size())
	for _, p := range m.projections() {
		bytes += p.bytes(m.dtype) - p.elements()*int64(m.dtype.Size())
	}
	return bytes
}

// projections lists all of the model, which [Model.describe] made.
func (m *Model) projections() []*projection { return m.all }

// Close releases the weights.
func (m *Model) Close() error {
	var errs []error
	for _, p := range m.projections() {
		errs = append(errs, p.close())
	}
	for _, b := range m.buffers {
		errs = append(errs, b.Close())
	}
	m.buffers = nil
	return errors.Join(errs...)
}
