//go:build cuda

package decoder

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Fuse binds a product for one row, with the preceding norm and the following operations of a decoder, as one
// launch. Weights must be prepared by a kernel of ours on this device, plain or integers with scales. Sums,
// norm, silu and the addition to X are fp32; results are rounded once. Errors name the invalid operand and
// the expected one. A product without a fused kernel on this GPU gives a [*kernels.Unsupported].
func (d Operations) Fuse(p kernels.FusedProduct) (kernels.Launch, error) {
	l, err := d.fuse(p, fusedPlan)
	if err != nil {
		return nil, fmt.Errorf("fuse n%d k%d %s: %w", p.N, p.K, p.DType, err)
	}
	return l, nil
}

func (d Operations) fuse(p kernels.FusedProduct,
	plan func(planning.Arch, kernels.FusedProduct, fusedAddresses) (planning.Call, string)) (*driver.Launch, error) {
	switch {
	case p.Norm && p.Add:
		return nil, fmt.Errorf("operand X is both normalized and added to: expected one of the two")
	case p.Gated && p.Add:
		return nil, fmt.Errorf("a gated unit is added to X: expected it to be written to C")
	case p.Gated && p.N%2 != 0:
		return nil, fmt.Errorf("a gated unit of %d rows: expected an even number, gate and up", p.N)
	}
	if err := checkEpsilon(p.Epsilon); p.Norm && err != nil {
		return nil, err
	}
	product, err := kernels.Task{Subject: kernels.Linear(p.DType, p.N, p.K), M: 1}.Normalized()
	if err != nil {
		return nil, err
	}
	integers, held, err := d.Records(p.Weights)
	if err != nil {
		return nil, err
	}
	var reason string
	if held {
		reason = quantizedReason(d.Arch(), p, integers.Problem.Weights)
	} else {
		reason = fusedReason(d.Arch(), p)
	}
	if reason != "" {
		return nil, notFused{&kernels.Unsupported{Kernel: "fuse", DType: p.DType, Reason: reason}}
	}
	var at fusedAddresses
	if held {
		if integers.Problem.N != p.N || integers.Problem.K != p.K {
			return nil, fmt.Errorf("weights were packed for %v", integers.Problem)
		}
		at.b, at.ldb = integers.Address, quantizedLDB(p)
		plan = func(a planning.Arch, p kernels.FusedProduct, at fusedAddresses) (planning.Call, string) {
			return quantizedPlan(a, p, integers.Problem.Weights, at)
		}
	} else {
		weights, _, err := d.BindPacked("fuse", product, p.Weights)
		if err != nil {
			return nil, err
		}
		at.b, at.ldb = weights.Address, weights.LDB
	}
	keep := []any{p.Weights}
	find := func(name string, o kernels.Operand, n int, t kernels.DType, to *uint64) {
		if err == nil {
			*to, err = d.Matrix(name, o, 1, n, n, t)
			keep = append(keep, o.Buffer)
		}
	}
	if p.Norm {
		find("X", p.X, p.K, kernels.FP32, &at.x)
		find("Weight", p.Weight, p.K, p.DType, &at.weight)
	} else {
		find("A", p.A, p.K, p.DType, &at.a)
	}
	switch {
	case p.Add:
		find("X", p.X, p.N, kernels.FP32, &at.x)
	case p.Gated:
		find("C", p.C, p.N/2, p.DType, &at.c)
	default:
		find("C", p.C, p.N, p.DType, &at.c)
	}
	if err != nil {
		return nil, err
	}
	c, label := plan(d.Arch(), p, at)
	return d.NewLaunch(label, fmt.Sprintf("fused n%d k%d %s, %s", p.N, p.K, p.DType, label), driver.Steps([]planning.Call{c}), keep...)
}
