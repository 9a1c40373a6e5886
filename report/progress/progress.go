package progress

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/gemmaudit/gemmaudit/report"
)

const (
	// liveEvery and plainEvery are the minimum intervals between updates. An update pauses measuring for a
	// few milliseconds, so even terminals get few.
	liveEvery  = time.Second
	plainEvery = 10 * time.Second
	barLength  = 22
)

// Display shows a sweep's progress: on a terminal as one redrawn line, elsewhere as a plain line every ten
// seconds. It draws only inside its methods and leaves no goroutine running, so it never takes a core from a
// timed block. It is safe for concurrent use.
type Display struct {
	mu    sync.Mutex
	w     io.Writer
	style report.Style
	quiet bool
	now   func() time.Time

	total   int
	planned bool // total is from Plan, not the estimate from Start
	// before is the number of samples when the current phase began; additional rounds are a separate phase.
	before  int
	rows    int // to be known; 0 if all are measured
	known   int
	started time.Time
	shown   time.Time // time of the last update
	open    bool      // the terminal shows a live line
	last    state
	running bool
}

type state struct {
	done       int
	rate       float64
	remaining  time.Duration
	current    string
	mfu, drift float64
}

// New shows progress on w, usually standard error; [report.NewStream] decides what w can show. A quiet
// progress has no output.
func New(w io.Writer, quiet bool) *Display {
	return &Display{w: w, style: report.StyleOf(w), quiet: quiet, now: time.Now}
}

// Start begins with the plan: cases, rounds over all of them, and the expected duration (0 if unknown).
func (p *Display) Start(totalCases, totalRounds int, estimate time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total = totalCases * max(1, totalRounds)
	p.started, p.shown, p.running = p.now(), p.now(), true
	p.planned, p.before = false, 0
	p.last = state{mfu: math.NaN(), drift: math.NaN()}
	line := fmt.Sprintf("%s × %s", report.Count(totalCases, "case"), report.Count(totalRounds, "round"))
	if estimate > 0 {
		line += ", about " + report.Duration(estimate)
	}
	p.line(line)
}

// Plan sets the number of planned samples. The first call replaces the estimate from Start. A later increase
// is announced as a new phase, counted from its beginning. Sweeps that infer rows announce no phases.
func (p *Display) Plan(samples int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	more := samples - p.total
	p.total = samples
	if p.planned && more > 0 && p.rows == 0 {
		p.before = p.last.done
		p.line(fmt.Sprintf("additional rounds where samples differ: %s", report.Count(more, "more sample")))
	}
	p.planned = true
}

func (p *Display) phase() (done, total int) { return p.last.done - p.before, p.total - p.before }

// Known sets how many of a sweep's rows are known, if it infers some.
func (p *Display) Known(known, rows int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known, p.rows = known, rows
}

// Update sets the number of samples done, their rate per second, the time left, the current case, its MFU,
// and the sentinels' drift (both shares). Zero, NaN or empty means unknown, except for a drift of zero. Most
// calls are not drawn.
func (p *Display) Update(done int, rate float64, remaining time.Duration, current string, mfu, drift float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = state{done, rate, remaining, current, mfu, drift}
	if p.quiet || !p.running {
		return
	}
	every := plainEvery
	if p.style.Live {
		every = liveEvery
	}
	now := p.now()
	if now.Sub(p.shown) < every {
		return
	}
	p.shown = now
	if p.style.Live {
		p.redraw()
		return
	}
	p.line(p.describe())
}

// Tick prints what text returns as a separate line, but at most every ten seconds, the first after ten.
func (p *Display) Tick(text func() string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if p.shown.IsZero() {
		p.shown = now
	}
	if now.Sub(p.shown) < plainEvery {
		return
	}
	p.shown = now
	p.line(text())
}

// Message prints a separate line: a skipped item, a failed case.
func (p *Display) Message(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line(s)
}

// Stop ends the display with a summary line. Further calls have no effect.
func (p *Display) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running {
		return
	}
	p.running = false
	s := fmt.Sprintf("%d of %d done in %s", p.last.done, p.total, report.Duration(p.now().Sub(p.started)))
	if d := p.last.drift; !math.IsNaN(d) {
		s += ", drift at the end " + signed(d)
	}
	p.line(s)
}

func (p *Display) line(s string) {
	if p.quiet {
		return
	}
	var b strings.Builder
	if p.open {
		b.WriteString("\r" + text.EraseLine.Sprint())
		p.open = false
	}
	b.WriteString(report.ForTerminal(s, p.style.Unicode))
	b.WriteByte('\n')
	// An error of the progress display must not end a sweep.
	_, _ = io.WriteString(p.w, b.String())
	if p.running && p.style.Live && p.last.done > 0 {
		p.redraw()
	}
}

func (p *Display) redraw() {
	done, total := p.phase()
	line := bar(done, total, p.style) + "  " + p.describe()
	if p.style.Width > 0 {
		line = text.Trim(line, p.style.Width-1)
	}
	_, _ = io.WriteString(p.w, "\r"+text.EraseLine.Sprint()+line)
	p.open = true
}

func (p *Display) describe() string {
	s := p.last
	done, total := p.phase()
	words := []string{fmt.Sprintf("%d/%d", done, total)}
	if p.before > 0 {
		words[0] += " additional"
	}
	if s.rate > 0 && report.IsFinite(s.rate) {
		words = append(words, report.Significant(s.rate, 3)+" samples/s")
	}
	if p.rows > 0 {
		words = append(words, fmt.Sprintf("%d/%s known", p.known, report.Count(p.rows, "row")))
	}
	if s.remaining > 0 {
		words = append(words, report.Duration(s.remaining)+" left")
	}
	if s.mfu > 0 && report.IsFinite(s.mfu) {
		words = append(words, "MFU "+report.FormatShare(s.mfu))
	}
	if report.IsFinite(s.drift) {
		words = append(words, "drift "+signed(s.drift))
	}
	if s.current != "" {
		words = append(words, s.current)
	}
	return report.ForTerminal(strings.Join(words, "  "), p.style.Unicode)
}

func signed(v float64) string {
	s := fmt.Sprintf("%+.1f %%", 100*v)
	if strings.Trim(s, "+-0. %") == "" {
		return "0.0 %"
	}
	return s
}

// bar draws a go-pretty progress tracker once: it starts the renderer, which its own first output stops, and
// waits for it.
func bar(done, total int, st report.Style) string {
	// With a total of 0 the renderer draws an indicator that never ends.
	total = max(1, total)
	done = max(0, min(done, total))
	w := progress.NewWriter()
	style := progress.StyleDefault
	if st.Unicode {
		style = progress.StyleBlocks
	}
	style.Visibility = progress.StyleVisibility{Percentage: true, Tracker: true}
	style.Options.PercentFormat = "%3.0f%%"
	style.Options.Separator = ""
	// The renderer's colors depend on the process environment, not on the stream.
	style.Colors = progress.StyleColors{}
	w.SetStyle(style)
	w.SetTrackerLength(barLength)
	w.SetTrackerPosition(progress.PositionLeft)
	w.SetUpdateFrequency(time.Millisecond)
	w.SetAutoStop(false)
	frame := &frame{stop: w.Stop}
	w.SetOutputWriter(frame)
	t := &progress.Tracker{Total: int64(total), AutoStopDisabled: true}
	t.SetValue(int64(done))
	w.AppendTracker(t)
	w.Render()
	first, _, _ := bytes.Cut(frame.first, []byte("\n"))
	percent, tracker, _ := strings.Cut(string(first), "% ")
	return percent + "% " + report.Paint(tracker, report.Good, st)
}

// frame keeps a renderer's first output and stops it.
type frame struct {
	first []byte
	stop  func()
}

// Write implements [io.Writer].
func (f *frame) Write(b []byte) (int, error) {
	if f.first == nil {
		f.first = bytes.Clone(b)
		f.stop()
	}
	return len(b), nil
}
