//go:build cuda

package softmax

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Way is a way in which a device does softmax: one kernel, or auto, which picks among them
// by a model of their times.
type Way struct {
	dev      *driver.Device
	name     string
	describe string
	among    []family
}

// NewWay makes a way of families on a device, with a line about it for people.
func NewWay(d *driver.Device, name, describe string, among ...planning.Family[Problem, Addresses]) *Way {
	return &Way{dev: d, name: name, describe: describe, among: among}
}

// Ladder is the softmax of a GPU.
type Ladder struct{ *driver.Device }

// SoftmaxKernels implements kernels.SoftmaxLister: auto first, then what it picks among, and
// the baselines.
func (d Ladder) SoftmaxKernels() []kernels.SoftmaxKernel {
	all := []kernels.SoftmaxKernel{NewWay(d.Device, "auto", "picks the least expected time among warp, block, cluster and reread", ladder...)}
	for _, f := range Families() {
		all = append(all, NewWay(d.Device, f.Name(), f.Describe(d.Arch()), f))
	}
	return all
}

// Name is the name by which it is selected.
func (t *Way) Name() string { return t.name }

// Describe is one line for people.
func (t *Way) Describe() string { return t.describe }

// Supports looks at sizes and types; operands are taken to be aligned.
func (t *Way) Supports(o kernels.SoftmaxProblem) error {
	p, err := NewProblem(o)
	if err != nil {
		return &kernels.Unsupported{Kernel: t.name, DType: o.DType, Reason: err.Error()}
	}
	if _, _, ok := planning.Pick(t.among, t.dev.Arch(), p); !ok {
		return &kernels.Unsupported{Kernel: t.name, DType: o.DType, Reason: planning.Refusals(t.among, t.dev.Arch(), p)}
	}
	return nil
}

// Bind binds a softmax. The error is a [*kernels.Unsupported] where no kernel takes it, and
// else names the operand or size that is wrong.
func (t *Way) Bind(o kernels.SoftmaxProblem) (kernels.Launch, error) {
	fail := func(err error) (kernels.Launch, error) { return nil, fmt.Errorf("softmax: %w", err) }
	p, err := NewProblem(o)
	if err != nil {
		return fail(err)
	}
	var at Addresses
	if at.in, err = t.dev.Matrix("In", o.In, o.Rows, o.Columns, o.Columns, o.DType); err != nil {
		return fail(err)
	}
	if at.out, err = t.dev.Matrix("Out", o.Out, o.Rows, o.Columns, o.Columns, o.DType); err != nil {
		return fail(err)
	}
	p.aligned = planning.AlignmentOf(at.in|at.out, int64(o.Columns)*int64(o.DType.Size()))
	p.based = planning.AlignmentOf(at.in|at.out, 0)
	best, plan, ok := planning.Pick(t.among, t.dev.Arch(), p)
	if !ok {
		return nil, &kernels.Unsupported{Kernel: t.name, DType: p.DType, Reason: planning.Refusals(t.among, t.dev.Arch(), p)}
	}
	if at.exchange, err = t.dev.Flags(plan.Flags); err != nil {
		return fail(err)
	}
	label := plan.Label
	if len(t.among) > 1 {
		label = planning.JoinLabel(best.Name(), label)
	}
	key := fmt.Sprintf("softmax %s %s %+v", best.Name(), plan.Label, p)
	l, err := t.dev.NewLaunch(label, key, driver.Steps(plan.Bind(at)), o.In.Buffer, o.Out.Buffer)
	if err != nil {
		return fail(err)
	}
	l.Tiled = plan.Tiling
	return l, nil
}
