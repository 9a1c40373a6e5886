package kernels

import (
	"cmp"
	"errors"
	"fmt"
)

// GroupLoop computes grouped products with a kernel of products: those of the groups with rows, one after the other, or in
// lanes. It has the kernel's name, unless As is another.
type GroupLoop struct {
	TellsNothing
	Of Kernel
	As string
	// Lanes are kernels like Of, whose launches may run at the same time. The groups with rows take turns at them.
	Lanes []Kernel
	// Part returns a device's buffer from a byte on; it does not own the memory.
	Part func(raw Buffer, bytes int64) (Buffer, error)
	// Join makes one launch of several, at least one, and keeps the operands.
	Join func(t Task, launches []Launch, keep ...any) (Launch, error)
	// Extras are the formats of weights beyond plain ones that products of Of are computed with.
	Extras Extras
	// Most is the number of groups with rows that one launch can have; 0 is any.
	Most int
}

var _ Packer = (*GroupLoop)(nil)

// Name implements [Kernel].
func (k *GroupLoop) Name() string { return cmp.Or(k.As, k.Of.Name()) }

// Describe implements [Kernel].
func (k *GroupLoop) Describe() string {
	how := "a loop over the groups"
	if len(k.Lanes) > 0 {
		how += fmt.Sprintf(" in %d streams", len(k.Lanes))
	}
	return how + ": " + k.Of.Describe()
}

// supports returns the normalized task and its products.
func (k *GroupLoop) supports(t Task) (Task, []GroupedPart, error) {
	t, err := t.Grouped(k.Name(), k.Extras)
	if err != nil {
		return t, nil, err
	}
	parts, err := t.GroupedParts()
	switch {
	case err != nil:
		return t, nil, t.Unsupported(k.Name(), err.Error())
	case k.Most > 0 && len(parts) > k.Most:
		return t, nil, t.Unsupported(k.Name(), fmt.Sprintf("%d groups have rows, a launch has at most %d", len(parts), k.Most))
	}
	last := 0 // groups of equal size are alike
	for _, p := range parts {
		if p.M == last {
			continue
		}
		if err := k.Of.Supports(p.Task); err != nil {
			return t, nil, t.UnsupportedAs(k.Name(), err)
		}
		last = p.M
	}
	return t, parts, nil
}

// Supports implements [Kernel].
func (k *GroupLoop) Supports(t Task) error {
	_, _, err := k.supports(t)
	return err
}

// Packs implements [Packer].
func (k *GroupLoop) Packs(t Task) bool { return Packs(k.Of, t.OneGroup()) }

// Prepare prepares the weights of every group: another M has other groups with rows.
func (k *GroupLoop) Prepare(t Task, raw Buffer) (Weights, error) {
	t, _, err := k.supports(t)
	if err != nil {
		return nil, err
	}
	w := &groupWeights{}
	bytes := t.OneGroup().Stored(1)
	for i := range t.Groups {
		part, err := k.Part(raw, int64(i)*bytes)
		var one Weights
		if err == nil {
			one, err = k.Of.Prepare(t.OneGroup(), part)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%v: weights of group %d: %w", t, i, err), w.Close())
		}
		w.Of = append(w.Of, one)
	}
	return w, nil
}

// Bind implements [Kernel].
func (k *GroupLoop) Bind(t Task, a Operand, w Weights, c Operand, _ ...Operand) (Launch, error) {
	t, parts, err := k.supports(t)
	if err != nil {
		return nil, err
	}
	own, ok := w.(*groupWeights)
	if !ok || own == nil || len(own.Of) != t.Groups {
		return nil, fmt.Errorf("%v: weights are a %T, expected %d groups prepared by kernel %s", t, w, t.Groups, k.Name())
	}
	launches := make([]Launch, len(parts))
	for i, p := range parts {
		of := k.Of
		if len(k.Lanes) > 0 {
			of = k.Lanes[i%len(k.Lanes)]
		}
		launches[i], err = of.Bind(p.Task, Operand{Buffer: a.Buffer, Offset: a.Offset + p.Row*t.K}, own.Of[p.Group],
			Operand{Buffer: c.Buffer, Offset: c.Offset + p.Row*t.N})
		if err != nil {
			return nil, fmt.Errorf("group %d of %v: %w", p.Group, t, err)
		}
	}
	return k.Join(t, launches, a.Buffer, w, c.Buffer)
}

// ManyWeights are the weights of several products, which a kernel of single products prepared.
type ManyWeights struct{ Of []Weights }

// Bytes implements [Weights].
func (w *ManyWeights) Bytes() int64 {
	var bytes int64
	for _, one := range w.Of {
		bytes += one.Bytes()
	}
	return bytes
}

// Detached implements [Detached]; it is true if no product reads raw weights.
func (w *ManyWeights) Detached() bool {
	for _, one := range w.Of {
		if d, ok := one.(Detached); !ok || !d.Detached() {
			return false
		}
	}
	return true
}

// Close implements [Weights].
func (w *ManyWeights) Close() error {
	var errs []error
	for _, one := range w.Of {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}

// groupWeights are the weights of all groups.
type groupWeights struct{ ManyWeights }

// Packing implements [Packed] with the time of all groups.
func (w *groupWeights) Packing() (seconds float64, ok bool) {
	for _, one := range w.Of {
		p, packs := one.(Packed)
		if !packs {
			return 0, false
		}
		took, known := p.Packing()
		if !known {
			return 0, false
		}
		seconds += took
	}
	return seconds, len(w.Of) > 0
}
