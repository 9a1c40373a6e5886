package mistral

import (
	"context"
	"errors"
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/mistral/checkpoint"
)

// Options say how a checkpoint is loaded.
type Options struct {
	// DType is that of weights and activations: fp32, fp16 or bf16; empty for that in
	// which the checkpoint says it was stored.
	DType kernels.DType
	// Weights is how the weights of products are held, but for those of the tied embedding and
	// for an lm_head that is stored as numbers: nil for as they are stored where the kernel
	// takes them so, else plain, which is also the zero value. Weights that are stored as
	// integers keep their codes; others are rounded to nearest.
	Weights *kernels.Quantisation
	// Kernel is the product's kernel by its name; empty for "auto".
	Kernel string
	// KeepRaw keeps the weights as they were stored beside what a kernel made of them,
	// so that [Model.Use] may change the kernel.
	KeepRaw bool
	// Session is the largest for which the device's memory must suffice beside the
	// weights; none when it has no Positions.
	Session SessionOptions
	// Progress is told how many bytes of how many are on the device; may be nil.
	Progress func(done, total int64)
}

// Model is a checkpoint's weights on a device.
type Model struct {
	dev    Backend
	config checkpoint.Config
	dtype  kernels.DType
	kernel string

	embedding kernels.Buffer // [Vocab, Hidden]
	layers    []layer
	norm      kernels.Buffer // [Hidden]
	head      projection
	buffers   []kernels.Buffer // all that are held, but for projections'
}

// layer is one block of the decoder.
type layer struct {
	attentionNorm, gateNorm kernels.Buffer // [Hidden]
	qkv, o, gateUp, down    projection
}

// TooLarge is the error of a model that does not fit into a device.
type TooLarge struct {
	Device string
	// Needs and Has are bytes: of weights, and of the memory that is free for them.
	Needs, Has int64
	// Of says what needs them.
	Of string
}

func (e *TooLarge) Error() string {
	return fmt.Sprintf("%s needs %d bytes (%.1f GiB), %s has %d (%.1f GiB) free", e.Of, e.Needs, gib(e.Needs), e.Device, e.Has, gib(e.Has))
}

func gib(bytes int64) float64 { return float64(bytes) / (1 << 30) }

// Load brings the weights of a checkpoint onto a device. The checkpoint may be closed
// after that. Errors are a [*TooLarge], before anything is loaded, those of the
// checkpoint's tensors, and those of the device.
func Load(ctx context.Context, d kernels.Device, c *checkpoint.Checkpoint, o Options) (m *Model, err error) {
	dev, err := backendOf(d)
	if err != nil {
		return nil, err
	}
	m = &Model{dev: dev, config: c.Config(), dtype: o.DType, kernel: o.Kernel}
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
	l := loader{ctx: ctx, m: m, from: c, options: o}
	if err := l.chooseFormats(); err != nil {
		return nil, err
	}
	if err := m.supported(m.kernel); err != nil {
		return nil, err
	}
	l.total = m.Bytes()
	needs, of := l.total, fmt.Sprintf("the model in %s", m.dtype)
	if o.KeepRaw && d.Spec().Kind.Facts().Host {
		needs *= 2 // a CPU's kernels don't read weights as they are stored
	} else if o.KeepRaw {
		for _, p := range m.projections() {
			if !p.plain() {
				needs += p.bytes(m.dtype) // nor a GPU's those that are integers
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

// supported checks that a kernel of that name is there and takes the model's products.
func (m *Model) supported(kernel string) error {
	g, err := kernels.FindGemm(m.dev, kernel)
	if err != nil {
		return err
	}
	for _, p := range m.projections() {
		if p.format != (kernels.WeightFormat{}) {
			return m.supports(g, p, 1)
		}
	}
	h := m.config.Hidden
	return g.Supports(kernels.Problem{Shape: kernels.Shape{M: 1, N: h, K: h}, DType: m.dtype, BLayout: kernels.Transposed})
}

// Use changes the kernel of the model's products. Sessions that exist keep theirs.
func (m *Model) Use(kernel string) error {
	if err := m.supported(kernel); err != nil {
		return err
	}
	m.kernel = kernel
	return nil
}

// Kernel is the name of the products' kernel.
func (m *Model) Kernel() string { return m.kernel }

// DType is the type of weights and activations.
func (m *Model) DType() kernels.DType { return m.dtype }

// Config is the model's.
func (m *Model) Config() checkpoint.Config { return m.config }

// Bytes is the size of all weights, in the model's type but for those that are held as
// integers with scales.
func (m *Model) Bytes() int64 {
	bytes := m.config.Parameters() * int64(m.dtype.Size())
	for _, p := range m.projections() {
		bytes += p.bytes(m.dtype) - p.elements()*int64(m.dtype.Size())
	}
	return bytes
}

// projections lists all weight matrices in the order in which they are used.
func (m *Model) projections() []*projection {
	var all []*projection
	for i := range m.layers {
		l := &m.layers[i]
		all = append(all, &l.qkv, &l.o, &l.gateUp, &l.down)
	}
	return append(all, &m.head)
}

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
