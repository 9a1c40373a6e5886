//go:build cuda

package quantised

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// Kernel is a kernel for quantized weights on one device; it rejects plain weights.
type Kernel struct {
	integers
	describe string
}

// Auto is the ladder's auto kernel, for plain and for quantized weights.
type Auto struct {
	*gemm.Kernel
	integers
}

// Serial is auto with launches that wait for the end of the previous one, as in an engine that runs other
// kernels in between.
type Serial struct{ *Auto }

type integers struct {
	dev    *driver.Device
	kernel string
	among  []Family
	picked planning.Kept[Problem, picked]
}

type picked struct {
	best Family
	plan gemm.Plan
	ok   bool
}

// NewKernel makes a kernel of one family on a device.
func NewKernel(d *driver.Device, f Family) *Kernel {
	return &Kernel{integers{dev: d, kernel: f.Name(), among: []Family{f}}, f.Describe(d.Arch())}
}

// Ladder lists a device's kernels that support quantized weights. auto, the first of gemms, stays first; the
// others follow, and auto-serial if launches overlap on the GPU. Kernels that don't run there are missing.
func Ladder(d *driver.Device, gemms []kernels.Kernel) (all []kernels.Kernel, missing []kernels.Missing) {
	var there []Family
	for _, f := range Families {
		if reason := f.Supports(d.Arch(), f.decoding()); reason != "" {
			missing = append(missing, kernels.Missing{Name: f.Name(), Reason: reason})
			continue
		}
		there = append(there, f)
	}
	all = append(all, gemms...)
	for i, g := range all {
		if auto, ok := g.(*gemm.Kernel); ok && auto.Name() == "auto" && len(there) > 0 {
			both := &Auto{auto, integers{dev: d, kernel: auto.Name(), among: there}}
			all[i] = both
			if d.Arch().Overlaps() {
				all = append(all, Serial{both})
			}
		}
	}
	for _, f := range there {
		all = append(all, NewKernel(d, f))
	}
	return all, missing
}

// Name returns the kernel's name for selection.
func (Serial) Name() string { return "auto-serial" }

// Describe returns a one-line description.
func (Serial) Describe() string {
	return "auto without launch overlap: each launch waits for the end of the previous one"
}

// Bind plans the product like auto.
func (k Serial) Bind(t kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand,
	_ ...kernels.Operand) (kernels.Launch, error) {
	l, err := k.Auto.Bind(t, a, w, c)
	if err != nil {
		return nil, err
	}
	l.(*driver.Launch).Serialize()
	return l, nil
}

// Name implements [planning.Family].
func (k *Kernel) Name() string { return k.kernel }

// Name is "auto".
func (k *Auto) Name() string { return k.Kernel.Name() }

// Describe implements [planning.Family].
func (k *Kernel) Describe() string { return k.describe }

// Supports rejects plain weights.
func (k *Kernel) Supports(t kernels.Task) error {
	if !t.Quantized() {
		return t.Unsupported(k.kernel, "its weights are integers with scales, as --weights int4:128 makes them, not plain")
	}
	return k.supports(t)
}

// Prepare packs the weights into records.
func (k *Kernel) Prepare(t kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	if err := k.Supports(t); err != nil {
		return nil, err
	}
	return k.prepare(t, raw)
}

// Bind plans the product for its operands' addresses and alignment.
func (k *Kernel) Bind(t kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand,
	_ ...kernels.Operand) (kernels.Launch, error) {
	if err := k.Supports(t); err != nil {
		return nil, err
	}
	return k.join(t, a, w, c)
}

// Supports asks the families of the weights' form.
func (k *Auto) Supports(t kernels.Task) error {
	if t.Quantized() {
		return k.supports(t)
	}
	return k.Kernel.Supports(t)
}

// Prepare packs B, or integers into records.
func (k *Auto) Prepare(t kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	if t.Quantized() {
		return k.prepare(t, raw)
	}
	return k.Kernel.Prepare(t, raw)
}

// Bind plans the product for its operands' addresses and alignment.
func (k *Auto) Bind(t kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand, _ ...kernels.Operand) (kernels.Launch, error) {
	if t.Quantized() {
		return k.join(t, a, w, c)
	}
	return k.Kernel.Bind(t, a, w, c)
}

// supports asks the families.
func (k *integers) supports(t kernels.Task) error {
	q, err := t.Product(k.kernel, kernels.QuantizedWeights)
	if err != nil {
		return err
	}
	p := Problem{Task: q}
	for _, f := range k.among {
		if f.Supports(k.dev.Arch(), p) == "" {
			return nil
		}
	}
	return t.Unsupported(k.kernel, planning.Refusals(k.among, k.dev.Arch(), p))
}

type records struct {
	dev     *driver.Device
	problem kernels.Task // normalized; M does not affect the form
	buffer  *driver.Buffer
	seconds float64
}

// Bytes returns the bytes of B that a launch reads.
func (w *records) Bytes() int64 { return w.buffer.Bytes() }

// Close frees the records.
func (w *records) Close() error { return w.buffer.Close() }

// Detached implements [kernels.Detached]: the raw weights are no longer read.
func (w *records) Detached() bool { return true }

// Packing implements [kernels.Packed].
func (w *records) Packing() (seconds float64, ok bool) { return w.seconds, true }

func (k *integers) prepare(q kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	if err := k.supports(q); err != nil {
		return nil, err
	}
	q, err := q.Normalized()
	if err != nil {
		return nil, err
	}
	buffer, seconds, err := k.dev.Form(q, raw, support.RecordsBytes(q), support.RecordsCall)
	if err != nil {
		return nil, err
	}
	return &records{dev: k.dev, problem: q, buffer: buffer, seconds: seconds}, nil
}

func (k *integers) join(q kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	if err := k.supports(q); err != nil {
		return nil, err
	}
	q, err := q.Normalized()
	if err != nil {
		return nil, err
	}
	l, err := k.bind(q, a, w, c)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", q, err)
	}
	return l, nil
}

func (k *integers) bind(q kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand) (*driver.Launch, error) {
	d := k.dev
	packed, ok := w.(*records)
	switch {
	case !ok || packed == nil:
		return nil, fmt.Errorf("weights are a %T, not packed by kernel %s", w, k.kernel)
	case packed.dev != d:
		return nil, fmt.Errorf("weights belong to %s, not to %s", packed.dev.Spec().ID, d.Spec().ID)
	case packed.buffer.Address == 0:
		return nil, fmt.Errorf("weights are closed")
	case packed.problem.N != q.N || packed.problem.K != q.K || packed.problem.Weights != q.Weights:
		return nil, fmt.Errorf("weights were packed for %v", packed.problem)
	}
	at := gemm.Addresses{B: packed.buffer.Address}
	var err error
	if at.A, err = d.Matrix("A", a, q.M, q.K, q.LDA, q.DType); err != nil {
		return nil, err
	}
	if at.C, err = d.Matrix("C", c, q.M, q.N, q.LDC, q.DType); err != nil {
		return nil, err
	}
	size := int64(q.DType.Size())
	aligned := gemm.Alignment{A: planning.AlignmentOf(at.A, int64(q.LDA)*size), C: planning.AlignmentOf(at.C, int64(q.LDC)*size)}
	choice := k.pick(Problem{Task: q, Aligned: aligned})
	if !choice.ok {
		return nil, k.supports(q)
	}
	plan := choice.plan
	if at.Scratch, err = d.Scratch(plan.Scratch); err != nil {
		return nil, err
	}
	if at.Flags, err = d.Flags(plan.Flags); err != nil {
		return nil, err
	}
	full := planning.JoinLabel(choice.best.Name(), plan.Label)
	label := plan.Label
	if k.kernel != choice.best.Name() {
		label = full
	}
	key := fmt.Sprintf("%s %s %v lda %d ldc %d, aligned to %d and %d", full, q.DType, q, q.LDA, q.LDC, aligned.A, aligned.C)
	l, err := d.NewLaunch(label, key, driver.Steps(plan.Bind(at)), a.Buffer, w, c.Buffer)
	if err != nil {
		return nil, err
	}
	l.Tiled = plan.Tiling
	return l, nil
}

func (k *integers) pick(p Problem) picked {
	return k.picked.Choice(p, func() (c picked) {
		c.best, c.plan, c.ok = planning.Pick(k.among, k.dev.Arch(), p)
		return c
	})
}
