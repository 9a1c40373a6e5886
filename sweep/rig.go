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

// boundLimit is how many launches a device's cases keep bound between blocks.
// Beyond it launches are bound anew for each block, which is not timed either.
const boundLimit = 1 << 20

// maxLaunches bounds the launches of one block.
const maxLaunches = 1 << 20

// rig is one device with the operands of what is being measured on it. It is
// used by one goroutine.
type rig struct {
	device kernels.Device
	spec   kernels.Spec
	dist   kernels.Distribution
	seed   uint64
	target time.Duration // of a block
	least  int           // launches of a block
	budget int64         // bytes for weights
	// due says whether the time for measuring is up; nil is never.
	due func() bool

	activations map[kernels.DType]*operands
	sets        map[matrixKey]*weightSet
	used        int64 // of the budget
	kernels     map[kernelKey]kernels.Implementation
	bound       int     // launches kept
	busy        float64 // seconds inside blocks
	rotations   map[formKey]Rotation
	allocation  int // how many times the operands have been allocated
	// renewal is what allocating them anew took last, in seconds; renewed is what busy was then.
	renewal, renewed float64

	ahead   int                // blocks that are in flight while the host does something else
	flights []*flight          // in the order of their starts
	windows [][]kernels.Launch // to be used again
	opened  time.Time          // when the first block was started of those between which nothing landed last
	inside  float64            // seconds inside of those that have landed

	paces paces
	watch stopwatch

	dog   *watchdog      // of the calls of the device
	fault *FaultError    // after which nothing more can be had from it
	alone map[int64]bool // cases that share the device with no other
}

// operands are A and C of one data type, large enough for every case.
type operands struct {
	a, c kernels.Buffer
	// room is where rows of A are copied to that have none behind them; nil without such a case.
	room kernels.Buffer
	sizes
}

// sizes are those of operands, in bytes.
type sizes struct{ aBytes, cBytes, roomBytes int64 }

// covers says whether operands of the sizes serve where others are needed.
func (s sizes) covers(need sizes) bool {
	return s.aBytes >= need.aBytes && s.cBytes >= need.cBytes && s.roomBytes >= need.roomBytes
}

// station is a case on the rig: how to run it and for how long.
type station struct {
	c results.Case
	// form is what launches were bound to; another one means they are stale.
	form     *weightForm
	operands *operands
	launches []kernels.Launch // parts of copy 0, parts of copy 1, …; nil where not bound yet
	// perBlock is the number of executions of a block, 0 before the pilot.
	perBlock int
	seconds  float64 // expected, of one execution
	// asked says that what runs inside, and how, has been asked for.
	asked bool
}

// newRig returns a rig whose calls of the device may each take limit, 0 for as long as they take.
func newRig(d kernels.Device, dist kernels.Distribution, seed uint64, target time.Duration, least int, limit time.Duration) (*rig, error) {
	b := &rig{
		device: d, spec: d.Spec(), dist: dist, seed: seed, target: target, least: max(1, least),
		dog:         newWatchdog(d.Spec().ID, limit),
		activations: map[kernels.DType]*operands{}, sets: map[matrixKey]*weightSet{},
		kernels: map[kernelKey]kernels.Implementation{}, rotations: map[formKey]Rotation{}, paces: paces{},
	}
	if _, ok := d.(kernels.Starter); ok {
		b.ahead = 1
	}
	return b, b.dog.guard(func() error {
		b.dog.enter(0, "tell its free memory")
		b.budget = int64(memoryShare * float64(freeMemory(d)))
		b.dog.leave()
		return nil
	})
}

// errHalted is what setting up a case ends with when it must not go on. It speaks
// of no case: a sweep that is resumed sets up anew.
var errHalted = errors.New("stopped before the weights were in place")

// halted is asked between the steps of setting up, which may take longer than
// anybody wants to wait for a sample that won't be taken.
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

// ms are the batches of the launches that make up a case.
func ms(c results.Case) []int {
	switch {
	case len(c.Parts) > 0:
		return c.Parts
	case c.PadTo > 0:
		return []int{c.PadTo}
	}
	return []int{c.M}
}

// launchesOf is how many launches one execution of a case takes: those of its product, and the copy of
// its rows ahead of them.
func launchesOf(c results.Case) int {
	n := len(ms(c))
	if c.Copied {
		n++
	}
	return n
}

// rows is the number of rows that a case reads and writes.
func rows(c results.Case) int64 { return int64(max(c.M, c.PadTo)) }

// kernelKey is what a kernel is found by.
type kernelKey struct {
	operation kernels.Operation
	name      string
}

// kernel finds what computes a case.
func (b *rig) kernel(c results.Case) (kernels.Implementation, error) {
	key := kernelKey{c.Operation, c.Kernel}
	if k := b.kernels[key]; k != nil {
		return k, nil
	}
	k, err := kernels.FindImplementation(b.device, c.Operation, c.Kernel)
	if err == nil {
		b.kernels[key] = k
	}
	return k, err
}

// ready makes sure that a station's weights are there and its launches belong to them.
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
		s.form, s.operands, s.launches = f, ops, nil
		if n := b.turns(s) * launchesOf(s.c); b.bound+n <= boundLimit {
			s.launches = make([]kernels.Launch, n)
			b.bound += n
		}
	}
	return nil
}

// turns is after how many executions of a case its launches come round again: as many as there
// are copies of its weights, or places where there are none.
func (b *rig) turns(s *station) int {
	if !s.c.Operation.Stores() {
		return min(len(s.form.copies), b.slots(s.c))
	}
	return len(s.form.copies)
}

// bind makes step i of a case with copy of the weights.
func (b *rig) bind(s *station, copy, i int) (kernels.Launch, error) {
	parts, slot := ms(s.c), int64(copy%b.slots(s.c))
	in, a := s.operands.a, slot*inputBytes(s.c)/int64(s.c.DType.Size())
	if s.c.Copied {
		if i == 0 {
			return b.bindCopy(s, slot)
		}
		in, i = s.operands.room, i-1
	}
	row := 0
	for _, m := range parts[:i] {
		row += m
	}
	c := slot * outputBytes(s.c) / int64(s.c.OutputType().Size())
	if row > 0 {
		a, c = a+s.c.InputElements(row), c+s.c.OutputElements(row)
	}
	return s.form.kernel.Bind(task(s.c, parts[i]), kernels.Operand{Buffer: in, Offset: int(a)},
		s.form.copies[copy], kernels.Operand{Buffer: s.operands.c, Offset: int(c)})
}

// bindCopy makes the copy of a case's rows in a slot, whose places in A and in the room begin alike.
func (b *rig) bindCopy(s *station, slot int64) (kernels.Launch, error) {
	copier, ok := b.device.(kernels.LaunchCopier)
	if !ok {
		return nil, fmt.Errorf("%s copies no rows as a launch", b.spec.ID)
	}
	return copier.BindCopy(s.operands.room, slot*roomBytes(s.c), s.operands.a, slot*inputBytes(s.c), copiedBytes(s.c))
}

// launch is a step of a case on one copy of its weights, bound at first use.
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

// prime runs a case for the first time, where the device tells that from later times,
// and returns roughly how long it takes: 0 where it doesn't tell, or parts have run. Blocks in
// flight have landed.
func (b *rig) prime(ctx context.Context, s *station) (seconds float64, err error) {
	device, ok := b.device.(kernels.Primer)
	if !ok {
		return 0, nil
	}
	b.dog.enter(time.Duration(s.seconds*1e9), "", b.onDevice(s)...)
	defer func() {
		err = b.lost(err, s)
		b.dog.leave()
	}()
	if err := b.ready(ctx, s); err != nil {
		return 0, err
	}
	whole := true
	for step := range launchesOf(s.c) {
		l, err := b.launch(s, s.form.set.next, step)
		if err != nil {
			return 0, err
		}
		b.dog.beat()
		t, err := device.Prime(context.WithoutCancel(ctx), l)
		if err != nil {
			return 0, err
		}
		whole = whole && t > 0
		seconds += t
	}
	b.busy += seconds
	b.inside += seconds
	s.form.set.next = (s.form.set.next + 1) % len(s.form.copies)
	if !whole {
		return 0, nil
	}
	return seconds, nil
}

// pilot finds out how many executions a block of the case needs. The first one
// also brings memory and libraries into the state in which they stay; a second block, which
// is long enough to be timed, runs only where neighbours do not tell.
func (b *rig) pilot(ctx context.Context, s *station) error {
	if s.perBlock > 0 {
		return nil
	}
	if t, ok := b.paces.foretell(s.c); ok {
		var err error
		switch {
		case !b.primes():
			_, err = b.block(ctx, s, 1)
		case b.ahead == 0:
			_, err = b.prime(ctx, s)
		} // else what is begun primes by itself, ahead of its block
		if err == nil {
			s.learn(t, b.executions(t))
		}
		return err
	}
	t, err := b.prime(ctx, s)
	// A first run that took much longer than a block, and than was expected, mostly
	// loaded code: what it says of the product would make blocks of a single launch.
	if err == nil && (t == 0 || t >= 4*b.target.Seconds() && t > 4*s.seconds) {
		var span kernels.Span
		span, err = b.block(ctx, s, 1)
		t = span.Seconds
	}
	if err != nil {
		return err
	}
	goal := b.target.Seconds()
	if t < 4*goal {
		n := int(max(1, min(maxLaunches, goal/4/t)))
		span, err := b.block(ctx, s, n)
		if err != nil {
			return err
		}
		t = span.Seconds / float64(n)
	}
	s.learn(t, b.executions(t))
	b.paces.learn(s.c, t)
	return nil
}

// primes says whether the device tells first runs from later ones.
func (b *rig) primes() bool {
	_, ok := b.device.(kernels.Primer)
	return ok
}

// rests says whether a station's pilot runs blocks of its own, which those in flight do not
// go together with.
func (b *rig) rests(s *station) bool {
	if s.perBlock > 0 {
		return false
	}
	_, ok := b.paces.foretell(s.c)
	return !ok || !b.primes() || b.unready(s)
}

// executions is how many come nearest to a block when each takes the seconds.
func (b *rig) executions(seconds float64) int {
	return int(max(float64(b.least), min(maxLaunches, math.Round(b.target.Seconds()/seconds))))
}

// refine corrects the length of a case's blocks after one of n executions that came out as
// less than half or more than twice of what it is meant to be.
func (b *rig) refine(s *station, n int, span kernels.Span) {
	if goal := b.target.Seconds(); span.Seconds < goal/2 || span.Seconds > 2*goal {
		s.perBlock = b.executions(span.Seconds / float64(n))
	}
}

// learn sets what a pilot, or an earlier start of the sweep, has found out.
func (s *station) learn(seconds float64, perBlock int) { s.seconds, s.perBlock = seconds, perBlock }

// told is what ran inside and how it was launched, as far as the kernel tells.
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
