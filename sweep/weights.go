package sweep

import (
	"context"
	"errors"
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// weightSet is the copies of one weight matrix, over which launches rotate, and
// the forms that kernels made of them.
type weightSet struct {
	key matrixKey
	raw []kernels.Buffer
	// copies is how many there are; raw is empty once the set is closed.
	copies int
	cost   int64 // as budgeted, for the forms that are
	// budgeted are the forms that there is memory for.
	budgeted map[formKey]bool
	// next is the copy that the coming launch uses, whatever its M and kernel. It
	// runs on from block to block: between two uses of a copy every other one
	// has been read, by kernels that pack and by those that share the raw one.
	next  int
	forms map[formKey]*weightForm
}

// weightForm is what one kernel made of the copies, or why it could not.
type weightForm struct {
	set    *weightSet
	kernel kernels.Implementation
	task   kernels.Task // of which it depends on all but M
	copies []kernels.Weights
	err    error
}

// newWeightSet allocates and fills copies of a matrix. All of them may take many
// seconds, so that the rig is asked before each whether to go on; a single one
// is filled at the pace of memory and is not divided.
func (b *rig) newWeightSet(ctx context.Context, dm demand) (*weightSet, error) {
	s := &weightSet{key: dm.key, cost: dm.bytes(dm.copies), copies: dm.copies, forms: map[formKey]*weightForm{}, budgeted: map[formKey]bool{}}
	for _, f := range dm.forms {
		s.budgeted[f] = true
	}
	for i := range dm.copies {
		err := b.halted(ctx)
		if err == nil && dm.key.bytes() == 0 {
			s.raw = append(s.raw, nil) // the operation has no such operand
		} else if err == nil {
			var raw kernels.Buffer
			if raw, err = b.device.Alloc(dm.key.bytes()); err == nil {
				s.raw = append(s.raw, raw)
				err = dm.key.fill(raw, b.dist, source(b.seed, streamFill, uint64(i)).Uint64())
			}
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("copy %d of weights %v: %w", i+1, dm.key, err), s.close())
		}
	}
	return s, nil
}

// form returns what the kernel of a case makes of the copies, made at first use.
// The error is for all cases of the form; only that of halted is not kept.
func (s *weightSet) form(g kernels.Implementation, c results.Case, halted func() error) (*weightForm, error) {
	key := formOf(c)
	if f := s.forms[key]; f != nil {
		return f, f.err
	}
	f := &weightForm{set: s, kernel: g, task: task(c, int(rows(c)))}
	for i, raw := range s.raw {
		if err := halted(); err != nil {
			return nil, errors.Join(err, f.close())
		}
		w, err := g.PrepareWeights(f.task, raw)
		if err != nil {
			f.err = errors.Join(fmt.Errorf("kernel %s, copy %d of weights %v: %w", g.Name(), i+1, s.key, err), f.close())
			break
		}
		f.copies = append(f.copies, w)
	}
	s.forms[key] = f
	return f, f.err
}

func (f *weightForm) close() error {
	var errs []error
	for _, w := range f.copies {
		errs = append(errs, w.Close())
	}
	f.copies = nil
	return errors.Join(errs...)
}

func (s *weightSet) close() error {
	var errs []error
	for _, f := range s.forms {
		errs = append(errs, f.close()) // before the raw copies they may read
	}
	for _, b := range s.raw {
		if b != nil {
			errs = append(errs, b.Close())
		}
	}
	s.raw, s.forms = nil, nil
	return errors.Join(errs...)
}

// Rotation is how the weights of one kernel and matrix rotated, as measured from
// what the kernel holds rather than from what was planned.
type Rotation struct {
	Weights string `json:"weights"` // "bf16 n14336 k4096"
	Kernel  string `json:"kernel"`
	Copies  int    `json:"copies"`
	Bytes   int64  `json:"bytes"` // of all copies, in the kernel's form
	// Packing is what the kernel made of each copy ahead of all launches; nil where it reads
	// the weights as they are, or packs in each launch.
	Packing *Packing `json:"packing,omitempty"`
	// Enough is false when they are less than the regime asks for: three times
	// the last-level cache.
	Enough bool `json:"enough"`
}

// Packing is what it takes to bring weights into the form that a kernel reads.
type Packing struct {
	Seconds float64 `json:"seconds"` // for a copy, the median
	Bytes   int64   `json:"bytes"`   // of a copy in that form
}

// packing is that of a form, nil where it has none.
func (f *weightForm) packing() *Packing {
	var seconds []float64
	for _, w := range f.copies {
		if p, ok := w.(kernels.Packed); ok {
			if s, ok := p.Packing(); ok {
				seconds = append(seconds, s)
			}
		}
	}
	if len(seconds) == 0 {
		return nil
	}
	return &Packing{Seconds: median(seconds), Bytes: f.copies[0].Bytes()}
}

// rotation checks a form against the device's last-level cache.
func (f *weightForm) rotation(regime results.Regime, llc int64) Rotation {
	r := Rotation{Weights: f.set.key.String(), Kernel: f.kernel.Name(), Copies: len(f.copies), Packing: f.packing()}
	for _, w := range f.copies {
		r.Bytes += w.Bytes()
	}
	r.Enough = regime == results.Hot || len(f.copies) >= 2 && r.Bytes >= kernels.RotationFactor*llc
	return r
}
