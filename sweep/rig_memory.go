package sweep

import (
	"context"
	"errors"
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

func inputBytes(c results.Case) int64 {
	return slotBytes(c.InputElements(int(rows(c))), c.DType)
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
	return c.InputElements(c.M) * int64(c.DType.Size())
}

func outputBytes(c results.Case) int64 {
	return slotBytes(c.OutputElements(int(rows(c))), c.OutputType())
}

func (b *rig) operandBytes(c results.Case) int64 {
	return int64(b.slots(c)) * (inputBytes(c) + roomBytes(c) + outputBytes(c))
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
			n.aBytes, n.cBytes, n.roomBytes = max(n.aBytes, have.aBytes), max(n.cBytes, have.cBytes), max(n.roomBytes, have.roomBytes)
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
	return have != nil && have.sizes.covers(sizes{slots * inputBytes(c), slots * outputBytes(c), slots * roomBytes(c)})
}
