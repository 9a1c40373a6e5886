package simulated

import (
	"fmt"
	"slices"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// KernelConfig describes a kernel of declared cost.
type KernelConfig struct {
	Name   string
	DTypes []kernels.DType // nil supports every type
	// MaxM is the largest supported number of rows of a launch, MaxColumns of columns of softmax; 0 for no limit.
	MaxM, MaxColumns int
	// Cost of a batch is that of one product.
	Cost Cost
	// BindError and ExecuteError make tasks fail; nil means success.
	BindError    func(t kernels.Task) error
	ExecuteError func(t kernels.Task) error
	// Label returns the launch label, like a library's chosen algorithm.
	Label func(t kernels.Task) string
	// Tiling returns the launches' tiling; nil reports none.
	Tiling func(t kernels.Task) kernels.Tiling
	// Choice is the kernel's reported choice instead of one from Label and Tiling. Without all three the
	// kernel reports no choice.
	Choice func(t kernels.Task) (kernels.Choice, error)
	// Arithmetic computes real results and refuses large tasks.
	Arithmetic bool
	// Sum changes a product's sum before rounding to the output type; nil leaves it exact.
	Sum func(t kernels.Task, sum float64) float64
	// Fault changes the results of an operation that defines a reference; zero leaves them exact.
	Fault kernels.Fault
	// Process names the process that seems to compute, as in [kernels.Elsewhere].
	Process string
	// Packs makes Prepare keep a copy, as packing kernels do.
	Packs bool
	// PackTime is the virtual time of packing.
	PackTime time.Duration
	// Quantized is the cost of products with quantized weights; nil supports none.
	Quantized Cost
	// Candidates are the choices after the first, as in [kernels.Candidates]. Their names derive from this
	// one's.
	Candidates []KernelConfig
	// Algorithms can be run by attributes, as in [kernels.AlgorithmTaker]; nil supports none.
	Algorithms map[kernels.Algorithm]KernelConfig

	// truth returns a row's true time instead of Cost; subject is then the only one supported.
	truth   func(m int) *row
	subject kernels.Subject
}

// kernel returns the kernel on a device, with the optional interfaces that it declares.
func (c KernelConfig) kernel(d *Device) kernels.Kernel {
	k := &kernel{d, c}
	switch {
	case len(c.Candidates) > 0:
		return chooser{k}
	case c.Algorithms != nil:
		return taker{k}
	}
	return k
}

type kernel struct {
	device *Device
	cfg    KernelConfig
}

type (
	chooser struct{ *kernel }
	taker   struct{ *kernel }
)

var (
	_ kernels.ManyTellers    = (*kernel)(nil)
	_ kernels.Packer         = (*kernel)(nil)
	_ kernels.Elsewhere      = (*kernel)(nil)
	_ kernels.Candidates     = chooser{}
	_ kernels.AlgorithmTaker = taker{}
)

// WithAlgorithm implements [kernels.AlgorithmTaker].
func (k taker) WithAlgorithm(a kernels.Algorithm) kernels.Kernel {
	cfg, ok := k.cfg.Algorithms[a]
	return k.other(cfg, ok, kernels.AlgorithmName(k.cfg.Name, a))
}

// Candidate implements [kernels.Candidates].
func (k chooser) Candidate(n int) kernels.Kernel {
	if n > len(k.cfg.Candidates) {
		return k.other(KernelConfig{}, false, kernels.CandidateName(k.cfg.Name, n))
	}
	return k.other(k.cfg.Candidates[n-1], true, kernels.CandidateName(k.cfg.Name, n))
}

// other is a further choice of a kernel, which supports nothing unless it is declared.
func (k *kernel) other(cfg KernelConfig, declared bool, name string) kernels.Kernel {
	if !declared {
		cfg = KernelConfig{DTypes: []kernels.DType{}, Cost: k.cfg.Cost}
	}
	cfg.Name = name
	return &kernel{k.device, cfg}
}

func (k *kernel) Name() string { return k.cfg.Name }

// Process implements [kernels.Elsewhere].
func (k *kernel) Process() string { return k.cfg.Process }

func (k *kernel) Describe() string {
	if k.cfg.truth != nil {
		return "simulated kernel of known time"
	}
	return "simulated kernel of declared cost"
}

func (k *kernel) Supports(t kernels.Task) error {
	_, err := k.supported(t)
	return err
}

// mostArithmetic limits the multiplications of a computed product: each takes a nanosecond, and a sweep
// repeats it.
const mostArithmetic = 1 << 24

// supported returns the task with its defaults, or why it is refused.
func (k *kernel) supported(t kernels.Task) (kernels.Task, error) {
	no := func(format string, args ...any) (kernels.Task, error) {
		return t, t.Unsupported(k.cfg.Name, fmt.Sprintf(format, args...))
	}
	if k.cfg.truth != nil {
		asked := t.Subject
		asked.Layout = k.cfg.subject.Layout
		if asked != k.cfg.subject {
			return no("this machine knows only %v", k.cfg.subject)
		}
	}
	extras := kernels.Batches
	if k.cfg.Quantized != nil {
		extras |= kernels.QuantizedWeights | kernels.LevelWeights | kernels.ScaledWeights
	}
	t, err := t.Supported(k.cfg.Name, extras)
	if err != nil {
		return t, err
	}
	rows := t.InputElements(t.M) / max(1, t.InputElements(1)) // one in decode
	work := t.FLOPs(t.M) / 2
	switch {
	case k.cfg.DTypes != nil && !slices.Contains(k.cfg.DTypes, t.DType):
		return no("it was not declared for this simulation")
	case k.cfg.MaxM > 0 && rows > int64(k.cfg.MaxM):
		return no("M is %d, at most %d is declared for this simulation", rows, k.cfg.MaxM)
	case k.cfg.MaxColumns > 0 && t.Columns > k.cfg.MaxColumns:
		return no("%d columns, at most %d are declared for this simulation", t.Columns, k.cfg.MaxColumns)
	case k.cfg.Arithmetic && work > mostArithmetic:
		return no("the simulation computes its results for real, up to %d multiplications", mostArithmetic)
	}
	return t, nil
}

func (k *kernel) Prepare(t kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	t, err := k.supported(t)
	if err != nil {
		return nil, err
	}
	_, need, _ := t.Extents()
	b, ok := raw.(*buffer)
	if need > 0 && (!ok || b.device != k.device || b.Bytes() < need) {
		return nil, fmt.Errorf("%s: weights need a buffer of this device with %d bytes", k.cfg.Name, need)
	}
	if err := k.device.idle("prepare weights"); err != nil {
		return nil, err
	}
	w := &weights{device: k.device, raw: b, bytes: need}
	if k.cfg.Packs && !t.Quantized() {
		if err := k.device.take(need); err != nil {
			return nil, err
		}
		w.packed, w.seconds = true, k.cfg.PackTime.Seconds()
		k.device.Advance(k.cfg.PackTime)
	}
	k.device.mu.Lock()
	defer k.device.mu.Unlock()
	k.device.weights++
	w.id = k.device.weights
	return w, nil
}

// Choice implements [kernels.Kernel].
func (k *kernel) Choice(t kernels.Task) (kernels.Choice, error) {
	t, err := k.supported(t)
	switch {
	case err != nil:
		return kernels.Choice{}, err
	case k.cfg.truth != nil:
		r := k.cfg.truth(t.M)
		return kernels.Choice{Label: r.label, Tiling: r.tiling}, nil
	case k.cfg.Choice != nil:
		return k.cfg.Choice(t)
	case !t.Operation.IsProduct():
		return kernels.Choice{}, kernels.ErrUntold
	case k.cfg.Label == nil && k.cfg.Tiling == nil:
		return kernels.Choice{}, fmt.Errorf("kernel %s does not report its choice", k.cfg.Name)
	}
	var c kernels.Choice
	c.Label, c.Tiling = k.choice(t)
	return c, nil
}

func (k *kernel) choice(t kernels.Task) (label string, tiling kernels.Tiling) {
	if k.cfg.Label != nil {
		label = k.cfg.Label(t)
	}
	if k.cfg.Tiling != nil {
		tiling = k.cfg.Tiling(t)
	}
	return label, tiling
}

// Tellers implements [kernels.ManyTellers]. The config's functions must allow concurrent calls. A card draws its rows one by one.
func (k *kernel) Tellers(n int) ([]kernels.Kernel, error) {
	if k.cfg.truth != nil {
		n = 1
	}
	return slices.Repeat([]kernels.Kernel{k}, n), nil
}

// Packs implements [kernels.Packer].
func (k *kernel) Packs(kernels.Task) bool { return k.cfg.Packs }

func (k *kernel) Bind(
	t kernels.Task, in kernels.Operand, w kernels.Weights, out kernels.Operand, _ ...kernels.Operand,
) (kernels.Launch, error) {
	t, err := k.supported(t)
	if err != nil {
		return nil, err
	}
	own, ok := w.(*weights)
	reads, need, writes := t.Extents()
	switch {
	case need == 0:
		own = &weights{device: k.device}
	case !ok || own.device != k.device || own.bytes < need:
		return nil, fmt.Errorf("%s: weights were prepared by another kernel, or for less", k.cfg.Name)
	}
	for _, o := range []struct {
		name     string
		op       kernels.Operand
		elements int64
		size     int
	}{{"In", in, reads, t.DType.Size()}, {"Out", out, writes, t.OutputType().Size()}} {
		b, ok := o.op.Buffer.(*buffer)
		if !ok || b.device != k.device || o.op.Offset < 0 {
			return nil, fmt.Errorf("%s: %v: %s has no buffer of this device or a negative offset", k.cfg.Name, t, o.name)
		}
		if need := (int64(o.op.Offset) + o.elements) * int64(o.size); need > b.Bytes() {
			return nil, fmt.Errorf("%s: %v: %s needs %d bytes, its buffer has %d", k.cfg.Name, t, o.name, need, b.Bytes())
		}
	}
	if k.cfg.BindError != nil {
		if err := k.cfg.BindError(t); err != nil {
			return nil, err
		}
	}
	l := &launch{device: k.device, kernel: k, weights: own, in: in, out: out,
		info: LaunchInfo{Kernel: k.cfg.Name, Task: t, Weights: own.id, AOffset: in.Offset, COffset: out.Offset}}
	if k.cfg.truth != nil {
		l.row = k.cfg.truth(t.M)
		l.placed = k.device.card.placed(l.row, in, out)
		return l, nil
	}
	l.row = &row{}
	l.row.label, l.row.tiling = k.choice(t)
	return l, nil
}

type weights struct {
	device  *Device
	raw     *buffer // nil if nothing is stored
	bytes   int64
	packed  bool
	seconds float64 // of packing
	id      int
}

func (w *weights) Packing() (seconds float64, ok bool) { return w.seconds, w.packed }

// Detached implements [kernels.Detached].
func (w *weights) Detached() bool { return w.raw == nil }

func (w *weights) Bytes() int64 { return w.bytes }

func (w *weights) Close() error {
	if w.packed {
		w.device.release(w.bytes)
		w.packed = false
	}
	return w.device.idle("free weights")
}
