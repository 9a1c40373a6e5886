//go:build cuda

package cuda

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// rung is a kernel of ours on one device: one family, or auto, which has them all.
type rung struct {
	dev      *Device
	name     string
	describe string
	among    []gemmFamily
	picked   map[gemmProblem]picked
}

// picked is what pick returned.
type picked struct {
	best gemmFamily
	plan gemmPlan
	ok   bool
}

// pick chooses the plan of a product, once for all copies of its weights: that takes a
// good part of a millisecond, and all else of binding some microseconds.
func (r *rung) pick(p gemmProblem) picked {
	if c, ok := r.picked[p]; ok {
		return c
	}
	if len(r.picked) >= keptPlans || r.picked == nil {
		r.picked = map[gemmProblem]picked{}
	}
	var c picked
	c.best, c.plan, c.ok = pick(r.among, r.dev.arch, p)
	r.picked[p] = c
	return c
}

// ladder lists our kernels on a device, auto first, and those that don't run there.
func ladder(d *Device) ([]kernels.Gemm, []kernels.Missing) {
	there, missing := present(families, d.arch)
	if len(there) == 0 {
		return nil, missing
	}
	gemms := []kernels.Gemm{&rung{dev: d, name: "auto", describe: describeAuto(there), among: there}}
	for _, f := range there {
		gemms = append(gemms, &rung{dev: d, name: f.Name(), describe: f.Describe(d.arch), among: []gemmFamily{f}})
	}
	return gemms, missing
}

func (r *rung) Name() string { return r.name }

func (r *rung) Describe() string { return r.describe }

// Supports asks the families.
func (r *rung) Supports(p kernels.Problem) error {
	q, err := p.Normalized()
	if err != nil {
		return &kernels.Unsupported{Kernel: r.name, DType: p.DType, Reason: err.Error()}
	}
	for _, f := range r.among {
		if f.Supports(r.dev.arch, gemmProblem{Problem: q}) == "" {
			return nil
		}
	}
	return &kernels.Unsupported{Kernel: r.name, DType: q.DType, Reason: refusals(r.among, r.dev.arch, gemmProblem{Problem: q})}
}

// PrepareWeights packs B. All our kernels share what was packed of one matrix.
func (r *rung) PrepareWeights(p kernels.Problem, raw kernels.Buffer) (kernels.Weights, error) {
	w, err := r.dev.pack(p, raw)
	if err != nil {
		return nil, err // a nil *packedWeights would be weights that aren't nil
	}
	return w, nil
}

// Bind plans the product for its operands' addresses and alignment.
func (r *rung) Bind(p kernels.Problem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch, error) {
	l, err := r.bind(p, a, w, c)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (r *rung) bind(p kernels.Problem, a kernels.Operand, w kernels.Weights, c kernels.Operand) (*launch, error) {
	p, err := p.Normalized()
	if err != nil {
		return nil, err
	}
	d := r.dev
	weights, first, err := d.bindPacked(r.name, p, w)
	if err != nil {
		return nil, err
	}
	at := addresses{b: weights.address, ldb: weights.ldb}
	if at.a, err = d.matrix("A", a, p.M, p.K, p.LDA, p.DType); err != nil {
		return nil, fmt.Errorf("%v: %w", p.Shape, err)
	}
	out := p.DType.Output()
	if at.c, err = d.matrix("C", c, p.M, p.N, p.LDC, out); err != nil {
		return nil, fmt.Errorf("%v: %w", p.Shape, err)
	}
	o := alignment{
		a: alignmentOf(at.a, int64(p.LDA)*int64(p.DType.Size())),
		c: alignmentOf(at.c, int64(p.LDC)*int64(out.Size())),
	}
	choice := r.pick(gemmProblem{p, o})
	if !choice.ok {
		return nil, r.Supports(p)
	}
	plan := choice.plan
	if at.scratch, err = d.scratch(plan.scratch); err != nil {
		return nil, fmt.Errorf("%v: %w", p.Shape, err)
	}
	if at.flags, err = d.flags(plan.flags); err != nil {
		return nil, fmt.Errorf("%v: %w", p.Shape, err)
	}
	label, full := plan.label, joinLabel(choice.best.Name(), plan.label)
	name := fmt.Sprintf("%s %s %v lda %d ldc %d", full, p.DType, p.Shape, p.LDA, p.LDC)
	if len(r.among) > 1 {
		label = full
	}
	key := fmt.Sprintf("%s, aligned to %d and %d, %d calls first", name, o.a, o.c, len(first))
	l, err := d.newLaunch(label, key, calls(append(first, plan.bind(at)...)), a.Buffer, w, c.Buffer)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", p.Shape, err)
	}
	return l, nil
}
