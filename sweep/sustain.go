package sweep

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// A kernel that wastes cycles draws less power. Under a power limit it therefore gets a higher clock when it
// runs alone.
const (
	// SustainSpan is the default time that a case runs alone, LeastSustain the minimum. A GPU's governor
	// settles within some 100 ms, and energy counters update every 20 to 100 ms.
	SustainSpan  = 600 * time.Millisecond
	LeastSustain = 500 * time.Millisecond
	// SustainTime is the approximate total time of a case, with the blocks before it.
	SustainTime  = SustainSpan + sustainBefore
	sustainBlock = 10 * time.Millisecond
	// The clock settles in the first sustainSettle of the span, which is excluded.
	sustainSettle = 1.0 / 3
	// A case may run for sustainLonger times the span until the energy counter has changed twice.
	sustainLonger = 2
	// sustainBefore is how long other cases run before, at the sweep's power limit.
	sustainBefore = 200 * time.Millisecond
)

// Sustain runs each case alone for span, half a second or more. It returns one sample of phase sustained per
// case, in order: the time of a launch once the device has settled, with clock, power and energy. A failed
// case has no launches. If ctx ends, the error wraps its cause and the samples hold earlier results.
func (m *Measurer) Sustain(ctx context.Context, cases []results.Case, span time.Duration) ([]results.Sample, error) {
	if span < LeastSustain {
		return nil, fmt.Errorf("run cases alone for %v: expected at least %v", span, LeastSustain)
	}
	requests := make([]results.Request, len(cases))
	for i, c := range cases {
		requests[i] = results.Request{Case: c, Phase: results.PhaseSustained}
	}
	named, err := m.begin(requests)
	if err != nil {
		return nil, err
	}
	defer m.holdCollector()()
	out := make([]results.Sample, len(cases))
	err = m.deal(named, requests, func(l *lab, ds []demand, members []int) error {
		stations, gone, err := m.place(ctx, l, ds, named, members)
		if err != nil {
			return err
		}
		for at, i := range members {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			err := gone[at]
			if err == nil {
				out[i], err = m.sustain(ctx, l, stations[at], span)
			}
			l.idle = m.cfg.Now()
			var known *caseError
			switch {
			case err == nil || errors.As(err, &known):
			case ctx.Err() != nil || deviceLost(err) || errors.Is(err, errHalted) || errors.Is(err, errJournal):
				return err
			default:
				if err := m.giveUp(named[i], results.PhaseSustained, err); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if hung(err) {
		return nil, err
	}
	return out, err
}

func (m *Measurer) sustain(ctx context.Context, l *lab, s *station, span time.Duration) (_ results.Sample, err error) {
	defer func() {
		if landed := l.land(); err == nil {
			err = landed
		}
	}()
	if err := l.pilot(ctx, s); err != nil {
		return results.Sample{}, err
	}
	if err := l.warmBefore(ctx); err != nil {
		return results.Sample{}, err
	}
	n := int(max(1, min(maxLaunches, math.Ceil(sustainBlock.Seconds()/s.seconds))))
	var settling float64
	for settling < sustainSettle*span.Seconds() {
		err := l.isolated(ctx, s, n, func(block kernels.Span) { settling += block.Seconds })
		if err != nil {
			return results.Sample{}, err
		}
	}
	if err := l.land(); err != nil {
		return results.Sample{}, err
	}
	started := m.cfg.Now()
	e := &energy{now: m.cfg.Now}
	e.meter, _ = l.device.(kernels.EnergyMeter)
	var whole kernels.Span
	var cycles float64 // in MHz·s
	var watts []float64
	var last kernels.Telemetry
	for settling+whole.Seconds < span.Seconds() || !e.told() && settling+whole.Seconds < sustainLonger*span.Seconds() {
		err := l.isolated(ctx, s, n, func(block kernels.Span) {
			whole.Seconds += block.Seconds
			cycles += block.ClockMHz * block.Seconds
			if block.Disturbance != (kernels.Disturbance{}) {
				whole.Disturbance = block.Disturbance
			}
			// While the next block runs, so that the device does not idle.
			e.launches += n
			e.read()
			if last = l.gauge.at(m.cfg.Now()); last.PowerW > 0 {
				watts = append(watts, last.PowerW)
			}
		})
		if err != nil {
			return results.Sample{}, err
		}
	}
	if err := l.land(); err != nil {
		return results.Sample{}, err
	}
	whole.ClockMHz = cycles / whole.Seconds
	round, err := m.round(s.c.ID, results.PhaseSustained)
	if err != nil {
		return results.Sample{}, err
	}
	smp := l.sample(s.c, results.PhaseSustained, round, e.launches, started, whole, last)
	if len(watts) > 0 {
		smp.PowerW = stats.Median(watts)
	}
	if mj, w, ok := e.spent(); ok {
		smp.EnergyMJ, smp.PowerW = mj, w
	}
	if err := m.journal.append(&smp); err != nil {
		return results.Sample{}, errors.Join(errJournal, err)
	}
	m.cfg.Observer.Sample(s.c, smp)
	return smp, nil
}

// isolated runs a block with no other block in between, and calls done at its end.
func (l *lab) isolated(ctx context.Context, s *station, n int, done func(block kernels.Span)) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return l.begin(ctx, s, n, false, func(_ time.Time, block kernels.Span, err error) error {
		if err == nil {
			done(block)
		}
		return err
	})
}

// warmBefore brings the device to its power limit, if any, with other cases of the sweep, since the previous
// case may draw little.
func (l *lab) warmBefore(ctx context.Context) error {
	t := l.thermal
	for ran := time.Duration(0); t != nil && len(t.ready) > 0 && ran < sustainBefore; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		took, err := l.fill(ctx, t.next(false))
		if err != nil {
			return err
		}
		ran += took
	}
	return nil
}

// energy reads an energy counter while launches run. Counters update in steps, so only the times of the first
// and last step count.
type energy struct {
	meter       kernels.EnergyMeter
	now         func() time.Time
	launches    int // that have ended
	seen        bool
	mj          float64 // the latest reading
	first, last mark
	steps       int
}

type mark struct {
	mj       float64
	launches int
	at       time.Time
}

func (e *energy) read() {
	if e.meter == nil {
		return
	}
	mj, err := e.meter.EnergyMJ()
	if err != nil {
		e.meter = nil
		return
	}
	moved := e.seen && mj != e.mj
	e.seen, e.mj = true, mj
	if !moved {
		return
	}
	e.last = mark{mj, e.launches, e.now()}
	if e.steps == 0 {
		e.first = e.last
	}
	e.steps++
}

// told reports whether the counter has changed twice or there is none.
func (e *energy) told() bool { return e.meter == nil || e.steps >= 2 }

// spent is the energy of a launch in millijoules and the power in watts between the steps.
func (e *energy) spent() (mj, watts float64, ok bool) {
	launches, seconds := e.last.launches-e.first.launches, e.last.at.Sub(e.first.at).Seconds()
	if e.meter == nil || launches < 1 || seconds <= 0 || e.last.mj <= e.first.mj {
		return 0, 0, false
	}
	all := e.last.mj - e.first.mj
	return all / float64(launches), all / 1e3 / seconds, true
}

// Affordable returns the distinct cases of the first elements that fit in most.
func Affordable(all [][]results.Case, most time.Duration) []results.Case {
	var out []results.Case
	for _, together := range all {
		with := slices.Clone(out)
		for _, c := range together {
			if placeOfCase(with, c) < 0 {
				with = append(with, c)
			}
		}
		if len(out) > 0 && time.Duration(len(with))*SustainTime > most {
			break
		}
		out = with
	}
	return out
}

func placeOfCase(cases []results.Case, c results.Case) int {
	return slices.IndexFunc(cases, func(o results.Case) bool {
		return o.Key() == c.Key()
	})
}

// NotSustained counts the elements with a case without a sample; samples are parallel to cases.
func NotSustained(all [][]results.Case, cases []results.Case, samples []results.Sample) int {
	n := 0
	for _, together := range all {
		if slices.ContainsFunc(together, func(c results.Case) bool {
			at := placeOfCase(cases, c)
			return at < 0 || at >= len(samples) || samples[at].Launches == 0
		}) {
			n++
		}
	}
	return n
}
