package sweep

import (
	"context"
	"errors"
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// weightSet holds the rotating copies of one weight matrix and the kernels' packed forms.
type weightSet struct {
	key matrixKey
	raw []kernels.Buffer
	// raw is empty once the set is closed.
	copies   int
	cost     int64 // with the forms in budgeted
	budgeted map[formKey]bool
	// failed counts failed attempts to pack a form, of a kernel of another process.
	failed map[formKey]int
	// next continues from block to block, so every other copy is read between two uses of a copy, whether or
	// not a kernel packs.
	next  int
	forms map[formKey]*weightForm
	// looked are the columns that proofs compare, of one copy: see [rig.prove].
	looked [][][]float64
}

type weightForm struct {
	set    *weightSet
	kernel kernels.Kernel
	task   kernels.Task // its M does not affect the form
	copies []kernels.Weights
	err    error
}

// newWeightSet checks before each copy whether to continue, since filling may take many seconds.
func (b *rig) newWeightSet(ctx context.Context, dm demand) (*weightSet, error) {
	s := &weightSet{key: dm.key, cost: dm.bytes(dm.copies), copies: dm.copies, forms: map[formKey]*weightForm{},
		budgeted: map[formKey]bool{}}
	for _, f := range dm.forms {
		s.budgeted[f] = true
	}
	for i := range dm.copies {
		err := b.halted(ctx)
		if err == nil && dm.key.bytes() == 0 {
			s.raw = append(s.raw, nil)
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

// mostAttempts is how many cases may fail to pack the weights of their form.
const mostAttempts = 3

// form packs the copies at first use. Errors other than halted's are kept for all cases of the form, after mostAttempts of
// a kernel of another process.
func (s *weightSet) form(g kernels.Kernel, c results.Case, halted func() error) (*weightForm, error) {
	key := formOf(c)
	if f := s.forms[key]; f != nil {
		return f, f.err
	}
	f := &weightForm{set: s, kernel: g, task: task(c, int(rows(c)))}
	for i, raw := range s.raw {
		if err := halted(); err != nil {
			return nil, errors.Join(err, f.close())
		}
		w, err := g.Prepare(f.task, raw)
		if err != nil {
			f.err = errors.Join(fmt.Errorf("kernel %s, copy %d of weights %v: %w", g.Name(), i+1, s.key, err), f.close())
			break
		}
		f.copies = append(f.copies, w)
	}
	// Another process may have ended, and starts again, or its code failed for this M: the next case tries again.
	if f.err != nil && kernels.ProcessOf(g) != "" {
		if s.failed == nil { // as after a renewal of the buffers
			s.failed = map[formKey]int{}
		}
		if s.failed[key]++; s.failed[key] < mostAttempts {
			return f, f.err
		}
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
		errs = append(errs, f.close()) // before the raw copies that they may read
	}
	for _, b := range s.raw {
		if b != nil {
			errs = append(errs, b.Close())
		}
	}
	s.raw, s.forms = nil, nil
	return errors.Join(errs...)
}

// Rotation describes how the weights of one kernel and matrix rotated, measured from what the kernel holds
// rather than from the plan.
type Rotation struct {
	Weights string `json:"weights"` // "bf16 n14336 k4096"
	Kernel  string `json:"kernel"`
	Copies  int    `json:"copies"`
	Bytes   int64  `json:"bytes"` // of all copies, in the kernel's form
	// Packing describes packing ahead of all launches; nil if the kernel reads raw weights or packs in each
	// launch.
	Packing *Packing `json:"packing,omitempty"`
	// Enough is false if the copies are smaller than the regime requires: three times the last-level cache.
	Enough bool `json:"enough"`
}

// Packing is the cost of packing weights for a kernel.
type Packing struct {
	Seconds float64 `json:"seconds"` // per copy, the median
	Bytes   int64   `json:"bytes"`   // per copy in packed form
}

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
	return &Packing{Seconds: stats.Median(seconds), Bytes: f.copies[0].Bytes()}
}

func (f *weightForm) rotation(regime results.Regime, llc int64) Rotation {
	r := Rotation{Weights: f.set.key.String(), Kernel: f.kernel.Name(), Copies: len(f.copies), Packing: f.packing()}
	for _, w := range f.copies {
		r.Bytes += w.Bytes()
	}
	r.Enough = regime == results.Hot || len(f.copies) >= 2 && r.Bytes >= kernels.RotationFactor*llc
	return r
}
