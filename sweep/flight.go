package sweep

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// flight is a block that was started and has not landed. A device that runs blocks by itself
// has one behind the one that runs, with all of its launches in place: what the host does
// between two blocks, storing the one before them among it, leaves the device no rest.
type flight struct {
	station *station
	n       int              // executions
	window  []kernels.Launch // its launches
	serial  bool             // whether its launches do not overlap
	started time.Time        // when it was put behind the one ahead; once that has ended, when that was
	wait    func() (kernels.Span, error)
	then    landing
}

// landing is what to do once a block has ended: it began at started, and span or err is what
// the device says of it. What it returns ends the measuring; errors that concern the case
// alone are its own to deal with.
type landing func(started time.Time, span kernels.Span, err error) error

// begin executes a case n times back to back, each time with the next copy of its weights,
// behind the block in flight, and calls then when the block has ended: in a later call of
// begin or land where the device runs blocks by itself, else at once. All parts of one
// execution use the same copy, as they would. Where launches are to be serial, they do not
// overlap. The error is one of a landing.
func (b *rig) begin(ctx context.Context, s *station, n int, serial bool, then landing) error {
	if b.unready(s) || b.keepsAlone(s) {
		if err := b.land(); err != nil {
			return err
		}
	}
	f := &flight{station: s, n: n, serial: serial, then: then}
	b.dog.enter(b.aloft()+f.expected(), "", b.onDevice(s)...)
	err := b.stage(ctx, f)
	if err == nil {
		err = b.start(ctx, f)
	}
	err = b.lost(err, s)
	b.dog.leave()
	if err != nil {
		began := b.watch.time()
		if err := b.land(); err != nil {
			return err
		}
		return then(began, kernels.Span{}, err)
	}
	for len(b.flights) > b.ahead {
		if err := b.landFirst(); err != nil {
			return err
		}
	}
	return nil
}

// keepsAlone says whether a case shares the device with none of those in flight, or one of these
// with no other.
func (b *rig) keepsAlone(s *station) bool {
	return b.alone[s.c.ID] || len(b.flights) > 0 && b.alone[b.flights[0].station.c.ID]
}

// unready says whether something must run on the device before a case can be launched: what
// its kernel makes of the weights is not there.
func (b *rig) unready(s *station) bool {
	set := b.sets[matrixOf(s.c)]
	return set != nil && set.forms[formOf(s.c)] == nil
}

// stage puts together what a block launches.
func (b *rig) stage(ctx context.Context, f *flight) error {
	began := b.watch.time()
	s := f.station
	if err := b.ready(ctx, s); err != nil {
		return err
	}
	if n := len(b.windows); n > 0 {
		f.window, b.windows = b.windows[n-1][:0], b.windows[:n-1]
	}
	copies, each := len(s.form.copies), launchesOf(s.c)
	for i := range min(f.n, b.turns(s)) {
		copy := (s.form.set.next + i) % copies
		for step := range each {
			l, err := b.launch(s, copy, step)
			if err != nil {
				return err
			}
			f.window = append(f.window, l)
		}
	}
	b.watch.took(&b.watch.Binding, began)
	return nil
}

// start puts a block behind the one in flight.
func (b *rig) start(ctx context.Context, f *flight) (err error) {
	// A block that has begun is finished: what it measured is not thrown away.
	ctx = context.WithoutCancel(ctx)
	f.started = b.watch.time()
	if len(b.flights) == 0 {
		b.opened, b.inside = f.started, 0
	}
	f.wait, err = b.launchBlock(ctx, f)
	if len(b.flights) > 0 {
		b.watch.took(&b.watch.Launching, f.started) // beside the one ahead
	}
	if err != nil {
		return err
	}
	b.flights = append(b.flights, f)
	b.watch.hidden = b.ahead > 0
	return nil
}

// launchBlock starts a block on a device that runs blocks by itself; on another, to wait for it
// is to execute it.
func (b *rig) launchBlock(ctx context.Context, f *flight) (wait func() (kernels.Span, error), err error) {
	block := kernels.Block{Launches: f.window, N: f.n * launchesOf(f.station.c), Serial: f.serial}
	set := f.station.form.set
	set.next = (set.next + f.n) % len(f.station.form.copies)
	if starter, ok := b.device.(kernels.Starter); ok {
		return starter.Start(ctx, block)
	}
	return func() (kernels.Span, error) { return b.device.Execute(ctx, block.Launches, block.N) }, nil
}

// A block that stood still for longer than standstill is measured again, up to mostAgain times:
// somebody stopped the process, or the machine slept. It is left out for that and not for
// having been slow. What happens each time is the machine's own way, and is kept.
const (
	standstill = 50 * time.Millisecond
	mostAgain  = 3
)

// whole waits for the first block, and for its repetitions where it stood still. A device that has
// another block behind it is not asked again.
func (b *rig) whole(f *flight) (kernels.Span, error) {
	span, err := f.wait()
	for again := 0; err == nil && span.Lost > standstill && again < mostAgain && len(b.flights) == 1; again++ {
		b.windows = append(b.windows, f.window)
		if err = b.stage(context.Background(), f); err != nil { // with the next copies of the weights
			break
		}
		f.started = b.watch.time()
		var wait func() (kernels.Span, error)
		if wait, err = b.launchBlock(context.Background(), f); err == nil {
			span, err = wait()
		}
	}
	return span, err
}

// landFirst waits for the block that was started first.
func (b *rig) landFirst() error {
	f := b.flights[0]
	b.dog.enter(b.aloft(), "", b.onDevice(nil)...)
	span, err := b.whole(f)
	if err = b.lost(err, nil); b.fault != nil {
		err = b.fault // what ended after it may be wrong
	}
	b.dog.leave()
	ended := b.watch.time()
	b.flights[0] = nil
	b.flights = b.flights[1:]
	b.windows = append(b.windows, f.window)
	if err == nil && (!(span.Seconds > 0) || math.IsInf(span.Seconds, 0)) {
		err = fmt.Errorf("%v: the device says that %d launches took %g s", f.station.c, f.n, span.Seconds)
	}
	if err != nil {
		span = kernels.Span{}
	}
	// Launches that ran ahead of the block took about as long as one within.
	busy := span.Seconds * (1 + float64(span.Ahead)/float64(f.n*launchesOf(f.station.c)))
	b.busy += busy
	b.inside += busy
	if len(b.flights) > 0 {
		if next := b.flights[0]; next.started.Before(ended) {
			next.started = ended
		}
	} else {
		b.watch.hidden = false
		b.watch.Launching += max(0, ended.Sub(b.opened).Seconds()-b.inside)
	}
	return f.then(f.started, span, err)
}

// land waits for all blocks in flight and returns the first error of their landings.
func (b *rig) land() (err error) {
	for len(b.flights) > 0 {
		if landed := b.landFirst(); err == nil {
			err = landed
		}
	}
	return err
}

// aloft is how long the blocks in flight are expected to take.
func (b *rig) aloft() (t time.Duration) {
	for _, f := range b.flights {
		t += f.expected()
	}
	return t
}

// expected is how long a block is to take.
func (f *flight) expected() time.Duration {
	return time.Duration(f.station.seconds * float64(f.n) * 1e9)
}

// run executes a case n times as a block of its own and waits for it. What is in flight lands
// before.
func (b *rig) run(ctx context.Context, s *station, n int, serial bool) (span kernels.Span, err error) {
	if err := b.land(); err != nil {
		return kernels.Span{}, err
	}
	err = b.begin(ctx, s, n, serial, func(_ time.Time, of kernels.Span, err error) error {
		span = of
		return err
	})
	if err == nil {
		err = b.land()
	}
	return span, err
}

// block is run with launches that overlap as they do.
func (b *rig) block(ctx context.Context, s *station, n int) (kernels.Span, error) {
	return b.run(ctx, s, n, false)
}
