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

// Kernel is a kernel of ours for quantised weights on one device, which takes no plain ones.
type Kernel struct {
	integers
	describe string
}

// Auto is the ladder's kernel that picks by itself, for plain weights and for quantised ones.
type Auto struct {
	*gemm.Kernel
	integers
}

// integers is what computes products with quantised weights: one family, or all.
type integers struct {
	dev    *driver.Device
	kernel string
	among  []Family
	picked planning.Kept[Problem, picked]
}

// picked is what pick returned.
type picked struct {
	best Family
	plan gemm.Plan
	ok   bool
}

// NewKernel makes a kernel of one family on a device.
func NewKernel(d *driver.Device, f Family) *Kernel {
	return &Kernel{integers{dev: d, kernel: f.Name(), among: []Family{f}}, f.Describe(d.Arch())}
}

// Ladder lists the kernels of a device that take quantised weights: auto, which begins gemms, in its
// place, then the others behind. Those that don't run there are missing.
func Ladder(d *driver.Device, gemms []kernels.Gemm) (all []kernels.Gemm, missing []kernels.Missing) {
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
			all[i] = &Auto{auto, integers{dev: d, kernel: auto.Name(), among: there}}
		}
	}
	for _, f := range there {
		all = append(all, NewKernel(d, f))
	}
	return all, missing
}

// Name is the name by which the kernel is selected.
func (k *Kernel) Name() string { return k.kernel }

// Name is "auto".
func (k *Auto) Name() string { return k.Kernel.Name() }

// Describe is one line for people.
func (k *Kernel) Describe() string { return k.describe }

// Supports refuses plain weights.
func (k *Kernel) Supports(p kernels.Problem) error {
	return &kernels.Unsupported{Kernel: k.kernel, DType: p.DType, Reason: "its weights are integers with scales, as --weights int4:128 makes them, not plain"}
}

// PrepareWeights refuses plain weights.
func (k *Kernel) PrepareWeights(p kernels.Problem, _ kernels.Buffer) (kernels.Weights, error) {
	return nil, k.Supports(p)
}

// Bind refuses plain weights.
func (k *Kernel) Bind(p kernels.Problem, _ kernels.Operand, _ kernels.Weights, _ kernels.Operand) (kernels.Launch, error) {
	return nil, k.Supports(p)
}

var _ kernels.QuantisedGemm = (*Auto)(nil)
var _ kernels.QuantisedGemm = (*Kernel)(nil)

// SupportsQuantised asks the families.
func (k *integers) SupportsQuantised(q kernels.QuantisedProblem) error {
	r, err := q.Normalized()
	if err != nil {
		return &kernels.Unsupported{Kernel: k.kernel, DType: q.DType, Reason: err.Error()}
	}
	p := Problem{gemm.Problem{Problem: r.Problem}, r.Weights}
	for _, f := range k.among {
		if f.Supports(k.dev.Arch(), p) == "" {
			return nil
		}
	}
	return &kernels.Unsupported{Kernel: k.kernel, DType: q.DType, Reason: planning.Refusals(k.among, k.dev.Arch(), p)}
}

// records are weights as the kernels read them.
type records struct {
	dev     *driver.Device
	problem kernels.QuantisedProblem // normalized; M is not part of the form
	buffer  *driver.Buffer
	seconds float64
}

// Bytes is what a launch reads of B.
func (w *records) Bytes() int64 { return w.buffer.Bytes() }

// Close returns the memory of the records.
func (w *records) Close() error { return w.buffer.Close() }

// Detached implements [kernels.Detached]: the raw weights are no longer read.
func (w *records) Detached() bool { return true }

// Packing implements [kernels.Packed].
func (w *records) Packing() (seconds float64, ok bool) { return w.seconds, true }

// PrepareQuantised packs the weights into records.
func (k *integers) PrepareQuantised(q kernels.QuantisedProblem, raw kernels.Buffer) (kernels.Weights, error) {
	if err := k.SupportsQuantised(q); err != nil {
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

// BindQuantised plans the product for its operands' addresses and alignment.
func (k *integers) BindQuantised(q kernels.QuantisedProblem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	if err := k.SupportsQuantised(q); err != nil {
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

func (k *integers) bind(q kernels.QuantisedProblem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (*driver.Launch, error) {
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
	choice := k.pick(Problem{gemm.Problem{Problem: q.Problem, Aligned: aligned}, q.Weights})
	if !choice.ok {
		return nil, k.SupportsQuantised(q)
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

// pick chooses the plan of a product, once for all copies of its weights.
func (k *integers) pick(p Problem) picked {
	return k.picked.Choice(p, func() (c picked) {
		c.best, c.plan, c.ok = planning.Pick(k.among, k.dev.Arch(), p)
		return c
	})
}
