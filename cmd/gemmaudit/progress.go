package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/sweep"
)

const (
	// redraw is how often a terminal's line is drawn anew. Drawing takes time on
	// a core that is being measured, so it is seldom.
	redraw = 500 * time.Millisecond
	// plainEvery is how often a line is written where lines can't be redrawn.
	plainEvery = 5 * time.Second
)

// meter shows a sweep on stderr: a line that is redrawn on a terminal, a plain
// line every few seconds elsewhere, nothing but messages when quiet.
type meter struct {
	app     *app
	style   report.Style
	writer  progress.Writer
	tracker *progress.Tracker
	said    time.Time // when the last plain line was written
	drift   map[string]float64
	rate    rate
}

var _ sweep.Observer = (*meter)(nil)

// newMeter starts a meter; its owner calls close.
func (a *app) newMeter(what string) *meter {
	m := &meter{app: a, style: a.stream(a.stderr).Style, drift: map[string]float64{}, said: a.now()}
	if a.quiet || !m.style.Live {
		return m
	}
	m.tracker = &progress.Tracker{Message: what, Total: 1, AutoStopDisabled: true}
	m.writer = progress.NewWriter()
	m.writer.SetOutputWriter(a.stderr)
	m.writer.SetUpdateFrequency(redraw)
	m.writer.SetAutoStop(false)
	m.writer.SetTrackerLength(20)
	style := progress.StyleDefault
	if m.style.Unicode {
		style = progress.StyleBlocks
	}
	style.Colors = progress.StyleColors{}
	style.Visibility.Value, style.Visibility.Time, style.Visibility.ETAOverall, style.Visibility.TrackerOverall = false, false, false, false
	style.Options.PercentFormat = "%3.0f %%"
	m.writer.SetStyle(style)
	if m.style.Width > 0 {
		m.writer.SetTerminalWidth(m.style.Width)
	}
	m.writer.AppendTracker(m.tracker)
	go m.writer.Render()
	for !m.writer.IsRenderInProgress() {
		time.Sleep(time.Millisecond)
	}
	return m
}

// close ends the drawing and leaves the last state on the terminal.
func (m *meter) close() {
	if m.writer == nil {
		return
	}
	m.tracker.MarkAsDone()
	m.writer.Stop()
	for m.writer.IsRenderInProgress() {
		time.Sleep(time.Millisecond)
	}
	m.writer = nil
}

// listener is an observer that passes messages on and draws nothing.
func (a *app) listener() sweep.Observer { return &meter{app: a, drift: map[string]float64{}} }

// Message implements [sweep.Observer].
func (m *meter) Message(text string) {
	if m.writer != nil {
		m.writer.Log("note: %s", text)
		return
	}
	m.app.notef("note: %s", text)
}

// Progress implements [sweep.Observer].
func (m *meter) Progress(p sweep.Progress) {
	m.rate.add(p.Elapsed, p.Done)
	if m.writer != nil {
		m.tracker.UpdateTotal(int64(max(p.Planned, 1)))
		m.tracker.SetValue(int64(p.Done))
		m.tracker.UpdateMessage(m.line(p))
		return
	}
	if now := m.app.now(); now.Sub(m.said) >= plainEvery {
		m.said = now
		m.app.notef("%s", m.line(p))
	}
}

// line is a state in words: cases, rate, time left, MFU, drift.
func (m *meter) line(p sweep.Progress) string {
	parts := []string{
		fmt.Sprintf("%d of %d samples", p.Done, p.Planned),
		fmt.Sprintf("round %d of %d", p.Round+1, p.Rounds),
	}
	if r := m.rate.value(); r > 0 {
		parts = append(parts, fmt.Sprintf("%.0f/s", r))
	}
	if p.Left > 0 {
		parts = append(parts, p.Left.Round(time.Second).String()+" left")
	}
	if p.MFU > 0 {
		parts = append(parts, fmt.Sprintf("MFU %.0f %%", 100*p.MFU))
	}
	worst := 0.0
	for _, d := range m.drift {
		if d*d > worst*worst {
			worst = d
		}
	}
	if len(m.drift) > 0 {
		parts = append(parts, fmt.Sprintf("drift %+.1f %%", 100*worst))
	}
	return strings.Join(parts, ", ")
}

// Drift implements [sweep.Observer].
func (m *meter) Drift(d sweep.Drift) { m.drift[d.Case.String()] = d.Change }

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
