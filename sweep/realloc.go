package sweep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Where operands lie in memory changes times by a share of a percent to a few: which
// channels, banks and cache sets they share, and whether pages are large. All samples on one
// placement would have that in common, and the interval of a row would not know of it. So
// the operands are allocated anew between rounds, as often as allocationShare leaves time.
const (
	// allocationShare is the share of the time that allocating anew may take.
	allocationShare = 0.01
	// Spacers are of up to spacerUnits of spacerUnit each: one is held while all operands
	// are placed, so that they do not get the places of the time before the last.
	spacerUnit  = 2 << 20
	spacerUnits = 64
)

// renew allocates the operands anew where that is due: whenever what the last time took is
// within allocationShare of what blocks have taken since, and at once where it must be. The
// first time, after one round, shows what it takes.
func (b *rig) renew(ctx context.Context, must bool) error {
	if !b.stale(must) {
		return nil
	}
	if err := b.land(); err != nil {
		return err
	}
	began := b.watch.time()
	err := b.watched("allocate operands anew", func() error {
		return b.reallocate(ctx, source(b.seed, streamAllocation, uint64(b.allocation)))
	})
	b.renewal, b.renewed = b.watch.took(&b.watch.Allocation, began).Seconds(), b.busy
	return err
}

// stale says whether renew allocates anew.
func (b *rig) stale(must bool) bool {
	worked := b.busy - b.renewed
	return worked > 0 && (must || b.renewal <= allocationShare*worked)
}

// reallocate moves all operands to other memory: weights, what kernels made of them, and A
// and C. Their content stays. Launches are bound anew when they are used next. Operands that
// are lost in this, which takes a device with no memory left, are gone from the rig like
// those that were never loaded.
func (b *rig) reallocate(ctx context.Context, src *rand.PCG) error {
	var moves []func() error
	for _, key := range slices.SortedFunc(maps.Keys(b.sets), compareKeys) {
		moves = append(moves, func() error { return b.moveSet(ctx, key, src) })
	}
	for _, d := range slices.Sorted(maps.Keys(b.activations)) {
		moves = append(moves, func() error { return b.moveOperands(ctx, d) })
	}
	shuffle(src, moves)
	// Without room for it the order alone has to do.
	spacer, err := b.device.Alloc(int64(1+below(src, spacerUnits)) * spacerUnit)
	if deviceLost(err) {
		return err
	}
	for _, move := range moves {
		if err = move(); err != nil {
			break
		}
	}
	if spacer != nil {
		err = errors.Join(err, spacer.Close())
	}
	b.allocation++
	return err
}

// roomFor says whether bytes can be allocated while all operands stay, and some are left.
func (b *rig) roomFor(bytes int64) bool {
	return bytes+bytes/8 <= freeMemory(b.device)
}

// moveSet moves a weight matrix and its forms. Where memory has no room for both at once,
// the old ones are freed first and all is made anew.
func (b *rig) moveSet(ctx context.Context, key matrixKey, src *rand.PCG) error {
	old := b.sets[key]
	if b.roomFor(old.cost) {
		s, err := b.copySet(old, src)
		if err == nil {
			b.sets[key] = s
			return old.close()
		}
		if deviceLost(err) {
			return err
		}
	}
	if err := old.close(); err != nil {
		return err
	}
	d := demand{key: key, forms: slices.Collect(maps.Keys(old.budgeted)), copies: old.copies}
	s, err := b.newWeightSet(ctx, d)
	if err != nil {
		delete(b.sets, key)
		b.used -= old.cost
		return fmt.Errorf("allocate anew: %w", err)
	}
	s.next, s.cost = old.next, old.cost
	b.sets[key] = s // its forms are made when they are used
	return nil
}

// copySet makes a second set of the same weights, in memory taken in another order.
func (b *rig) copySet(old *weightSet, src *rand.PCG) (_ *weightSet, err error) {
	s := &weightSet{key: old.key, cost: old.cost, copies: old.copies, budgeted: maps.Clone(old.budgeted), next: old.next,
		raw: make([]kernels.Buffer, len(old.raw)), forms: map[formKey]*weightForm{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	order := make([]int, len(old.raw))
	for i := range order {
		order[i] = i
	}
	shuffle(src, order)
	if old.key.bytes() == 0 {
		order = nil // there is nothing to copy
	}
	for _, i := range order {
		b.dog.beat()
		if s.raw[i], err = b.device.Alloc(old.key.bytes()); err != nil {
			return nil, err
		}
		err = copyTo(s.raw[i], old.raw[i], func() error {
			return old.key.fill(s.raw[i], b.dist, source(b.seed, streamFill, uint64(i)).Uint64())
		})
		if err != nil {
			return nil, err
		}
	}
	for key, from := range old.forms {
		to := &weightForm{set: s, kernel: from.kernel, task: from.task, err: from.err}
		s.forms[key] = to
		for i, w := range from.copies {
			b.dog.beat()
			var again kernels.Weights
			if c, ok := w.(kernels.Copyable); ok {
				again, err = c.Copy(s.raw[i])
			} else {
				again, err = from.kernel.PrepareWeights(from.task, s.raw[i])
			}
			if err != nil {
				return nil, err
			}
			to.copies = append(to.copies, again)
		}
	}
	return s, nil
}

// copyTo gives a buffer the content of another one, which fill would give it too.
func copyTo(to, from kernels.Buffer, fill func() error) error {
	if c, ok := to.(kernels.Copier); ok {
		return c.CopyFrom(from)
	}
	return fill()
}

// moveOperands moves A and C of a data type.
func (b *rig) moveOperands(ctx context.Context, d kernels.DType) error {
	old := b.activations[d]
	if b.roomFor(old.aBytes + old.cBytes + old.roomBytes) {
		o, err := b.newOperands(d, old.sizes, old.a)
		if err == nil {
			b.activations[d] = o
			return old.close()
		}
		if deviceLost(err) {
			return err
		}
	}
	delete(b.activations, d)
	if err := old.close(); err != nil {
		return err
	}
	if err := b.halted(ctx); err != nil {
		return err
	}
	o, err := b.newOperands(d, old.sizes, nil)
	if err != nil {
		return fmt.Errorf("allocate anew: %w", err)
	}
	b.activations[d] = o
	return nil
}

// newOperands allocates A, C, and room for copies of rows; A is copied from another one where there
// is one, else filled.
func (b *rig) newOperands(d kernels.DType, s sizes, from kernels.Buffer) (_ *operands, err error) {
	o := &operands{sizes: s}
	if o.a, err = b.device.Alloc(s.aBytes); err != nil {
		return nil, fmt.Errorf("operand A of %s, %d bytes: %w", d, s.aBytes, err)
	}
	seed := source(b.seed, streamFill, math.MaxUint64).Uint64()
	if from != nil {
		err = copyTo(o.a, from, func() error { return o.a.Fill(b.dist, d, o.a.Bytes()/int64(d.Size()), seed) })
	} else {
		err = o.a.Fill(b.dist, d, s.aBytes/int64(d.Size()), seed)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("operand A of %s: %w", d, err), o.close())
	}
	if o.c, err = b.device.Alloc(s.cBytes); err != nil {
		return nil, errors.Join(fmt.Errorf("operand C of %s, %d bytes: %w", d, s.cBytes, err), o.close())
	}
	if s.roomBytes == 0 {
		return o, nil
	}
	// What no copy has reached yet is multiplied as well: the rows that are thrown away.
	if o.room, err = b.device.Alloc(s.roomBytes); err == nil {
		err = o.room.Fill(b.dist, d, s.roomBytes/int64(d.Size()), seed)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("room for rows of A of %s, %d bytes: %w", d, s.roomBytes, err), o.close())
	}
	return o, nil
}
