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

// The placement of operands changes times by up to a few percent: it determines shared channels, banks and
// cache sets, and whether pages are large. With one placement this error would be common to all samples and
// missing from the intervals. Operands are therefore reallocated between rounds.
const (
	allocationShare = 0.01
	// sharedAllocationShare is the share on a device with kernels of other processes, where each launch has to be bound,
	// compiled and captured again.
	sharedAllocationShare = 0.05
	// A spacer of up to spacerUnits of spacerUnit bytes keeps operands from returning to an earlier
	// placement.
	spacerUnit  = 2 << 20
	spacerUnits = 64
)

// renew reallocates if the cost of the last time is within allocationShare of the block time since, or with
// must unless the device is shared. The first time, after one round, gives the cost.
func (b *rig) renew(ctx context.Context, must bool) error {
	if !b.stale(must) {
		return nil
	}
	if err := b.land(); err != nil {
		return err
	}
	began := b.watch.time()
	err := b.watched("allocate operands again", func() error {
		return b.reallocate(ctx, source(b.seed, streamAllocation, uint64(b.allocation)))
	})
	b.renewal, b.renewed, b.rebinding = b.watch.took(&b.watch.Allocation, began).Seconds(), b.busy, 0
	return err
}

func (b *rig) stale(must bool) bool {
	worked := b.busy - b.renewed
	if shared(b.device) {
		return worked > 0 && b.renewal+b.rebinding <= sharedAllocationShare*worked
	}
	return worked > 0 && (must || b.renewal <= allocationShare*worked)
}

// reallocate moves all operands with their content. Launches are bound again at the next use. If memory runs
// out, lost operands are removed from the rig as if never loaded.
func (b *rig) reallocate(ctx context.Context, src *rand.PCG) error {
	var moves []func() error
	for _, key := range slices.SortedFunc(maps.Keys(b.sets), compareKeys) {
		moves = append(moves, func() error { return b.moveSet(ctx, key, src) })
	}
	for _, d := range slices.Sorted(maps.Keys(b.activations)) {
		moves = append(moves, func() error { return b.moveOperands(ctx, d) })
	}
	shuffle(src, moves)
	// Without room for the spacer, only the order changes.
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

// roomFor reports whether bytes fit in addition to all operands, with some memory left.
func (b *rig) roomFor(bytes int64) bool {
	return bytes+bytes/8 <= freeMemory(b.device)
}

// moveSet moves a weight matrix and its forms. Without room for both copies, it frees the old ones first and
// fills them again.
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
		return fmt.Errorf("allocate again: %w", err)
	}
	s.next, s.cost, s.looked = old.next, old.cost, old.looked
	b.sets[key] = s // its forms are made at first use
	return nil
}

func (b *rig) copySet(old *weightSet, src *rand.PCG) (_ *weightSet, err error) {
	s := &weightSet{key: old.key, cost: old.cost, copies: old.copies, budgeted: maps.Clone(old.budgeted), next: old.next,
		looked: old.looked, raw: make([]kernels.Buffer, len(old.raw)), forms: map[formKey]*weightForm{}}
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
		order = nil
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
				again, err = from.kernel.Prepare(from.task, s.raw[i])
			}
			if err != nil {
				return nil, err
			}
			to.copies = append(to.copies, again)
		}
	}
	return s, nil
}

// copyTo copies a buffer; fill would produce the same content.
func copyTo(to, from kernels.Buffer, fill func() error) error {
	if c, ok := to.(kernels.Copier); ok {
		return c.CopyFrom(from)
	}
	return fill()
}

// copyEnd copies what lies from a byte of a buffer to its end into another, through the host. Copied rows have the residuals of
// those that they are copies of.
func copyEnd(to kernels.Buffer, at int64, from kernels.Buffer, first int64) error {
	part := make([]byte, min(from.Bytes()-first, 1<<20))
	for first < from.Bytes() {
		some := part[:min(int64(len(part)), from.Bytes()-first)]
		if err := from.Download(first, some); err != nil {
			return err
		}
		if err := to.Upload(at, some); err != nil {
			return err
		}
		first, at = first+int64(len(some)), at+int64(len(some))
	}
	return nil
}

func (b *rig) moveOperands(ctx context.Context, d kernels.DType) error {
	old := b.activations[d]
	if b.roomFor(old.aBytes + old.cBytes + old.roomBytes + 2*old.besideBytes) {
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
		return fmt.Errorf("allocate again: %w", err)
	}
	b.activations[d] = o
	return nil
}

// newOperands allocates A, C, and room for copied rows. It copies A from another buffer if given, else fills
// it.
func (b *rig) newOperands(d kernels.DType, s sizes, from kernels.Buffer) (_ *operands, err error) {
	o := &operands{sizes: s}
	if o.a, err = b.device.Alloc(s.aBytes + s.besideBytes); err != nil {
		return nil, fmt.Errorf("operand A of %s, %d bytes: %w", d, s.aBytes, err)
	}
	seed := source(b.seed, streamFill, math.MaxUint64).Uint64()
	if from != nil {
		err = copyTo(o.a, from, func() error { return o.a.Fill(b.dist, d, o.a.Bytes()/int64(d.Size()), seed) })
	} else {
		err = o.a.Fill(b.dist, d, o.a.Bytes()/int64(d.Size()), seed)
	}
	if err == nil && s.scaled {
		err = fillScales(o.a, s.aBytes)
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
	// Rows that no copy has reached yet are multiplied too; their results are discarded.
	if o.room, err = b.device.Alloc(s.roomBytes + s.besideBytes); err == nil {
		err = o.room.Fill(b.dist, d, o.room.Bytes()/int64(d.Size()), seed)
	}
	switch {
	case err != nil || s.besideBytes == 0:
	case s.scaled:
		err = fillScales(o.room, s.roomBytes)
	default:
		err = copyEnd(o.room, s.roomBytes, o.a, s.aBytes)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("room for rows of A of %s, %d bytes: %w", d, s.roomBytes, err), o.close())
	}
	return o, nil
}
