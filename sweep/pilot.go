package sweep

import (
	"context"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// prime runs a case for the first time, if the device distinguishes first runs. It returns the approximate
// time in seconds, or 0 if unknown. Compiling and tuning before that run count as warm-up. Blocks in flight must
// have landed.
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
		began := b.watch.time()
		t, err := device.Prime(context.WithoutCancel(ctx), l)
		b.watch.Warmups += max(0, b.watch.time().Sub(began).Seconds()-t)
		if err != nil {
			return 0, err
		}
		whole = whole && t > 0
		seconds += t
	}
	b.busy += seconds
	b.inside += seconds
	s.form.set.next = (s.form.set.next + 1) % len(s.form.copies)
	s.primed, s.losses = true, b.losses
	if !whole {
		return 0, nil
	}
	return seconds, nil
}

// pilot prepares a case's blocks: it sets the number of executions, and proves the result of another process.
func (b *rig) pilot(ctx context.Context, s *station) error {
	if err := b.size(ctx, s); err != nil {
		return err
	}
	return b.prove(ctx, s)
}

// size sets the number of executions in a block. Its first run also warms up memory and libraries. A second,
// timed block runs only if neighbors give no estimate.
func (b *rig) size(ctx context.Context, s *station) error {
	if s.perBlock > 0 {
		return b.compile(ctx, s)
	}
	if t, ok := b.paces.foretell(s.c); ok {
		err := b.compile(ctx, s)
		switch {
		case err != nil || s.primed:
		case !b.primes():
			_, err = b.block(ctx, s, 1)
		case b.ahead == 0:
			_, err = b.prime(ctx, s)
		} // otherwise begin primes ahead of the block
		if err == nil {
			s.learn(t, b.executions(t))
		}
		return err
	}
	t, err := b.prime(ctx, s)
	// A first run much longer than a block, and than expected, mainly loaded code. As an estimate it would
	// give blocks of a single launch.
	if err == nil && (t == 0 || t >= 4*b.target.Seconds() && t > 4*s.seconds) {
		b.loaded(t)
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
	s.primed, s.losses = true, b.losses
	b.paces.learn(s.c, t)
	return nil
}

// compile runs a case of another process for the first time in this start. Compilers and autotuners take up to
// minutes, which must not fall into a sample: not even at a resume, where the number of executions is known.
func (b *rig) compile(ctx context.Context, s *station) (err error) {
	if b.compiled(s) {
		return nil
	}
	if b.primes() {
		var t float64
		if t, err = b.prime(ctx, s); t >= 4*b.target.Seconds() && t > 4*s.seconds {
			b.loaded(t)
		}
	} else {
		_, err = b.block(ctx, s, 1)
	}
	s.primed, s.losses = err == nil, b.losses
	return err
}

// loaded counts a first run's time as warm-up instead of time inside kernels.
func (b *rig) loaded(seconds float64) {
	b.busy, b.inside = b.busy-seconds, b.inside-seconds
	b.watch.Warmups += seconds
}

func (b *rig) compiled(s *station) bool {
	return b.process(s.c) == "" || s.primed && s.losses == b.losses
}

func (b *rig) primes() bool {
	_, ok := b.device.(kernels.Primer)
	return ok
}

// rests reports whether a station's pilot needs blocks in flight to land first.
func (b *rig) rests(s *station) bool {
	if s.perBlock > 0 || !b.compiled(s) {
		return !b.compiled(s)
	}
	_, ok := b.paces.foretell(s.c)
	return !ok || !b.primes() || b.unready(s)
}
