//go:build cuda

package softmax

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Way is one softmax kernel of a device, or auto, which picks among them by modeled time.
type Way struct {
	kernels.StoresNothing
	kernels.TellsNothing
	dev      *driver.Device
	name     string
	describe string
	among    []family
}

// NewWay makes a way of families on a device; describe is its one-line description.
func NewWay(d *driver.Device, name, describe string, among ...planning.Family[Problem, Addresses]) *Way {
	return &Way{dev: d, name: name, describe: describe, among: among}
}

// Ladder is the softmax of a GPU.
type Ladder struct{ *driver.Device }

// SoftmaxKernels lists the kernels: auto, then its candidates, and the baselines.
func (d Ladder) SoftmaxKernels() []kernels.Kernel {
	all := []kernels.Kernel{NewWay(d.Device, "auto", "picks the least expected time among warp, block, cluster and reread", ladder...)}
	for _, f := range Families() {
		all = append(all, NewWay(d.Device, f.Name(), f.Describe(d.Arch()), f))
	}
	return all
}

// Name returns the kernel's name for selection.
func (t *Way) Name() string { return t.name }

// Describe returns a one-line description.
func (t *Way) Describe() string { return t.describe }

// Supports checks sizes and types; it assumes aligned operands.
func (t *Way) Supports(o kernels.Task) error {
	o, err := o.Softmax(t.name, 0)
	if err != nil {
		return err
	}
	p, err := NewProblem(o)
	if err != nil {
		return o.Unsupported(t.name, err.Error())
	}
	if _, why := planning.Choose(t.among, t.dev.Arch(), p); why != "" {
		return o.Unsupported(t.name, why)
	}
	return nil
}

// Bind binds a softmax. The error is a [*kernels.Unsupported] if no kernel supports it; otherwise it names
// the invalid operand or size.
func (t *Way) Bind(o kernels.Task, in kernels.Operand, _ kernels.Weights, out kernels.Operand,
	_ ...kernels.Operand) (kernels.Launch, error) {
	fail := func(err error) (kernels.Launch, error) { return nil, fmt.Errorf("softmax: %w", err) }
	p, err := NewProblem(o)
	if err != nil {
		return fail(err)
	}
	var at Addresses
	if at.in, err = t.dev.Matrix("In", in, o.M, o.Columns, o.Columns, o.DType); err != nil {
		return fail(err)
	}
	if at.out, err = t.dev.Matrix("Out", out, o.M, o.Columns, o.Columns, o.DType); err != nil {
		return fail(err)
	}
	p.aligned = planning.AlignmentOf(at.in|at.out, int64(o.Columns)*int64(o.DType.Size()))
	p.based = planning.AlignmentOf(at.in|at.out, 0)
	c, why := planning.Choose(t.among, t.dev.Arch(), p)
	if why != "" {
		return nil, &kernels.Unsupported{Kernel: t.name, DType: p.DType, Reason: why}
	}
	l, err := driver.Planned(t.dev, c, fmt.Sprintf("softmax %+v", p), nil, func(_, flags uint64) Addresses {
		at.exchange = flags
		return at
	}, in.Buffer, out.Buffer)
	if err != nil {
		return fail(err)
	}
	return l, nil
}
