//go:build cuda

package timing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/attention"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/gemm"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

const (
	// block is the length of one sample in seconds, unless a launch is longer.
	block = 200e-6
	// most is the maximum launches per sample.
	most = 400
)

// Which returns the indices of a family's plans to time, given their expected seconds.
type Which func(family string, expected []float64) []int

type bound struct {
	Rotation
	time candidates.Time // without the time
}

// Bound is a case's memory and its bound plans, with indices 0 to Len() - 1.
type Bound struct {
	*choosers
	c       candidates.Case
	closers []func() error
	bound   []bound
}

// Bind allocates and fills the memory of a case on d, and binds the plans that which selects. It executes
// each plan once. Close ends it.
func Bind(ctx context.Context, d *driver.Device, c candidates.Case, which Which) (*Bound, error) {
	all, err := newChoosers(d, c, which)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", c, err)
	}
	s := &Bound{choosers: all, c: c}
	if err := s.bind(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%v: %w", c, err), s.Close())
	}
	return s, nil
}

// Len returns the number of plans.
func (s *Bound) Len() int { return len(s.bound) }

// Plan returns the plan at an index, without a time.
func (s *Bound) Plan(i int) candidates.Time { return s.times[i] }

// Plans times the plans of a case that which selects, in rounds with an order drawn by rng, while another
// returns true. Rounds end early if ctx does.
func Plans(ctx context.Context, d *driver.Device, c candidates.Case, which Which, rng *rand.Rand,
	another func() bool) (times []candidates.Time, err error) {
	s, err := Bind(ctx, d, c, which)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	samples, clocks := make([][]float64, s.Len()), make([][]float64, s.Len())
	if err := s.rounds(ctx, rng, another, func(i int, span kernels.Span) {
		samples[i] = append(samples[i], span.Seconds/float64(s.Launches(i)))
		if span.ClockMHz > 0 {
			clocks[i] = append(clocks[i], span.ClockMHz)
		}
	}); err != nil {
		return nil, fmt.Errorf("%v: %w", c, err)
	}
	for i, of := range samples {
		if len(of) == 0 {
			return nil, fmt.Errorf("%v: no round was measured", c)
		}
		t := s.Plan(i)
		t.Seconds, t.Interval[0], t.Interval[1] = candidates.Median(of)
		if len(clocks[i]) > 0 {
			t.MHz, _, _ = candidates.Median(clocks[i])
		}
		times = append(times, t)
	}
	return times, nil
}

func (s *Bound) rounds(ctx context.Context, rng *rand.Rand, another func() bool, yield func(i int, span kernels.Span)) (err error) {
	f := &Flight{Device: s.Device}
	defer func() { err = errors.Join(err, f.Land()) }()
	for another() {
		for _, i := range rng.Perm(s.Len()) {
			if err := s.Start(ctx, f, i, func(span kernels.Span) { yield(i, span) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// Launches returns the launches per block of the plan at an index.
func (s *Bound) Launches(i int) int { return s.bound[i].N }

// Start starts a block of the plan at an index in f. yield receives its span when it ends.
func (s *Bound) Start(ctx context.Context, f *Flight, i int, yield func(kernels.Span)) error {
	b := &s.bound[i]
	return f.Start(ctx, kernels.Block{Launches: b.Turned(), N: b.N}, func(span kernels.Span, err error) error {
		if err != nil {
			return fmt.Errorf("%s %s: %w", b.time.Family, b.time.Label, err)
		}
		yield(span)
		return nil
	})
}

// Describe describes the measured card, with a date.
func Describe(d *driver.Device, date string) candidates.Card {
	s := d.Spec()
	return candidates.Describe(s.Name, cmp.Or(s.Versions["driver"], candidates.Unrecorded), date, d.Arch())
}

// Close frees the memory.
func (s *Bound) Close() error {
	var all []error
	for _, close := range slices.Backward(s.closers) {
		all = append(all, close())
	}
	return errors.Join(all...)
}

// alloc allocates memory filled with normal data; int32, which is output only, stays uninitialized.
func (s *Bound) alloc(bytes int64, t kernels.DType, seed uint64) (kernels.Buffer, error) {
	b, err := s.Alloc(bytes)
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, b.Close)
	if t == kernels.INT32 {
		return b, nil
	}
	return b, b.Fill(kernels.Normal, t, bytes/int64(t.Size()), seed)
}

// bind binds every plan over enough copies of weights, or of keys and values, for three times the L2.
func (s *Bound) bind(ctx context.Context) error {
	all := s.Kernels(s.c.Operation)
	if len(all) == 0 {
		return nil
	}
	task := s.c.Task()
	in, err := s.alloc(s.c.InputElements(s.c.M)*int64(s.c.DType.Size()), s.c.DType, 1)
	if err != nil {
		return err
	}
	out, err := s.alloc(s.c.OutputElements(s.c.M)*int64(s.c.OutputType().Size()), kernels.INT32, 0)
	if err != nil {
		return err
	}
	s.bound = make([]bound, len(all))
	stored := s.c.Stored(s.c.M)
	for n := range kernels.RotationFactor*s.Spec().LastLevelCacheBytes/stored + 1 {
		raw, err := s.alloc(stored, s.c.DType, uint64(n)+2)
		if err != nil {
			return err
		}
		// All our kernels share the prepared form of a matrix or a cache.
		weights, err := all[0].Prepare(task, raw)
		if err != nil {
			return err
		}
		s.closers = append(s.closers, weights.Close)
		for i, k := range all {
			b := &s.bound[i]
			b.time = s.times[i]
			l, err := k.Bind(task, kernels.Operand{Buffer: in}, weights, kernels.Operand{Buffer: out})
			if err != nil {
				return fmt.Errorf("%s %s: %w", b.time.Family, b.time.Label, err)
			}
			if l.Label() != b.time.Label {
				return fmt.Errorf("%s %s is %q when it is bound", b.time.Family, b.time.Label, l.Label())
			}
			b.Launches = append(b.Launches, l)
		}
	}
	for i := range s.bound {
		b := &s.bound[i]
		b.N = len(b.Launches)
		once, err := b.Seconds(ctx, s) // loads code, too
		if err != nil {
			return fmt.Errorf("%s %s: %w", b.time.Family, b.time.Label, err)
		}
		b.N = int(min(max(block/once, 1), most))
	}
	return nil
}

type planned[P, A any] struct {
	planning.Family[P, A]
	plan planning.Plan[A]
}

func (p planned[P, A]) Plan(planning.Arch, P) planning.Plan[A] { return p.plan }

func chosen[P, A any](a planning.Arch, f planning.Family[P, A], p P, which Which,
	yield func(index int, plan planning.Plan[A], one planning.Family[P, A])) {
	if f.Supports(a, p) != "" {
		return
	}
	all := f.(planning.Chooser[P, A]).Candidates(a, p)
	expected := make([]float64, len(all))
	for i, plan := range all {
		expected[i] = plan.Seconds
	}
	for _, i := range which(f.Name(), expected) {
		yield(i, all[i], planned[P, A]{f, all[i]})
	}
}

// choosers is a GPU whose kernels are all families' plans for one case, one kernel each.
type choosers struct {
	*driver.Device
	gemms      []kernels.Kernel
	attentions []kernels.AttentionKernel
	times      []candidates.Time // of the kernels, without times
}

// Kernels and Missing cover the plans only.
func (d *choosers) Kernels(o kernels.Operation) []kernels.Kernel {
	if o == kernels.GEMM {
		return d.gemms
	}
	return kernels.AttentionKernels(d, d.attentions)
}

func (d *choosers) Missing() []kernels.Missing { return nil }

func newChoosers(d *driver.Device, c candidates.Case, which Which) (*choosers, error) {
	all := &choosers{Device: d}
	add := func(family string, index int, label string) {
		all.times = append(all.times, candidates.Time{Case: c, Family: family, Index: index, Label: label})
	}
	if c.Operation == kernels.GEMM {
		p, err := c.Product()
		if err != nil {
			return nil, err
		}
		for _, f := range candidates.Products() {
			chosen(d.Arch(), f, p, which, func(i int, plan gemm.Plan, one gemm.Family) {
				add(f.Name(), i, plan.Label)
				all.gemms = append(all.gemms, gemm.NewKernel(d, f.Name(), "", one))
			})
		}
		return all, nil
	}
	p, err := c.Attention()
	if err != nil {
		return nil, err
	}
	for _, f := range candidates.Attentions() {
		chosen(d.Arch(), f, p, which,
			func(i int, plan planning.Plan[attention.Addresses], one planning.Family[attention.Problem, attention.Addresses]) {
				add(f.Name(), i, plan.Label)
				all.attentions = append(all.attentions, attention.NewWay(d, f.Name(), "", one))
			})
	}
	return all, nil
}
