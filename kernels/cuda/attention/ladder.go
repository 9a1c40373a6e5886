//go:build cuda

package attention

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Way is a way in which a device does attention: one rung of the ladder, or auto,
// which picks among them by a model of their times.
type Way struct {
	dev      *driver.Device
	name     string
	describe string
	among    []attentionFamily
}

// NewWay makes a way of families on a device, with a line about it for people.
func NewWay(d *driver.Device, name, describe string, among ...planning.Family[Problem, Addresses]) *Way {
	return &Way{dev: d, name: name, describe: describe, among: among}
}

// Ladder is the attention of a GPU.
type Ladder struct{ *driver.Device }

// AttentionKernels implements kernels.AttentionLister: auto first, then the rungs from the
// best to the plainest: decode, flash, naive.
func (d Ladder) AttentionKernels() []kernels.AttentionKernel {
	all := []kernels.AttentionKernel{NewWay(d.Device, "auto", "picks the least expected time among the others", attentionFamilies...)}
	for _, f := range attentionFamilies {
		all = append(all, NewWay(d.Device, f.Name(), f.Describe(d.Arch()), f))
	}
	return all
}

// Name is the name by which it is selected.
func (t *Way) Name() string { return t.name }

// Describe is one line for people.
func (t *Way) Describe() string { return t.describe }

// Supports looks at sizes and types; operands are taken to be aligned.
func (t *Way) Supports(o kernels.Attention) error {
	p, err := NewProblem(o)
	if err != nil {
		return &kernels.Unsupported{Kernel: t.name, DType: o.DType, Reason: err.Error()}
	}
	if _, _, ok := planning.Pick(t.among, t.dev.Arch(), p); !ok {
		return &kernels.Unsupported{Kernel: t.name, DType: o.DType, Reason: planning.Refusals(t.among, t.dev.Arch(), p)}
	}
	return nil
}

// Attend binds an attention. The error is a [*kernels.Unsupported] where no rung takes it,
// and else names the operand or size that is wrong.
func (t *Way) Attend(o kernels.Attention) (kernels.Launch, error) {
	l, err := Ladder{t.dev}.attend(t.name, t.among, o)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Attend binds an attention to the rung of the ladder that is expected to take the least
// time. See [Way.Attend].
func (d Ladder) Attend(o kernels.Attention) (kernels.Launch, error) {
	l, err := d.attend("auto", attentionFamilies, o)
	if err != nil {
		return nil, err // a nil *launch would be a launch that isn't nil
	}
	return l, nil
}

func (d Ladder) attend(name string, among []attentionFamily, o kernels.Attention) (*driver.Launch, error) {
	p, at, err := d.Operands(o)
	if err != nil {
		return nil, fmt.Errorf("attention: %w", err)
	}
	best, plan, ok := planning.Pick(among, d.Arch(), p)
	if !ok {
		return nil, &kernels.Unsupported{Kernel: name, DType: p.DType, Reason: planning.Refusals(among, d.Arch(), p)}
	}
	if at.scratch, err = d.Scratch(plan.Scratch); err != nil {
		return nil, fmt.Errorf("attention: %w", err)
	}
	if at.Flags, err = d.Flags(plan.Flags); err != nil {
		return nil, fmt.Errorf("attention: %w", err)
	}
	label := plan.Label
	if len(among) > 1 {
		label = planning.JoinLabel(best.Name(), label)
	}
	key := fmt.Sprintf("attention %s %s %+v", best.Name(), plan.Label, p)
	l, err := d.NewLaunch(label, key, driver.Steps(plan.Bind(at)), o.Q.Buffer, o.Position.Buffer, o.Cache.Keys.Buffer, o.Cache.Values.Buffer, o.Out.Buffer)
	if err != nil {
		return nil, fmt.Errorf("attention: %w", err)
	}
	l.Tiled = plan.Tiling
	return l, nil
}

// Operands checks sizes and operands and finds the operands' addresses.
func (d Ladder) Operands(o kernels.Attention) (p Problem, at Addresses, err error) {
	if p, err = NewProblem(o); err != nil {
		return p, at, err
	}
	width := o.Heads.Query * o.Heads.Dim
	for _, m := range []struct {
		name           string
		operand        kernels.Operand
		rows, cols, ld int
		dtype          kernels.DType
		to             *uint64
	}{
		{"Q", o.Q, o.Rows, width, o.LDQ, o.DType, &at.q},
		{"Position", o.Position, 1, 1, 1, kernels.INT32, &at.position},
		{"Keys", o.Cache.Keys, o.Heads.KV * o.Cache.Capacity, o.Heads.Dim, o.Heads.Dim, o.DType, &at.keys},
		{"Values", o.Cache.Values, o.Heads.KV * o.Cache.Capacity, o.Heads.Dim, o.Heads.Dim, o.DType, &at.values},
		{"Out", o.Out, o.Rows, width, width, o.DType, &at.out},
	} {
		if *m.to, err = d.Matrix(m.name, m.operand, m.rows, m.cols, m.ld, m.dtype); err != nil {
			return p, at, err
		}
	}
	p.aligned = planning.AlignmentOf(at.q|at.keys|at.values|at.out, int64(o.LDQ)*int64(o.DType.Size()))
	return p, at, nil
}
