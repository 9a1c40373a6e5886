//go:build cuda

package attention

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Way is one attention kernel of a device, or auto, which picks among them by modeled time.
type Way struct {
	dev      *driver.Device
	name     string
	describe string
	among    []attentionFamily
}

// NewWay makes a way of families on a device; describe is its one-line description.
func NewWay(d *driver.Device, name, describe string, among ...planning.Family[Problem, Addresses]) *Way {
	return &Way{dev: d, name: name, describe: describe, among: among}
}

// Ladder is the attention of a GPU.
type Ladder struct{ *driver.Device }

// AttentionKernels lists the kernels: auto, then decode, flash, naive.
func (d Ladder) AttentionKernels() []kernels.AttentionKernel {
	all := []kernels.AttentionKernel{NewWay(d.Device, "auto", "picks the least expected time among the others", attentionFamilies...)}
	for _, f := range attentionFamilies {
		way := NewWay(d.Device, f.Name(), f.Describe(d.Arch()), f)
		if choosing, ok := f.(planning.Chooser[Problem, Addresses]); ok {
			all = append(all, chooser{way, choosing})
		} else {
			all = append(all, way)
		}
	}
	return all
}

// chooser is the kernel of a family that chooses among plans; each of them is a kernel, too.
type chooser struct {
	*Way
	family planning.Chooser[Problem, Addresses]
}

// Plan implements [kernels.PlannedAttention].
func (c chooser) Plan(n int) kernels.AttentionKernel {
	f := planning.Nth[Problem, Addresses]{Chooser: c.family, N: n}
	return NewWay(c.dev, kernels.CandidateName(c.name, n), f.Describe(c.dev.Arch()), f)
}

// Name returns the kernel's name for selection.
func (t *Way) Name() string { return t.name }

// Describe returns a one-line description.
func (t *Way) Describe() string { return t.describe }

// Attends checks sizes and types; it assumes aligned operands.
func (t *Way) Attends(o kernels.Attention) error {
	p, err := NewProblem(o)
	if err != nil {
		return &kernels.Unsupported{Kernel: t.name, DType: o.DType, Reason: err.Error()}
	}
	if _, why := planning.Choose(t.among, t.dev.Arch(), p); why != "" {
		return &kernels.Unsupported{Kernel: t.name, DType: o.DType, Reason: why}
	}
	return nil
}

// Attend binds an attention. The error is a [*kernels.Unsupported] if no kernel supports it; otherwise it
// names the invalid operand or size.
func (t *Way) Attend(o kernels.Attention) (kernels.Launch, error) {
	l, err := Ladder{t.dev}.attend(t.name, t.among, o)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Attend binds an attention to the kernel with the least expected time. See [Way.Attend].
func (d Ladder) Attend(o kernels.Attention) (kernels.Launch, error) {
	l, err := d.attend("auto", attentionFamilies, o)
	if err != nil {
		return nil, err // a nil *launch in the interface would not be nil
	}
	return l, nil
}

func (d Ladder) attend(name string, among []attentionFamily, o kernels.Attention) (*driver.Launch, error) {
	p, at, err := d.Operands(o)
	if err != nil {
		return nil, fmt.Errorf("attention: %w", err)
	}
	c, why := planning.Choose(among, d.Arch(), p)
	if why != "" {
		return nil, &kernels.Unsupported{Kernel: name, DType: p.DType, Reason: why}
	}
	l, err := driver.Planned(d.Device, c, fmt.Sprintf("attention %+v", p), nil, func(scratch, flags uint64) Addresses {
		at.scratch, at.Flags = scratch, flags
		return at
	}, o.Q.Buffer, o.Position.Buffer, o.Cache.Keys.Buffer, o.Cache.Values.Buffer, o.Out.Buffer)
	if err != nil {
		return nil, fmt.Errorf("attention: %w", err)
	}
	return l, nil
}

// Operands checks sizes and operands and returns the operands' addresses.
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
