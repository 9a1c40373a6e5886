//go:build cuda

package gemm

import (
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Kernel is a kernel of ours on one device: one family, or auto, which has them all.
type Kernel struct {
	dev      *driver.Device
	name     string
	describe string
	among    []Family
	picked   planning.Kept[Problem, picked]
}

// picked is what pick returned.
type picked struct {
	best Family
	plan Plan
	ok   bool
}

// pick chooses the plan of a product, once for all copies of its weights: that takes a
// good part of a millisecond, and all else of binding some microseconds.
func (r *Kernel) pick(p Problem) picked {
	return r.picked.Choice(p, func() (c picked) {
		c.best, c.plan, c.ok = planning.Pick(r.among, r.dev.Arch(), p)
		return c
	})
}

// NewKernel makes a kernel of families on a device, with a line about it for people.
func NewKernel(d *driver.Device, name, describe string, among ...Family) *Kernel {
	return &Kernel{dev: d, name: name, describe: describe, among: among}
}

// Ladder lists our kernels on a device, auto first, and those that don't run there.
func Ladder(d *driver.Device, families []Family) ([]kernels.Gemm, []kernels.Missing) {
	there, missing := Present(families, d.Arch())
	if len(there) == 0 {
		return nil, missing
	}
	gemms := []kernels.Gemm{NewKernel(d, "auto", DescribeAuto(d.Arch(), there), there...)}
	for _, f := range there {
		gemms = append(gemms, NewKernel(d, f.Name(), f.Describe(d.Arch()), f))
	}
	return gemms, missing
}

func (r *Kernel) Name() string { return r.name }

func (r *Kernel) Describe() string { return r.describe }

// Supports asks the families.
func (r *Kernel) Supports(p kernels.Problem) error {
	q, err := p.Normalized()
	if err != nil {
		return &kernels.Unsupported{Kernel: r.name, DType: p.DType, Reason: err.Error()}
	}
	for _, f := range r.among {
		if f.Supports(r.dev.Arch(), Problem{Problem: q}) == "" {
			return nil
		}
	}
	return &kernels.Unsupported{Kernel: r.name, DType: q.DType, Reason: planning.Refusals(r.among, r.dev.Arch(), Problem{Problem: q})}
}

// Packs implements [kernels.Packer].
func (r *Kernel) Packs(p kernels.Problem) bool { return driver.Packs(p) }

// PrepareWeights packs B. All our kernels share what was packed of one matrix.
func (r *Kernel) PrepareWeights(p kernels.Problem, raw kernels.Buffer) (kernels.Weights, error) {
	w, err := r.dev.Pack(p, raw)
	if err != nil {
		return nil, err // a nil *PackedWeights would be weights that aren't nil
	}
	return w, nil
}

// Bind plans the product for its operands' addresses and alignment.
func (r *Kernel) Bind(p kernels.Problem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	l, err := r.bind(p, a, w, c)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (r *Kernel) bind(p kernels.Problem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (*driver.Launch, error) {
	p, err := p.Normalized()
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
		return nil, fmt.Errorf("%v: %w", p.Shape, err)
	}
	out := p.DType.Output()
	if at.C, err = d.Matrix("C", c, p.M, p.N, p.LDC, out); err != nil {
		return nil, fmt.Errorf("%v: %w", p.Shape, err)
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
		return nil, fmt.Errorf("%v: %w", p.Shape, err)
	}
	if at.Flags, err = d.Flags(plan.Flags); err != nil {
		return nil, fmt.Errorf("%v: %w", p.Shape, err)
	}
	full := planning.JoinLabel(choice.best.Name(), plan.Label)
	name := fmt.Sprintf("%s %s %v lda %d ldc %d", full, p.DType, p.Shape, p.LDA, p.LDC)
	label := labelOf(r.among, choice.best, plan)
	key := fmt.Sprintf("%s, aligned to %d and %d, %d calls first", name, o.A, o.C, len(first))
	l, err := d.NewLaunch(label, key, driver.Steps(append(first, plan.Bind(at)...)), a.Buffer, w, c.Buffer)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", p.Shape, err)
	}
	l.Tiled = plan.Tiling
	return l, nil
}

var _ kernels.ManyTellers = (*Kernel)(nil)

// Tellers implements [kernels.ManyTellers]: to plan changes nothing.
func (r *Kernel) Tellers(n int) ([]kernels.ChoiceTeller, error) {
	return slices.Repeat([]kernels.ChoiceTeller{r}, n), nil
}

// Choice implements [kernels.ChoiceTeller]: a plan follows from the GPU and the problem.
func (r *Kernel) Choice(p kernels.Problem) (kernels.Choice, error) {
	q, err := p.Normalized()
	if err != nil {
		return kernels.Choice{}, r.Supports(p)
	}
	c, ok := ChoiceOf(r.among, r.dev.Arch(), q)
	if !ok {
		return kernels.Choice{}, r.Supports(p)
	}
	return c, nil
}
