//go:build cuda

package cublas

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// ltFused is cuBLASLt with its own epilogues.
type ltFused struct{ of *cublasLtChoice }

var (
	_ kernels.Candidates     = ltFused{}
	_ kernels.AlgorithmTaker = ltFused{}
	_ kernels.ManyTellers    = ltFused{}
	_ kernels.Packer         = ltFused{}
)

// Fused returns the kernel of fused products with the epilogues of k's library, or nil if it has none.
func Fused(k kernels.Kernel) kernels.Kernel {
	if lt, ok := k.(*cublasLtChoice); ok && lt.fp8 != sumsFast {
		return ltFused{lt}
	}
	return nil
}

// Name implements [kernels.Kernel].
func (k ltFused) Name() string { return k.of.Name() }

// Describe implements [kernels.Kernel].
func (k ltFused) Describe() string { return "the library's epilogue: " + k.of.Describe() }

// Candidate implements [kernels.Candidates].
func (k ltFused) Candidate(n int) kernels.Kernel {
	return ltFused{k.of.Candidate(n).(*cublasLtChoice)}
}

// WithAlgorithm implements [kernels.AlgorithmTaker].
func (k ltFused) WithAlgorithm(a kernels.Algorithm) kernels.Kernel {
	return ltFused{k.of.WithAlgorithm(a).(*cublasLtChoice)}
}

// Tellers implements [kernels.ManyTellers].
func (k ltFused) Tellers(n int) ([]kernels.Kernel, error) {
	tellers, err := k.of.Tellers(n)
	for i, t := range tellers {
		tellers[i] = ltFused{t.(*cublasLtChoice)}
	}
	return tellers, err
}

// task returns the normalized fused product, the product, and the library's epilogue. It does not ask the heuristic.
func (k ltFused) task(t kernels.Task) (fused, product kernels.Task, epilogue int, err error) {
	fused, product, err = t.Fused(k.Name())
	if err != nil {
		return t, t, 0, err
	}
	epilogue, why := ltEpilogue(fused.Epilogue, fused.DType)
	if why != "" {
		return t, t, 0, t.Unsupported(k.Name(), why)
	}
	product, err = k.of.supports(product)
	return fused, product, epilogue, t.UnsupportedAs(k.Name(), err)
}

// Supports asks the heuristic.
func (k ltFused) Supports(t kernels.Task) error {
	_, _, _, err := k.asked(t, k.of.ask)
	return err
}

// asked returns the library's answer for operands at the beginning of buffers.
func (k ltFused) asked(t kernels.Task, ask ltAsk) (product kernels.Task, plan *ltPlan, at int, err error) {
	_, product, epilogue, err := k.task(t)
	if err != nil {
		return product, nil, 0, err
	}
	of := productAsked(product)
	of.epilogue = epilogue
	plan, at, err = k.of.choose(product, of, alignedStrides(of, product.DType), ask)
	return product, plan, at, t.UnsupportedAs(k.Name(), err)
}

// Packs implements [kernels.Packer]: weights are read in place.
func (ltFused) Packs(kernels.Task) bool { return false }

// Prepare leaves B in place, and copies the bias.
func (k ltFused) Prepare(t kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	t, product, _, err := k.task(t)
	if err != nil {
		return nil, err
	}
	b, err := blasWeights(k.of.dev, product, raw)
	if err != nil {
		return nil, err
	}
	w, err := k.of.dev.KeepFused(t, raw, b)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Bind implements [kernels.Kernel].
func (k ltFused) Bind(t kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand,
	_ ...kernels.Operand) (kernels.Launch, error) {
	t, product, epilogue, err := k.task(t)
	if err != nil {
		return nil, err
	}
	b, bias, err := k.of.dev.BindFused(k.Name(), t, w)
	if err != nil {
		return nil, err
	}
	o, err := bindBLAS(k.of.dev, k.Name(), product, a, b, c)
	if err != nil {
		return nil, err
	}
	o.product.epilogue, o.bias = epilogue, bias
	if t.Epilogue.HasResidual() {
		if o.residual, err = k.of.dev.Matrix("residual", t.ResidualOperand(a), t.M, t.N, t.N, t.OutputType()); err != nil {
			return nil, fmt.Errorf("%v: %w", t, err)
		}
	}
	plan, at, err := k.of.choose(product, o.product, o.aligned(), k.of.ask)
	if err != nil {
		return nil, t.UnsupportedAs(k.Name(), err)
	}
	return k.of.call(product, o, plan, at, a.Buffer, w, c.Buffer)
}

// Choice implements [kernels.Kernel] with the heuristic only.
func (k ltFused) Choice(t kernels.Task) (kernels.Choice, error) {
	product, plan, at, err := k.asked(t, k.of.askAgain)
	if err != nil {
		return kernels.Choice{}, err
	}
	return plan.configs[at].choice(product.M, product.N, k.of.dev.Arch().SMs), nil
}
