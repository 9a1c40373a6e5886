package sweep

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// flight is a started block that has not landed. On an asynchronous device the next block is queued with all
// its launches, so host work between blocks leaves no gap.
type flight struct {
	station *station
	n       int              // executions
	window  []kernels.Launch // its launches
	serial  bool             // launches do not overlap
	started time.Time        // time when it was queued, or when the block ahead ended
	wait    func() (kernels.Span, error)
	then    landing
}

// landing handles the end of a block, with the device's span or err. The error it returns ends the
// measurement; it handles errors of the case alone.
type landing func(started time.Time, span kernels.Span, err error) error

// begin queues n back-to-back executions of a case behind the block in flight, each with the next copy of the
// weights. It calls then once the block has ended: in a later call of begin or land on an asynchronous
// device, otherwise at once. With serial, launches do not overlap. The error is one of a landing.
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

// keepsAlone reports whether the case, or a case in flight, must not share the device.
func (b *rig) keepsAlone(s *station) bool {
	return b.alone[s.c.ID] || len(b.flights) > 0 && b.alone[b.flights[0].station.c.ID]
}

// unready reports whether the case's weights must be packed before it can be launched.
func (b *rig) unready(s *station) bool {
	set := b.sets[matrixOf(s.c)]
	return set != nil && set.forms[formOf(s.c)] == nil
}

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

func (b *rig) start(ctx context.Context, f *flight) (err error) {
	// A block that has begun is finished, so its measurement is kept.
	ctx = context.WithoutCancel(ctx)
	f.started = b.watch.time()
	if len(b.flights) == 0 {
		b.opened, b.inside = f.started, 0
	}
	f.wait, err = b.launchBlock(ctx, f)
	if len(b.flights) > 0 {
		b.watch.took(&b.watch.Launching, f.started) // while the block ahead runs
	}
	if err != nil {
		return err
	}
	b.flights = append(b.flights, f)
	b.watch.hidden = b.ahead > 0
	return nil
}

func (b *rig) launchBlock(ctx context.Context, f *flight) (wait func() (kernels.Span, error), err error) {
	block := kernels.Block{Launches: f.window, N: f.n * launchesOf(f.station.c), Serial: f.serial}
	set := f.station.form.set
	set.next = (set.next + f.n) % len(f.station.form.copies)
	if starter, ok := b.device.(kernels.Starter); ok {
		return starter.Start(ctx, block)
	}
	return func() (kernels.Span, error) { return b.device.Execute(ctx, block.Launches, block.N) }, nil
}

// A block with a pause longer than standstill is measured again, up to mostAgain times: the process was
// stopped, or the machine slept. A pause that occurs every time is a property of the machine, and the block
// is kept.
const (
	standstill = 50 * time.Millisecond
	mostAgain  = 3
)

// whole waits for the oldest block, and repeats it after a pause unless another block is queued.
func (b *rig) whole(f *flight) (kernels.Span, error) {
	span, err := f.wait()
	for again := 0; err == nil && span.Lost > standstill && again < mostAgain && len(b.flights) == 1; again++ {
		b.windows = append(b.windows, f.window)
		if err = b.stage(context.Background(), f); err != nil {
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

func (b *rig) landFirst() error {
	f := b.flights[0]
	b.dog.enter(b.aloft(), "", b.onDevice(nil)...)
	span, err := b.whole(f)
	if err = b.lost(err, nil); b.fault != nil {
		err = b.fault // later results may be wrong
	}
	b.dog.leave()
	ended := b.watch.time()
	b.flights[0] = nil
	b.flights = b.flights[1:]
	f.station.ran = nil
	if err == nil {
		f.station.ran = b.whatRan(f)
	}
	b.windows = append(b.windows, f.window)
	if err == nil && (!(span.Seconds > 0) || math.IsInf(span.Seconds, 0)) {
		err = fmt.Errorf("%v: the device says that %d launches took %g s", f.station.c, f.n, span.Seconds)
	}
	if err != nil {
		span = kernels.Span{}
	}
	// Launches ahead of the block took about as long as those within it.
	busy := span.Seconds * (1 + float64(span.Ahead)/float64(f.n*launchesOf(f.station.c)))
	b.busy += busy
	b.inside += busy
	if f.station.rebound {
		f.station.rebound = false
		b.rebinding += max(0, ended.Sub(f.started).Seconds()-busy)
	}
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

func (b *rig) aloft() (t time.Duration) {
	for _, f := range b.flights {
		t += f.expected()
	}
	return t
}

func (f *flight) expected() time.Duration {
	return time.Duration(f.station.seconds * float64(f.n) * 1e9)
}

// block executes a separate block of n executions and waits for it. Blocks in flight land first.
func (b *rig) block(ctx context.Context, s *station, n int) (span kernels.Span, err error) {
	if err := b.land(); err != nil {
		return kernels.Span{}, err
	}
	err = b.begin(ctx, s, n, false, func(_ time.Time, of kernels.Span, err error) error {
		span = of
		return err
	})
	if err == nil {
		err = b.land()
	}
	return span, err
}
