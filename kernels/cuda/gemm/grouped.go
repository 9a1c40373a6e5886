//go:build cuda

package gemm

import (
	"encoding/binary"
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
	sizes  map[string]*driver.Buffer // on the device, by their bytes
}

var _ kernels.Packer = (*GroupKernel)(nil)

// NewGroupKernel makes the kernel of a family on a device.
func NewGroupKernel(d *driver.Device, f GroupFamily) *GroupKernel {
	k := &GroupKernel{dev: d, name: f.Name(), family: f, sizes: map[string]*driver.Buffer{}}
	d.OnClose(k.close)
	return k
}

func (k *GroupKernel) close() error {
	for key, b := range k.sizes {
		delete(k.sizes, key)
		if err := b.Close(); err != nil {
			return err
		}
	}
	return nil
}

// Named returns the kernel with another name, for a choice of kernels; serial launches wait for the end of the previous one.
func (k *GroupKernel) Named(name string, serial bool) *GroupKernel {
	other := NewGroupKernel(k.dev, k.family)
	other.name, other.serial = name, serial
	return other
}

// Name implements [kernels.Kernel].
func (k *GroupKernel) Name() string { return k.name }

// Describe implements [kernels.Kernel].
func (k *GroupKernel) Describe() string { return k.family.Describe(k.dev.Arch()) }

func (k *GroupKernel) task(t kernels.Task) (kernels.Task, error) {
	t, err := t.Grouped(k.name)
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

// oneGroup is a product of one group, as its weights know it.
func oneGroup(t kernels.Task) kernels.Task {
	of := kernels.Task{Subject: kernels.Product(t.DType, t.N, t.K).In(t.Layout), M: 1}
	of, _ = of.Normalized() // sizes of a normalized task
	return of
}

// Packs implements [kernels.Packer].
func (k *GroupKernel) Packs(t kernels.Task) bool { return driver.Packs(oneGroup(t)) }

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
	one := oneGroup(t)
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

// sizesOf returns the address of the groups' rows.
func (k *GroupKernel) sizesOf(t kernels.Task) (uint64, error) {
	rows, err := t.GroupRows(t.M)
	if err != nil {
		return 0, err
	}
	var bytes []byte
	for _, n := range rows {
		bytes = binary.LittleEndian.AppendUint32(bytes, uint32(n))
	}
	key := string(bytes)
	if b, ok := k.sizes[key]; ok {
		return b.Address, nil
	}
	raw, err := k.dev.Alloc(int64(len(bytes)))
	if err != nil {
		return 0, err
	}
	b := raw.(*driver.Buffer)
	if err := b.Upload(0, bytes); err != nil {
		b.Close()
		return 0, err
	}
	k.sizes[key] = b
	return b.Address, nil
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
	if at.Sizes, err = k.sizesOf(t); err != nil {
		return nil, err
	}
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
	}, a.Buffer, w, c.Buffer)
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
	return groupChooser{NewGroupKernel(d, f), f}
}

// Plan implements [kernels.Planned].
func (c groupChooser) Plan(n int) kernels.Kernel {
	k := NewGroupKernel(c.dev, planning.Nth[Groups, GroupAddresses]{Chooser: c.chooser, N: n})
	k.name = kernels.CandidateName(c.name, n)
	return k
}
