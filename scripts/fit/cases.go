package main

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/attention"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm/gemv"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm/hopper"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm/mma"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// sized is one execution of a subject.
type sized struct {
	kernels.Subject
	M int
}

// String returns a case's name: "gemm bf16 n4096 k4096 nk m64".
func (c sized) String() string {
	return fmt.Sprintf("%v %s %s%s m%d", c.Operation, c.DType, c.Size(), c.Traits(), c.M)
}

func (c sized) task() kernels.Task { return kernels.Task{Subject: c.Subject, M: c.M} }

// planned is a candidate plan of a family, and its modeled seconds.
type planned struct {
	label   string
	seconds float64
}

// families are the kernels whose choice among plans uses a card's constants.
var (
	products   = []gemm.Family{hopper.Family{}, mma.Family{}, mma.WMMA{}, gemv.Family{}}
	attentions = choosers(attention.Families())
)

func choosers[P, A any](families []planning.Family[P, A]) (some []planning.Family[P, A]) {
	for _, f := range families {
		if _, ok := f.(planning.Chooser[P, A]); ok {
			some = append(some, f)
		}
	}
	return some
}

func names[P, A any](families []planning.Family[P, A]) (all []string) {
	for _, f := range families {
		all = append(all, f.Name())
	}
	return all
}

// familiesFor returns the names of the families for a subject, the best first.
func familiesFor(s kernels.Subject) []string {
	switch {
	case s.Operation.IsProduct() && !s.Quantized() && s.Products == 0:
		return names(products)
	case s.Operation.Stores() && !s.Operation.HasWeights(): // keys and values
		return names(attentions)
	}
	return nil
}

// plans lists a family's candidate plans for a case on a GPU, in the family's order, with operands aligned as
// buffers are. The list is empty if the family does not support the case.
func plans(a planning.Arch, c sized, family string) ([]planned, error) {
	if !c.Operation.IsProduct() {
		p, err := attention.NewProblem(c.task().Attention())
		if err != nil {
			return nil, fmt.Errorf("%v: %w", c, err)
		}
		return candidates(a, attentions, family, p)
	}
	t, err := c.task().Normalized()
	if err != nil {
		return nil, fmt.Errorf("%v: %w", c, err)
	}
	return candidates(a, products, family, gemm.InBuffers(t))
}

func candidates[P, A any](a planning.Arch, among []planning.Family[P, A], family string, p P) (all []planned, err error) {
	for _, f := range among {
		if f.Name() != family {
			continue
		}
		if f.Supports(a, p) == "" {
			for _, plan := range f.(planning.Chooser[P, A]).Candidates(a, p) {
				all = append(all, planned{plan.Label, plan.Seconds})
			}
		}
		return all, nil
	}
	return nil, fmt.Errorf("no family %q chooses by constants of a card", family)
}
