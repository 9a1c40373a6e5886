//go:build cuda

package gemm

import (
	"errors"
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// FusedKernel computes fused products with families that apply an epilogue to sums in registers. Their problems are those of the
// product, with the epilogue.
type FusedKernel struct{ of *Kernel }

var _ kernels.Packer = (*FusedKernel)(nil)

// NewFusedKernel makes a kernel of families on a device.
func NewFusedKernel(d *driver.Device, name string, among []Family) *FusedKernel {
	return &FusedKernel{of: NewKernel(d, name, "", Families{Plain: among})}
}

// Name implements [kernels.Kernel].
func (k *FusedKernel) Name() string { return k.of.name }

// Describe implements [kernels.Kernel].
func (k *FusedKernel) Describe() string {
	among := k.of.among.Plain
	if len(among) == 1 {
		return "the epilogue on sums in registers: " + among[0].Describe(k.of.dev.Arch())
	}
	return "the epilogue on sums in registers: " + DescribeAuto(k.of.dev.Arch(), among)
}

// task returns the normalized fused product, and the product with the epilogue.
func (k *FusedKernel) task(t kernels.Task) (fused, product kernels.Task, err error) {
	fused, product, err = t.Fused(k.of.name)
	if err == nil {
		product, err = product.Normalized()
	}
	if err != nil {
		return t, t, err
	}
	product.Epilogue, product.LDC = fused.Epilogue, fused.OutputColumns()
	if why := planning.Refusals(k.of.among.Plain, k.of.dev.Arch(), InBuffers(product)); why != "" && !k.some(product) {
		return t, t, t.Unsupported(k.of.name, why)
	}
	return fused, product, nil
}

func (k *FusedKernel) some(product kernels.Task) bool {
	for _, f := range k.of.among.Plain {
		if f.Supports(k.of.dev.Arch(), InBuffers(product)) == "" {
			return true
		}
	}
	return false
}

// Expected returns the time that planning expects of a fused product, and of the product alone in another kernel; ok is false if
// either does not compute it.
func (k *FusedKernel) Expected(t kernels.Task, alone *Kernel) (fused, product float64, ok bool) {
	_, p, err := k.task(t)
	if err != nil {
		return 0, 0, false
	}
	fused, of := k.of.Expected(p)
	p.Epilogue, p.LDC = 0, p.N
	product, plain := alone.Expected(p)
	return fused, product, of && plain
}

// Supports implements [kernels.Kernel].
func (k *FusedKernel) Supports(t kernels.Task) error {
	_, _, err := k.task(t)
	return err
}

// Packs implements [kernels.Packer].
func (k *FusedKernel) Packs(t kernels.Task) bool {
	_, product, err := k.task(t)
	return err == nil && driver.Packs(product)
}

// Prepare implements [kernels.Kernel].
func (k *FusedKernel) Prepare(t kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	t, product, err := k.task(t)
	if err != nil {
		return nil, err
	}
	packed, err := k.of.dev.Pack(product, raw)
	if err != nil {
		return nil, err
	}
	w, err := k.of.dev.KeepFused(t, raw, packed)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Bind implements [kernels.Kernel].
func (k *FusedKernel) Bind(t kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand,
	_ ...kernels.Operand) (kernels.Launch, error) {
	t, p, err := k.task(t)
	if err != nil {
		return nil, err
	}
	packed, bias, err := k.of.dev.BindFused(k.of.name, t, w)
	if err != nil {
		return nil, err
	}
	at, first, err := k.of.weights(p, packed)
	if err != nil {
		return nil, err
	}
	at.Bias = bias
	var errA, errC, errR error
	at.A, errA = k.of.dev.Matrix("A", a, p.M, p.K, p.LDA, p.DType)
	at.C, errC = k.of.dev.Matrix("C", c, p.M, p.LDC, p.LDC, p.DType.Output())
	if t.Epilogue.HasResidual() {
		at.Residual, errR = k.of.dev.Matrix("residual", t.ResidualOperand(a), p.M, p.N, p.N, p.DType.Output())
	}
	if err := errors.Join(errA, errC, errR); err != nil {
		return nil, fmt.Errorf("%v: %w", t, err)
	}
	q := At(p, at.A, at.C)
	choice := k.of.pick(q)
	if choice.refusal != "" {
		return nil, t.Unsupported(k.of.name, choice.refusal)
	}
	problem := fmt.Sprintf("%v, aligned to %d and %d, %d calls first", t, q.Aligned.A, q.Aligned.C, len(first))
	return driver.Planned(k.of.dev, choice.Choice, problem, first, func(scratch, flags uint64) Addresses {
		at.Scratch, at.Flags = scratch, flags
		return at
	}, a.Buffer, w, c.Buffer)
}

// Choice implements [kernels.Kernel].
func (k *FusedKernel) Choice(t kernels.Task) (kernels.Choice, error) {
	_, product, err := k.task(t)
	if err != nil {
		return kernels.Choice{}, err
	}
	c, ok := ChoiceOf(k.of.among.Plain, k.of.dev.Arch(), product)
	if !ok {
		return kernels.Choice{}, k.Supports(t)
	}
	return c, nil
}

// fusedChooser is the kernel of a family that chooses among plans.
type fusedChooser struct {
	*FusedKernel
	family planning.Chooser[Problem, Addresses]
}

var _ kernels.Planned = fusedChooser{}

// NewFusedChooser makes the kernel of one family; its plans are kernels, too, if it chooses among some.
func NewFusedChooser(d *driver.Device, f Family) kernels.Kernel {
	k := NewFusedKernel(d, f.Name(), []Family{f})
	if choosing, ok := f.(planning.Chooser[Problem, Addresses]); ok {
		return fusedChooser{k, choosing}
	}
	return k
}

// Plan implements [kernels.Planned].
func (c fusedChooser) Plan(n int) kernels.Kernel {
	f := nth{planning.Nth[Problem, Addresses]{Chooser: c.family, N: n}}
	return NewFusedKernel(c.of.dev, kernels.CandidateName(c.of.name, n), []Family{f})
}
