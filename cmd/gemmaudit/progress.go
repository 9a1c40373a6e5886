package main

import (
	"math"
	"time"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// meter shows what a sweep tells on stderr.
type meter struct {
	display *report.Progress
	rate    rate
	drift   map[int64]float64 // of each sentinel, its latest change
}

var _ sweep.Observer = (*meter)(nil)

// newMeter returns a meter on stderr.
func (a *app) newMeter() *meter {
	return &meter{display: report.NewProgress(a.stream(a.stderr), a.quiet), drift: map[int64]float64{}}
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
	m.display.Update(p.Done, m.rate.value(), p.Left, p.Case.String(), p.MFU, m.worstDrift())
}

// worstDrift is the largest change of a sentinel, either way; NaN before any is
// known.
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
func (m *meter) Sample(results.Case, results.Sample) {}

// rate is samples a second over the last ten seconds or so.
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
