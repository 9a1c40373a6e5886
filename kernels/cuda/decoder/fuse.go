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
	f, err := d.place(p)
	if err != nil {
		return nil, err
	}
	if f.format.Bits > 0 {
		plan = func(a planning.Arch, p kernels.FusedProduct, at fusedAddresses) (planning.Call, string) {
			return quantizedPlan(a, p, f.format, at)
		}
	}
	c, label := plan(d.Arch(), p, f.at)
	return d.NewLaunch(label, fmt.Sprintf("fused n%d k%d %s, %s", p.N, p.K, p.DType, label), driver.Steps([]planning.Call{c}), f.keep...)
}

// placed is a fused product with its operands on the device.
type placed struct {
	at     fusedAddresses
	format kernels.WeightFormat // of integers, else zero
	keep   []any                // for as long as launches use them
}

// place checks a product, and finds its operands.
func (d Operations) place(p kernels.FusedProduct) (f placed, err error) {
	switch {
	case p.Norm && p.Add:
		return f, fmt.Errorf("operand X is both normalized and added to: expected one of the two")
	case p.Gated && p.Add:
		return f, fmt.Errorf("a gated unit is added to X: expected it to be written to C")
	case p.Gated && p.N%2 != 0:
		return f, fmt.Errorf("a gated unit of %d rows: expected an even number, gate and up", p.N)
	}
	if err := checkEpsilon(p.Epsilon); p.Norm && err != nil {
		return f, err
	}
	product, err := kernels.Task{Subject: kernels.Linear(p.DType, p.N, p.K), M: 1}.Normalized()
	if err != nil {
		return f, err
	}
	integers, held, err := d.Records(p.Weights)
	if err != nil {
		return f, err
	}
	var reason string
	if held {
		f.format = integers.Problem.Weights
		reason = quantizedReason(d.Arch(), p, f.format)
	} else {
		reason = fusedReason(d.Arch(), p)
	}
	if reason != "" {
		return f, notFused{&kernels.Unsupported{Kernel: "fuse", DType: p.DType, Reason: reason}}
	}
	if held {
		if integers.Problem.N != p.N || integers.Problem.K != p.K {
			return f, fmt.Errorf("weights were packed for %v", integers.Problem)
		}
		f.at.b, f.at.ldb = integers.Address, quantizedLDB(p)
	} else {
		weights, _, err := d.BindPacked("fuse", product, p.Weights)
		if err != nil {
			return f, err
		}
		f.at.b, f.at.ldb = weights.Address, weights.LDB
	}
	f.keep = []any{p.Weights}
	find := func(name string, o kernels.Operand, n int, t kernels.DType, to *uint64) {
		if err == nil {
			*to, err = d.Matrix(name, o, 1, n, n, t)
			f.keep = append(f.keep, o.Buffer)
		}
	}
	if p.Norm {
		find("X", p.X, p.K, kernels.FP32, &f.at.x)
		find("Weight", p.Weight, p.K, p.DType, &f.at.weight)
	} else {
		find("A", p.A, p.K, p.DType, &f.at.a)
	}
	switch {
	case p.Add:
		find("X", p.X, p.N, kernels.FP32, &f.at.x)
	case p.Gated:
		find("C", p.C, p.N/2, p.DType, &f.at.c)
	default:
		find("C", p.C, p.N, p.DType, &f.at.c)
	}
	return f, err
}

// FuseChain binds two to four products, each of which may read what the ones before it write, as one launch. It gives a
// [*kernels.Unsupported] if no kernel has them together: [Operations.Fuse] may have each. Errors are as for it.
func (d Operations) FuseChain(ps []kernels.FusedProduct) (kernels.Launch, error) {
	l, err := d.fuseChain(ps)
	if err != nil {
		return nil, fmt.Errorf("chain of %d products: %w", len(ps), err)
	}
	return l, nil
}

func (d Operations) fuseChain(ps []kernels.FusedProduct) (*driver.Launch, error) {
	c := chain{products: ps}
	var keep []any
	for _, p := range ps {
		f, err := d.place(p)
		if err != nil {
			return nil, fmt.Errorf("n%d k%d %s: %w", p.N, p.K, p.DType, err)
		}
		c.at, c.formats, keep = append(c.at, f.at), append(c.formats, f.format), append(keep, f.keep...)
	}
	if reason := c.reason(d.Arch()); reason != "" {
		return nil, notFused{&kernels.Unsupported{Kernel: "chain", Reason: reason}}
	}
	words, err := d.Flags(chainMost * 4)
	if err != nil {
		return nil, err
	}
	call := c.call(d.Arch(), words)
	label := fmt.Sprintf("chain of %d, %v", len(ps), c.formats[0])
	l, err := d.NewLaunch(label, fmt.Sprintf("%s, %s, n%d k%d first, %s", call.Kernel, label, ps[0].N, ps[0].K, ps[0].DType),
		driver.Steps([]planning.Call{call}), keep...)
	if err != nil {
		return nil, err
	}
	l.Primed = true // a warm-up run would add twice
	return l, nil
}
