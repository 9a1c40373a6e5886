package sweep

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// Beyond boundLimit launches, they are bound again for each block, outside of the timed part.
const boundLimit = 1 << 20

const maxLaunches = 1 << 20

// rig is one device with the operands of the current measurement. It is not safe for concurrent use.
type rig struct {
	device kernels.Device
	spec   kernels.Spec
	dist   kernels.Distribution
	seed   uint64
	target time.Duration // of a block
	least  int
	budget int64 // bytes for weights
	// due reports whether the measuring time is up; nil means never.
	due func() bool

	activations map[kernels.DType]*operands
	sets        map[matrixKey]*weightSet
	used        int64 // of the budget
	kernels     map[kernelKey]kernels.Kernel
	bound       int     // launches kept
	busy        float64 // seconds inside blocks
	rotations   map[formKey]Rotation
	allocation  int // number of allocations of the operands
	// renewal is the cost of the last reallocation in seconds; renewed is busy at that time.
	renewal, renewed float64
	// rebinding is the time in seconds that launches took since then because they were bound again.
	rebinding float64

	ahead   int       // blocks in flight while the host does other work
	flights []*flight // in the order of their starts
	windows [][]kernels.Launch
	opened  time.Time // start of the first block since the rig was idle
	inside  float64   // seconds inside blocks that landed since then

	paces  paces
	losses int // of the process that computes elsewhere
	watch  stopwatch

	dog   *watchdog      // watches the device's calls
	fault *FaultError    // makes the device unusable
	alone map[int64]bool // cases that run on the device alone
}

// operands are A and C of one data type, large enough for every case.
type operands struct {
	a, c kernels.Buffer
	// room receives copies of rows of A without spare rows behind them; nil without such a case.
	room kernels.Buffer
	sizes
}

// sizes are in bytes.
type sizes struct {
	aBytes, cBytes, roomBytes int64
	// besideBytes are behind A, and behind roomBytes: scales of activations if scaled, otherwise residuals.
	besideBytes int64
	scaled      bool
}

func (s sizes) covers(need sizes) bool {
	return s.aBytes >= need.aBytes && s.cBytes >= need.cBytes && s.roomBytes >= need.roomBytes &&
		s.besideBytes >= need.besideBytes && (s.scaled || !need.scaled)
}

// max returns sizes that cover both.
func (s sizes) max(o sizes) sizes {
	return sizes{max(s.aBytes, o.aBytes), max(s.cBytes, o.cBytes), max(s.roomBytes, o.roomBytes),
		max(s.besideBytes, o.besideBytes), s.scaled || o.scaled}
}

type station struct {
	c results.Case
	// Launches bound to another form are stale.
	form     *weightForm
	operands *operands
	launches []kernels.Launch // parts of copy 0, parts of copy 1, …; nil if unbound
	// perBlock is the number of executions per block, 0 before the pilot.
	perBlock int
	seconds  float64 // expected time of one execution
	// primed is true once the case ran for the first time in this start, after so many losses of its process.
	primed bool
	losses int
	proven bool // see [rig.prove]
	// ran are the launches of the last block, others all that differ from the case's first; only of another
	// process.
	ran, others []ran
	// rebound is true until the launches have run.
	rebound bool
	// asked is true once the kernel's internal launch has been requested.
	asked bool
}

// newRig returns a rig; limit is the maximum time of one device call, 0 for none.
func newRig(d kernels.Device, dist kernels.Distribution, seed uint64, target time.Duration, least int, limit time.Duration) (*rig, error) {
	b := &rig{
		device: d, spec: d.Spec(), dist: dist, seed: seed, target: target, least: max(1, least),
		dog:         newWatchdog(d.Spec().ID, limit),
		activations: map[kernels.DType]*operands{}, sets: map[matrixKey]*weightSet{},
		kernels: map[kernelKey]kernels.Kernel{}, rotations: map[formKey]Rotation{}, paces: paces{},
	}
	// Only one process at a time may have work on the device, so no block waits behind another.
	if _, ok := d.(kernels.Starter); ok && !shared(d) {
		b.ahead = 1
	}
	if w, ok := d.(kernels.Waiter); ok {
		w.WhileWaiting(b.dog.beat) // a compiler may take minutes
	}
	return b, b.dog.guard(func() error {
		b.dog.enter(0, "tell its free memory")
		b.budget = int64(memoryShare * float64(freeMemory(d)))
		b.dog.leave()
		return nil
	})
}

// errHalted is not about a case: a resumed sweep sets up again.
var errHalted = errors.New("stopped before the weights were in place")

// halted is called between the steps of setup, which may take long.
func (b *rig) halted(ctx context.Context) error {
	b.dog.beat()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", errHalted, context.Cause(ctx))
	case b.due != nil && b.due():
		return errHalted
	}
	return nil
}

// ms returns the batches of the launches that make up a case.
func ms(c results.Case) []int {
	switch {
	case len(c.Parts) > 0:
		return c.Parts
	case c.PadTo > 0:
		return []int{c.PadTo}
	}
	return []int{c.M}
}

func launchesOf(c results.Case) int {
	n := len(ms(c))
	if c.Copied {
		n++
	}
	return n
}

func rows(c results.Case) int64 { return int64(max(c.M, c.PadTo)) }

type kernelKey struct {
	operation kernels.Operation
	name      string
}

func (b *rig) kernel(c results.Case) (kernels.Kernel, error) {
	key := kernelKey{c.Operation, c.Kernel}
	if k := b.kernels[key]; k != nil {
		return k, nil
	}
	k, err := kernels.Find(b.device, c.Operation, c.Kernel)
	if err == nil {
		b.kernels[key] = k
	}
	return k, err
}

func (b *rig) ready(ctx context.Context, s *station) error {
	set := b.sets[matrixOf(s.c)]
	if set == nil {
		return fmt.Errorf("weights %v are not in memory", matrixOf(s.c))
	}
	g, err := b.kernel(s.c)
	if err != nil {
		return err
	}
	f, err := set.form(g, s.c, func() error { return b.halted(ctx) })
	if err != nil {
		return err
	}
	if key := formOf(s.c); s.c.Operation.Stores() && b.rotations[key].Copies == 0 {
		b.rotations[key] = f.rotation(s.c.Regime, b.spec.LastLevelCacheBytes)
	}
	ops := b.activations[s.c.DType]
	if ops == nil {
		return fmt.Errorf("there is no memory for A and C of %s", s.c.DType)
	}
	if s.form != f || s.operands != ops {
		b.bound -= len(s.launches)
		s.form, s.operands, s.launches, s.rebound = f, ops, nil, true
		if n := b.turns(s) * launchesOf(s.c); b.bound+n <= boundLimit {
			s.launches = make([]kernels.Launch, n)
			b.bound += n
		}
	}
	return nil
}

// turns is the number of executions after which a case's launches repeat.
func (b *rig) turns(s *station) int {
	if !s.c.Operation.Stores() {
		return min(len(s.form.copies), b.slots(s.c))
	}
	return len(s.form.copies)
}

// bind makes step i of a case with a given copy of the weights.
func (b *rig) bind(s *station, copy, i int) (kernels.Launch, error) {
	parts, slot := ms(s.c), int64(copy%b.slots(s.c))
	in, a := s.operands.a, slot*inputBytes(s.c)/int64(s.c.DType.Size())
	beside := s.operands.aBytes
	if s.c.Copied {
		if i == 0 {
			return b.bindCopy(s, slot)
		}
		in, i, beside = s.operands.room, i-1, s.operands.roomBytes
	}
	row := 0
	for _, m := range parts[:i] {
		row += m
	}
	c := slot * outputBytes(s.c) / int64(s.c.OutputType().Size())
	if row > 0 {
		a, c = a+s.c.InputElements(row), c+s.c.OutputElements(row)
	}
	t := task(s.c, parts[i])
	t.Part = len(parts) > 1
	beside += slot * besideBytes(s.c)
	for _, m := range parts[:i] {
		beside += besideOf(s.c, m)
	}
	switch size := int64(s.c.DType.Size()); {
	case s.c.Scaled():
		t.ScalesAt = int(beside - a*size)
	case s.c.ResidualElements(parts[i]) > 0:
		t.ResidualAt = int(beside/size - a)
	}
	return s.form.kernel.Bind(t, kernels.Operand{Buffer: in, Offset: int(a)},
		s.form.copies[copy], kernels.Operand{Buffer: s.operands.c, Offset: int(c)})
}

// bindCopy makes the copy of a case's rows in a slot. Its places in A and in room have the same offset.
func (b *rig) bindCopy(s *station, slot int64) (kernels.Launch, error) {
	copier, ok := b.device.(kernels.LaunchCopier)
	if !ok {
		return nil, fmt.Errorf("%s copies no rows as a launch", b.spec.ID)
	}
	return copier.BindCopy(s.operands.room, slot*roomBytes(s.c), s.operands.a, slot*inputBytes(s.c), copiedBytes(s.c))
}

// launch returns a step of a case on one copy of its weights, bound at first use.
func (b *rig) launch(s *station, copy, step int) (kernels.Launch, error) {
	copy %= b.turns(s)
	at := copy*launchesOf(s.c) + step
	if s.launches != nil && s.launches[at] != nil {
		return s.launches[at], nil
	}
	l, err := b.bind(s, copy, step)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", s.c, err)
	}
	if s.launches != nil {
		s.launches[at] = l
	}
	return l, nil
}

func (b *rig) executions(seconds float64) int {
	return int(max(float64(b.least), min(maxLaunches, math.Round(b.target.Seconds()/seconds))))
}

// refine corrects the block length after a block that took less than half or more than twice the target.
func (b *rig) refine(s *station, n int, span kernels.Span) {
	if goal := b.target.Seconds(); span.Seconds < goal/2 || span.Seconds > 2*goal {
		s.perBlock = b.executions(span.Seconds / float64(n))
	}
}

func (s *station) learn(seconds float64, perBlock int) { s.seconds, s.perBlock = seconds, perBlock }

// told returns the kernel's internal label and launch, if reported.
func (s *station) told() (label string, launch results.Launch) {
	for i, l := range s.launches {
		if l == nil || s.c.Copied && i%launchesOf(s.c) == 0 {
			continue
		}
		label, read := kernels.ReadLabel(l.Label())
		if launch := kernels.TilingOf(l).Or(read); label != "" || launch != (results.Launch{}) {
			return label, launch
		}
	}
	return "", results.Launch{}
}

func (b *rig) close() error {
	errs := []error{b.land()}
	b.dog.enter(0, "free what was measured with")
	defer b.dog.leave()
	for _, s := range b.sets {
		b.dog.beat()
		errs = append(errs, s.close())
	}
	for _, o := range b.activations {
		errs = append(errs, o.close())
	}
	clear(b.sets)
	clear(b.activations)
	return errors.Join(errs...)
}
