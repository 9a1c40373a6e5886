package main

import (
	"fmt"
	"math"
	"time"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/report/progress"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/sweep"
)

type meter struct {
	display *progress.Display
	rate    rate
	phase   phase
	drift   map[int64]float64 // latest change of each sentinel
	stage   *stage
	now     func() time.Time
}

// stage is a step after the sweep. The number of its samples is not known ahead, its time may be limited.
type stage struct {
	name    string
	began   time.Time
	most    time.Duration // 0 for no limit
	samples int
}

func (a *app) nextStage(name string, most time.Duration) {
	a.stage = stage{name: name, began: a.now(), most: most}
	if most > 0 {
		name += ", at most " + report.Duration(most)
	}
	a.notef("%s", name)
}

func (s *stage) text(now time.Time) string {
	took := now.Sub(s.began)
	text := fmt.Sprintf("%s: %s in %s", s.name, plural(s.samples, "sample", "samples"), report.Duration(took))
	if s.most > 0 {
		text += fmt.Sprintf(", at most %s left", report.Duration(max(0, s.most-took)))
	}
	return text
}

var _ sweep.Observer = (*meter)(nil)

func (a *app) newMeter() *meter {
	return &meter{display: progress.New(a.stream(a.stderr), a.quiet), drift: map[int64]float64{}, stage: &a.stage, now: a.now}
}

// Message implements [sweep.Observer].
func (m *meter) Message(text string) { m.display.Message("note: " + text) }

// Progress implements [sweep.Observer].
func (m *meter) Progress(p sweep.Progress) {
	m.rate.add(p.Elapsed, p.Done)
	m.display.Plan(p.Planned)
	if k := p.Known; k.Rows > 0 {
		m.display.Known(k.Measured+k.Inferred, k.Rows)
	}
	m.display.Update(p.Done, m.rate.value(), m.phase.left(p), p.Case.String(), p.MFU, m.worstDrift())
}

// phase is the start of the current samples: of a sweep, or of its additional rounds.
type phase struct {
	planned int
	done    int
	from    time.Duration
}

// paceSamples is the minimum number of samples whose pace predicts the rest; fewer cover only the start of a
// round.
const paceSamples = 10

// left is the time to the end of the phase at its pace so far. It uses wall time, because the time between
// blocks counts. It is 0 until the pace is known, which is not shown.
func (f *phase) left(p sweep.Progress) time.Duration {
	if p.Planned != f.planned {
		from := p.Elapsed
		if f.planned == 0 {
			from = 0 // the pace includes the time before the first sample
		}
		*f = phase{planned: p.Planned, done: p.Done - 1, from: from}
	}
	n := p.Done - f.done
	if n < paceSamples {
		return 0
	}
	return time.Duration(float64(p.Elapsed-f.from) / float64(n) * float64(max(0, p.Planned-p.Done)))
}

// worstDrift is the largest change of a sentinel in either direction; NaN until one is known.
func (m *meter) worstDrift() float64 {
	worst := math.NaN()
	for _, d := range m.drift {
		if math.IsNaN(worst) || math.Abs(d) > math.Abs(worst) {
			worst = d
		}
	}
	return worst
}

// Drift implements [sweep.Observer].
func (m *meter) Drift(d sweep.Drift) {
	if d.Samples > sweep.SentinelWindow {
		m.drift[d.Case.ID] = d.Change
	}
}

// Sample implements [sweep.Observer].
func (m *meter) Sample(results.Case, results.Sample) {
	if s := m.stage; s.name != "" {
		s.samples++
		m.display.Tick(func() string { return s.text(m.now()) })
	}
}

// rate is samples per second over about the last ten seconds.
type rate struct {
	at    []time.Duration
	count []int
}

const rateWindow = 10 * time.Second

func (r *rate) add(at time.Duration, count int) {
	if n := len(r.at); n > 0 && at-r.at[n-1] < rateWindow/20 {
		return // twenty points are enough
	}
	r.at, r.count = append(r.at, at), append(r.count, count)
	for len(r.at) > 2 && at-r.at[0] > rateWindow {
		r.at, r.count = r.at[1:], r.count[1:]
	}
}

func (r *rate) value() float64 {
	n := len(r.at)
	if n < 2 || r.at[n-1] <= r.at[0] {
		return 0
	}
	return float64(r.count[n-1]-r.count[0]) / (r.at[n-1] - r.at[0]).Seconds()
}
