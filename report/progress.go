package report

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
)

const (
	// liveEvery and plainEvery are the least times between two states shown. A
	// state costs a few milliseconds of wall time, during which nothing is
	// measured, so even on a terminal they are rare.
	liveEvery  = time.Second
	plainEvery = 10 * time.Second
	barLength  = 22
)

// Progress shows how far a sweep has come: on a terminal as one line that is
// redrawn, elsewhere as one plain line every ten seconds. It draws only inside
// its own methods and has no goroutine that outlives them, so that it never
// takes a core from a block that is being timed. Its methods may be called from
// several goroutines.
type Progress struct {
	mu    sync.Mutex
	w     io.Writer
	style Style
	quiet bool
	now   func() time.Time

	total   int
	rows    int // of which known are known; 0 where all are measured
	known   int
	started time.Time
	shown   time.Time // when the last state was drawn
	open    bool      // a live line stands on the terminal
	last    state
	running bool
}

// state is what Update was told.
type state struct {
	done       int
	rate       float64
	remaining  time.Duration
	current    string
	mfu, drift float64
}

// NewProgress shows progress on w, usually standard error; what w can show is
// decided by [NewStream]. A quiet progress shows nothing at all.
func NewProgress(w io.Writer, quiet bool) *Progress {
	return &Progress{w: w, style: styleOf(w), quiet: quiet, now: time.Now}
}

// Start begins with what is planned: cases, rounds over all of them, and how
// long that is expected to take (0 when unknown).
func (p *Progress) Start(totalCases, totalRounds int, estimate time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total = totalCases * max(1, totalRounds)
	p.started, p.shown, p.running = p.now(), p.now(), true
	p.last = state{mfu: math.NaN(), drift: math.NaN()}
	line := fmt.Sprintf("%s × %s", count(totalCases, "case"), count(totalRounds, "round"))
	if estimate > 0 {
		line += ", about " + Duration(estimate)
	}
	p.line(line)
}

// Plan corrects the number of samples that Start took to be planned, for a sweep
// that has found out where more of them help.
func (p *Progress) Plan(samples int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total = samples
}

// Known tells how many rows of how many are known, of a sweep that does not measure them all.
func (p *Progress) Known(known, rows int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known, p.rows = known, rows
}

// Update tells how many of the planned samples are taken, at which
// rate in samples a second, the time left, the case at hand, its MFU and the
// drift of the sentinels, both as shares. Zero, NaN or empty means unknown,
// except for a drift of zero. Most calls draw nothing.
func (p *Progress) Update(done int, rate float64, remaining time.Duration, current string, mfu, drift float64) {
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

// Message shows a line of its own: what was left out, a case that failed.
func (p *Progress) Message(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line(s)
}

// Stop ends the display with a line that says what was done. More calls do nothing.
func (p *Progress) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running {
		return
	}
	p.running = false
	s := fmt.Sprintf("%d of %d done in %s", p.last.done, p.total, Duration(p.now().Sub(p.started)))
	if d := p.last.drift; !math.IsNaN(d) {
		s += ", drift at the end " + signed(d)
	}
	p.line(s)
}

// line writes a line above the live one, if there is one.
func (p *Progress) line(s string) {
	if p.quiet {
		return
	}
	var b strings.Builder
	if p.open {
		b.WriteString("\r" + text.EraseLine.Sprint())
		p.open = false
	}
	b.WriteString(forTerminal(s, p.style.Unicode))
	b.WriteByte('\n')
	// Progress is no reason to end a sweep, so its errors are not looked at.
	_, _ = io.WriteString(p.w, b.String())
	if p.running && p.style.Live && p.last.done > 0 {
		p.redraw()
	}
}

// redraw writes the live line in place of the last one.
func (p *Progress) redraw() {
	line := bar(p.last.done, p.total, p.style) + "  " + p.describe()
	if p.style.Width > 0 {
		line = text.Trim(line, p.style.Width-1)
	}
	_, _ = io.WriteString(p.w, "\r"+text.EraseLine.Sprint()+line)
	p.open = true
}

// describe is the state in words.
func (p *Progress) describe() string {
	s := p.last
	words := []string{fmt.Sprintf("%d/%d", s.done, p.total)}
	if s.rate > 0 && isFinite(s.rate) {
		words = append(words, significant(s.rate, 3)+" samples/s")
	}
	if p.rows > 0 {
		words = append(words, fmt.Sprintf("%d/%s known", p.known, count(p.rows, "row")))
	}
	if s.remaining > 0 {
		words = append(words, Duration(s.remaining)+" left")
	}
	if s.mfu > 0 && isFinite(s.mfu) {
		words = append(words, "MFU "+formatShare(s.mfu))
	}
	if isFinite(s.drift) {
		words = append(words, "drift "+signed(s.drift))
	}
	if s.current != "" {
		words = append(words, s.current)
	}
	return forTerminal(strings.Join(words, "  "), p.style.Unicode)
}

// signed prints a share with its sign.
func signed(v float64) string {
	s := fmt.Sprintf("%+.1f %%", 100*v)
	if strings.Trim(s, "+-0. %") == "" {
		return "0.0 %"
	}
	return s
}

// bar draws a tracker of go-pretty's progress once: its renderer is started,
// stopped by its own first output, and waited for.
func bar(done, total int, st Style) string {
	// With a total of 0 the renderer would draw an indicator that never ends.
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
	// Its colours would follow the process' environment instead of the stream.
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
	return percent + "% " + paint(tracker, Good, st)
}

// frame keeps the first output of a renderer and stops it.
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
