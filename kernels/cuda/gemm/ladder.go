//go:build cuda

package gemm

import (
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Kernel is one family on a device, or auto, which picks among all families.
type Kernel struct {
	dev      *driver.Device
	name     string
	describe string
	among    []Family
	picked   planning.Kept[Problem, picked]
}

type picked struct {
	best Family
	plan Plan
	ok   bool
}

// pick plans a product once for all copies of its weights. Planning takes up to a millisecond, the rest of
// binding a few microseconds.
func (r *Kernel) pick(p Problem) picked {
	return r.picked.Choice(p, func() (c picked) {
		c.best, c.plan, c.ok = planning.Pick(r.among, r.dev.Arch(), p)
		return c
	})
}

// NewKernel makes a kernel of families on a device; describe is its one-line description.
func NewKernel(d *driver.Device, name, describe string, among ...Family) *Kernel {
	return &Kernel{dev: d, name: name, describe: describe, among: among}
}

// Ladder lists our kernels on a device, auto first, and those that don't run there.
func Ladder(d *driver.Device, families []Family) ([]kernels.Kernel, []kernels.Missing) {
	there, missing := Present(families, d.Arch())
	if len(there) == 0 {
		return nil, missing
	}
	gemms := []kernels.Kernel{NewKernel(d, "auto", DescribeAuto(d.Arch(), there), there...)}
	for _, f := range there {
		gemms = append(gemms, newFamilyKernel(d, f))
	}
	return gemms, missing
}

func (r *Kernel) Name() string { return r.name }

func (r *Kernel) Describe() string { return r.describe }

// Supports implements [kernels.Kernel]: it asks the families.
func (r *Kernel) Supports(t kernels.Task) error {
	q, err := t.Product(r.name, 0)
	if err != nil {
		return err
	}
	for _, f := range r.among {
		if f.Supports(r.dev.Arch(), Problem{Task: q}) == "" {
			return nil
		}
	}
	return t.Unsupported(r.name, planning.Refusals(r.among, r.dev.Arch(), Problem{Task: q}))
}

// Packs implements [kernels.Packer].
func (r *Kernel) Packs(p kernels.Task) bool { return driver.Packs(p) }

// Prepare packs B. All our kernels share one matrix's packed weights.
func (r *Kernel) Prepare(t kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	p, err := t.Product(r.name, 0)
	if err != nil {
		return nil, err
	}
	w, err := r.dev.Pack(p, raw)
	if err != nil {
		return nil, err // a nil *PackedWeights in the interface would not be nil
	}
	return w, nil
}

// Bind plans the product for its operands' addresses and alignment.
func (r *Kernel) Bind(t kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand,
	_ ...kernels.Operand) (kernels.Launch, error) {
	l, err := r.bind(t, a, w, c)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (r *Kernel) bind(t kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand) (*driver.Launch, error) {
	p, err := t.Product(r.name, 0)
	if err != nil {
		return nil, err
	}
	d := r.dev
	weights, first, err := d.BindPacked(r.name, p, w)
	if err != nil {
		return nil, err
	}
	at := Addresses{B: weights.Address, LDB: weights.LDB}
	if at.A, err = d.Matrix("A", a, p.M, p.K, p.LDA, p.DType); err != nil {
		return nil, fmt.Errorf("%v: %w", p.Shape(), err)
	}
	out := p.DType.Output()
	if at.C, err = d.Matrix("C", c, p.M, p.N, p.LDC, out); err != nil {
		return nil, fmt.Errorf("%v: %w", p.Shape(), err)
	}
	o := Alignment{
		A: planning.AlignmentOf(at.A, int64(p.LDA)*int64(p.DType.Size())),
		C: planning.AlignmentOf(at.C, int64(p.LDC)*int64(out.Size())),
	}
	choice := r.pick(Problem{p, o})
	if !choice.ok {
		return nil, r.Supports(p)
	}
	plan := choice.plan
	if at.Scratch, err = d.Scratch(plan.Scratch); err != nil {
		return nil, fmt.Errorf("%v: %w", p.Shape(), err)
	}
	if at.Flags, err = d.Flags(plan.Flags); err != nil {
		return nil, fmt.Errorf("%v: %w", p.Shape(), err)
	}
	full := planning.JoinLabel(choice.best.Name(), plan.Label)
	name := fmt.Sprintf("%s %s %v lda %d ldc %d", full, p.DType, p.Shape(), p.LDA, p.LDC)
	label := labelOf(r.among, choice.best, plan)
	key := fmt.Sprintf("%s, aligned to %d and %d, %d calls first", name, o.A, o.C, len(first))
	l, err := d.NewLaunch(label, key, driver.Steps(append(first, plan.Bind(at)...)), a.Buffer, w, c.Buffer)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", p.Shape(), err)
	}
	l.Tiled = plan.Tiling
	return l, nil
}

var _ kernels.ManyTellers = (*Kernel)(nil)

// Tellers implements [kernels.ManyTellers]: planning has no state.
func (r *Kernel) Tellers(n int) ([]kernels.Kernel, error) {
	return slices.Repeat([]kernels.Kernel{r}, n), nil
}

// Choice implements [kernels.ChoiceTeller]: a plan depends only on the GPU and the problem.
func (r *Kernel) Choice(p kernels.Task) (kernels.Choice, error) {
	q, err := p.Product(r.name, 0)
	if err != nil {
		return kernels.Choice{}, err
	}
	c, ok := ChoiceOf(r.among, r.dev.Arch(), q)
	if !ok {
		return kernels.Choice{}, r.Supports(p)
	}
	return c, nil
}
