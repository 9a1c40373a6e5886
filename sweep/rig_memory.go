package sweep

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// slots is the number of places of A and C that a case rotates over: one, except in the cold regime, where a
// place must leave the cache before its next use. It divides the number of copies, so both rotations stay in
// step.
func (b *rig) slots(c results.Case) int {
	if !c.Operation.Stores() {
		return placesFor(c, b.spec.LastLevelCacheBytes)
	}
	if c.Regime != results.Cold {
		return 1
	}
	copies := copiesFor(c.Regime, weightBytes(c), b.spec.LastLevelCacheBytes)
	if s := b.sets[matrixOf(c)]; s != nil {
		copies = len(s.raw)
	}
	touched := int64(c.Subject.Bytes(int(rows(c))))
	return slotsOf(copies, max(2, kernels.RotationFactor*b.spec.LastLevelCacheBytes/touched+1))
}

// slotsOf is the least divisor of copies that is not below need; at most copies.
func slotsOf(copies int, need int64) int {
	n := int(min(int64(copies), need))
	for copies%n != 0 {
		n++
	}
	return n
}

// slotAlign keeps places of A and C on separate cache lines and pages.
const slotAlign = 4096

func slotBytes(elements int64, d kernels.DType) int64 {
	return (elements*int64(d.Size()) + slotAlign - 1) / slotAlign * slotAlign
}

// inputBytes leaves room for a copy of the scales or the residual behind the rows: see [copiedBytes].
func inputBytes(c results.Case) int64 {
	return (c.InputBytes(int(rows(c))) + slotAlign - 1) / slotAlign * slotAlign
}

// besideBytes is the size of a place for the scales of a case's activations, or its residual. Scales of each part lie
// together, as a kernel that quantizes the part writes them.
func besideBytes(c results.Case) (bytes int64) {
	for _, m := range ms(c) {
		bytes += besideOf(c, m)
	}
	return (bytes + slotAlign - 1) / slotAlign * slotAlign
}

// besideOf is the size of the scales or the residual of m rows.
func besideOf(c results.Case, m int) int64 {
	if !c.Scaled() {
		return c.ResidualElements(m) * int64(c.DType.Size())
	}
	t, err := task(c, m).Normalized()
	if err != nil {
		return 0 // no kernel takes it
	}
	of, _ := t.ActivationScales()
	const align = 64
	return (int64(of.Extent(of.LD)*of.Type.Size()) + align - 1) / align * align
}

// sweptScale is the scale of all activations, as of elements up to 4. One value for all gives a row the same result in
// every layout of scales.
const sweptScale = 4.0 / kernels.MaxFP8

// fillScales writes the scales that lie from a byte of a buffer to its end.
func fillScales(b kernels.Buffer, from int64) error {
	content := make([]byte, min(b.Bytes()-from, 1<<20))
	for i := 0; i+4 <= len(content); i += 4 {
		binary.LittleEndian.PutUint32(content[i:], math.Float32bits(sweptScale))
	}
	for ; from < b.Bytes(); from += int64(len(content)) {
		if err := b.Upload(from, content[:min(int64(len(content)), b.Bytes()-from)]); err != nil {
			return err
		}
	}
	return nil
}

// roomBytes is 0 if rows are not copied.
func roomBytes(c results.Case) int64 {
	if !c.Copied {
		return 0
	}
	return inputBytes(c)
}

// copiedBytes is the amount copied before a case's product, or 0.
func copiedBytes(c results.Case) int64 {
	if !c.Copied {
		return 0
	}
	return c.InputBytes(c.M)
}

func outputBytes(c results.Case) int64 {
	return slotBytes(c.OutputElements(int(rows(c))), c.OutputType())
}

func (b *rig) operandBytes(c results.Case) int64 {
	return int64(b.slots(c)) * (inputBytes(c) + roomBytes(c) + outputBytes(c) + 2*besideBytes(c))
}

// reserve keeps buffers that are large enough, with the launches bound to them.
func (b *rig) reserve(ctx context.Context, cases []results.Case) error {
	need := map[kernels.DType]*operands{}
	for _, c := range cases {
		n := need[c.DType]
		if n == nil {
			n = &operands{}
			need[c.DType] = n
		}
		slots := int64(b.slots(c))
		n.aBytes = max(n.aBytes, slots*inputBytes(c))
		n.cBytes = max(n.cBytes, slots*outputBytes(c))
		n.roomBytes = max(n.roomBytes, slots*roomBytes(c))
		n.besideBytes = max(n.besideBytes, slots*besideBytes(c))
		n.scaled = n.scaled || c.Scaled()
	}
	for d, n := range need {
		have := b.activations[d]
		if have != nil && have.sizes.covers(n.sizes) {
			continue
		}
		if err := b.land(); err != nil {
			return err
		}
		if have != nil {
			n.sizes = n.sizes.max(have.sizes)
			delete(b.activations, d)
			if err := b.watched("free A and C of "+d.String(), have.close); err != nil {
				return err
			}
		}
		if err := b.halted(ctx); err != nil {
			return err
		}
		err := b.watched("allocate A and C of "+d.String(), func() (err error) {
			n, err = b.newOperands(d, n.sizes, nil)
			return err
		})
		if err != nil {
			return err
		}
		b.activations[d] = n
	}
	return nil
}

func (o *operands) close() error {
	var errs []error
	for _, buf := range []kernels.Buffer{o.a, o.c, o.room} {
		if buf != nil {
			errs = append(errs, buf.Close())
		}
	}
	o.a, o.c, o.room = nil, nil, nil
	return errors.Join(errs...)
}

// load frees other weights if memory is short. failed holds the errors by matrix.
func (b *rig) load(ctx context.Context, ds []demand) (failed map[matrixKey]error, err error) {
	keep := map[matrixKey]bool{}
	var need int64
	for _, d := range ds {
		keep[d.key] = true
		if s := b.sets[d.key]; s == nil {
			need += d.bytes(d.copies)
		}
	}
	if slices.ContainsFunc(ds, func(d demand) bool { return b.sets[d.key] == nil }) {
		if err := b.land(); err != nil {
			return nil, err
		}
	}
	for key, s := range b.sets {
		if b.used+need <= b.budget {
			break
		}
		if keep[key] {
			continue
		}
		b.used -= s.cost
		delete(b.sets, key)
		if err := b.watched("free weights "+key.String(), s.close); err != nil {
			return nil, err
		}
	}
	before := b.allocation
	for _, d := range ds {
		if b.sets[d.key] != nil {
			continue
		}
		b.allocation = before + 1
		var s *weightSet
		err := b.watched("make weights "+d.key.String(), func() (err error) {
			s, err = b.newWeightSet(ctx, d)
			return err
		})
		if deviceLost(err) || errors.Is(err, errHalted) {
			return nil, err
		}
		if err != nil {
			if failed == nil {
				failed = map[matrixKey]error{}
			}
			failed[d.key] = err
			continue
		}
		b.sets[d.key] = s
		b.used += s.cost
	}
	return failed, nil
}

// admit reports whether a case's weights are loaded and its packed form exists or fits the budget. If it
// fits, admit reserves the memory.
func (b *rig) admit(c results.Case) bool {
	s, form := b.sets[matrixOf(c)], formOf(c)
	if s == nil {
		return false
	}
	if s.budgeted[form] {
		return true
	}
	more := int64(packedMargin * float64(s.key.bytes()) * float64(len(s.raw)))
	if b.used+more > b.budget {
		return false
	}
	s.budgeted[form] = true
	s.cost += more
	b.used += more
	return true
}

func (b *rig) holds(c results.Case) bool {
	have, slots := b.activations[c.DType], int64(b.slots(c))
	need := sizes{slots * inputBytes(c), slots * outputBytes(c), slots * roomBytes(c), slots * besideBytes(c), c.Scaled()}
	return have != nil && have.sizes.covers(need)
}
