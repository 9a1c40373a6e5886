//go:build cuda

package gemm

import (
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// GroupKernel computes grouped products in one launch that reads the groups' rows on the device.
type GroupKernel struct {
	dev    *driver.Device
	name   string
	family GroupFamily
	serial bool
	picked planning.Kept[Groups, planning.Choice[Groups, GroupAddresses]]
}

var _ kernels.Packer = (*GroupKernel)(nil)

// NewGroupKernel makes the kernel of a family on a device. serial launches wait for the end of the previous one.
func NewGroupKernel(d *driver.Device, name string, f GroupFamily, serial bool) *GroupKernel {
	return &GroupKernel{dev: d, name: name, family: f, serial: serial}
}

// Name implements [kernels.Kernel].
func (k *GroupKernel) Name() string { return k.name }

// Describe implements [kernels.Kernel].
func (k *GroupKernel) Describe() string { return k.family.Describe(k.dev.Arch()) }

func (k *GroupKernel) task(t kernels.Task) (kernels.Task, error) {
	t, err := t.Grouped(k.name, 0)
	if err != nil {
		return t, err
	}
	if why := k.family.Supports(k.dev.Arch(), GroupsInBuffers(t)); why != "" {
		return t, t.Unsupported(k.name, why)
	}
	return t, nil
}

// Supports implements [kernels.Kernel].
func (k *GroupKernel) Supports(t kernels.Task) error {
	_, err := k.task(t)
	return err
}

// Packs implements [kernels.Packer].
func (k *GroupKernel) Packs(t kernels.Task) bool { return driver.Packs(t.OneGroup()) }

// stackedWeights are the weights of all groups below each other, in rows at multiples of 16 bytes.
type stackedWeights struct {
	of      kernels.Task
	raw     *driver.Buffer
	ldb     int
	form    *driver.Buffer // nil if raw has that form
	seconds float64
}

// Bytes implements [kernels.Weights].
func (w *stackedWeights) Bytes() int64 {
	return int64(w.of.Groups) * int64(w.of.N) * int64(w.ldb) * int64(w.of.DType.Size())
}

// Close implements [kernels.Weights].
func (w *stackedWeights) Close() error {
	if w.form == nil {
		return nil
	}
	form := w.form
	w.form = nil
	return form.Close()
}

// Detached implements [kernels.Detached].
func (w *stackedWeights) Detached() bool { return w.form != nil }

// Packing implements [kernels.Packed].
func (w *stackedWeights) Packing() (seconds float64, ok bool) { return w.seconds, w.form != nil }

// Prepare stacks the weights of all groups.
func (k *GroupKernel) Prepare(t kernels.Task, raw kernels.Buffer) (kernels.Weights, error) {
	t, err := k.task(t)
	if err != nil {
		return nil, err
	}
	address, err := k.dev.Matrix("B", kernels.Operand{Buffer: raw}, t.Groups*t.N, t.K, t.K, t.DType)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", t, err)
	}
	one, err := t.OneGroup().Normalized()
	if err != nil {
		return nil, err
	}
	w := &stackedWeights{of: t, raw: raw.(*driver.Buffer), ldb: t.K} // Matrix has checked the type
	if !driver.Packs(one) {
		return w, nil
	}
	w.ldb = support.PackedLDB(t.DType, t.K)
	form, err := k.dev.Alloc(w.Bytes())
	if err != nil {
		return nil, fmt.Errorf("%v: pack weights: %w", t, err)
	}
	w.form = form.(*driver.Buffer)
	size := uint64(t.DType.Size())
	for g := range uint64(t.Groups) {
		from, to := address+g*uint64(t.N*t.K)*size, w.form.Address+g*uint64(t.N*w.ldb)*size
		seconds, err := k.dev.Timed(support.PackCall(k.dev.Arch(), one, from, to))
		if err != nil {
			w.Close()
			return nil, fmt.Errorf("%v: pack weights of group %d: %w", t, g, err)
		}
		w.seconds += seconds
	}
	return w, nil
}

// sizesOf makes the table of the groups' rows.
func (k *GroupKernel) sizesOf(t kernels.Task) (*driver.Table, error) {
	rows, err := t.GroupRows(t.M)
	if err != nil {
		return nil, err
	}
	sizes := make([]int32, len(rows))
	for i, n := range rows {
		sizes[i] = int32(n)
	}
	return driver.NewTable(k.dev, sizes)
}

// Bind implements [kernels.Kernel].
func (k *GroupKernel) Bind(t kernels.Task, a kernels.Operand, w kernels.Weights, c kernels.Operand,
	_ ...kernels.Operand) (kernels.Launch, error) {
	t, err := k.task(t)
	if err != nil {
		return nil, err
	}
	l, err := k.bind(Groups{Task: t}, a, w, c)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", t, err)
	}
	if k.serial {
		l.Serialize()
	}
	return l, nil
}

// BindMasked is Bind for the form that decoders use: A and C have stride rows for each group, of which the first are the
// group's. The launch leaves the other rows of C alone.
func (k *GroupKernel) BindMasked(t kernels.Task, stride int, a kernels.Operand, w kernels.Weights, c kernels.Operand) (kernels.Launch,
	error) {
	t, err := k.task(t)
	if err != nil {
		return nil, err
	}
	rows, err := t.GroupRows(t.M)
	if err != nil {
		return nil, err
	}
	if most := slices.Max(rows); stride < most {
		return nil, fmt.Errorf("%v: a group has %d rows, %d apart from the next", t, most, stride)
	}
	return k.bind(Groups{Task: t, Stride: stride}, a, w, c)
}

func (k *GroupKernel) bind(p Groups, a kernels.Operand, w kernels.Weights, c kernels.Operand) (*driver.Launch, error) {
	t := p.Task
	own, ok := w.(*stackedWeights)
	if !ok || own == nil || own.of.N != t.N || own.of.K != t.K || own.of.Groups != t.Groups || own.of.DType != t.DType {
		return nil, fmt.Errorf("weights are a %T, not prepared by kernel %s for %d groups of n%d k%d", w, k.name, t.Groups, t.N, t.K)
	}
	at := GroupAddresses{Addresses: Addresses{B: own.raw.Address, LDB: own.ldb}}
	if own.form != nil {
		at.B = own.form.Address
	}
	if at.B == 0 {
		return nil, fmt.Errorf("its weights are closed")
	}
	var err error
	if at.A, err = k.dev.Matrix("A", a, p.Rows(), t.K, t.K, t.DType); err != nil {
		return nil, err
	}
	if at.C, err = k.dev.Matrix("C", c, p.Rows(), t.N, t.N, t.DType.Output()); err != nil {
		return nil, err
	}
	sizes, err := k.sizesOf(t)
	if err != nil {
		return nil, err
	}
	at.Sizes = sizes.Address
	q := GroupsAt(t, at.A, at.C)
	q.Stride = p.Stride
	choice := k.picked.Choice(q, func() planning.Choice[Groups, GroupAddresses] {
		of, _ := planning.Choose([]GroupFamily{k.family}, k.dev.Arch(), q) // it is supported
		return of
	})
	problem := fmt.Sprintf("%v, groups %d apart, aligned to %d and %d", t, q.Stride, q.Aligned.A, q.Aligned.C)
	return driver.Planned(k.dev, choice, problem, nil, func(scratch, flags uint64) GroupAddresses {
		at.Scratch, at.Flags = scratch, flags
		return at
	}, sizes, a.Buffer, w, c.Buffer)
}

// Choice implements [kernels.Kernel].
func (k *GroupKernel) Choice(t kernels.Task) (kernels.Choice, error) {
	t, err := k.task(t)
	if err != nil {
		return kernels.Choice{}, err
	}
	plan := k.family.Plan(k.dev.Arch(), GroupsInBuffers(t))
	return kernels.Choice{Label: plan.Label, Tiling: plan.Tiling, Stages: plan.Stages, Slots: float64(plan.Slots)}, nil
}

// groupChooser is the kernel of a family that chooses among plans.
type groupChooser struct {
	*GroupKernel
	chooser planning.Chooser[Groups, GroupAddresses]
}

var _ kernels.Planned = groupChooser{}

// NewGroupChooser makes the kernel of a family whose plans are kernels, too.
func NewGroupChooser(d *driver.Device, f planning.Chooser[Groups, GroupAddresses]) kernels.Kernel {
	return groupChooser{NewGroupKernel(d, f.Name(), f, false), f}
}

// Plan implements [kernels.Planned].
func (c groupChooser) Plan(n int) kernels.Kernel {
	nth := planning.Nth[Groups, GroupAddresses]{Chooser: c.chooser, N: n}
	return NewGroupKernel(c.dev, kernels.CandidateName(c.name, n), nth, false)
}
