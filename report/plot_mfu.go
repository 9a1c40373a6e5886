package report

import (
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/plot/vg/draw"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// PlotMFU draws MFU over M, at the common clock if known. It shows the confidence band, the observed MFU in a
// faint color, the reference and the expectation derived from it, findings as shaded intervals labeled with
// their causes, and light marks on undecided and marginal rows. The subtitle names machine.
func PlotMFU(c Curve, machine string) *Figure {
	over := "MFU over " + c.Key.AxisWord()
	f := &Figure{
		Name: fileName("mfu " + c.Key.Text() + c.suffix()), Title: c.Key.Text() + " — " + over, Subtitle: subtitle(machine, c),
		Alt: fmt.Sprintf("%s of %s: %s, %s.", over, c.Key.Text(), Count(len(c.Rows), "row"), Count(len(c.Findings), "finding")),
	}
	name := c.atClock("MFU", ", times")
	c.lineLegend(f, name, name)
	f.key(c.adjusted(), "MFU as observed", observedColour, lineMark)
	f.key(c.scaled(), "MFU at the clock of each row", green, lineMark)
	expects, verdicts := false, map[rules.Verdict]bool{}
	for _, r := range c.Rows {
		expects = expects || r.Expected > 0
		verdicts[r.Verdict] = true
	}
	if expects {
		f.legend = append(f.legend, legendItem{"reference: best of comparable smaller " + c.Key.AxisWord(), muted, lineMark})
		f.key(c.Threshold > 0 && c.Threshold < 1, fmt.Sprintf("expected, %v of it", c.Threshold), muted, dashMark)
	}
	f.legend = append(f.legend, c.findingLegend()...)
	for _, v := range openVerdicts {
		f.key(verdicts[v.verdict], string(v.verdict)+" row", v.colour, tickMark)
	}
	f.draw = func(canvas draw.Canvas) { c.drawMFU(canvas) }
	return f
}

// scaled reports whether to draw MFU at the measured clock: the peak refers to another clock, and every row
// has its own. If all rows had one clock, the line would only be scaled.
func (c *Curve) scaled() bool {
	if len(c.Rows) == 0 || c.ClockMHz > 0 || c.Peak.Origin == kernels.Measured {
		return false
	}
	for _, r := range c.Rows {
		if r.MFUAtClock.Mid <= 0 {
			return false
		}
	}
	return true
}

var observedColour = alpha(sky, 0.55)

// observed is a row's MFU by its observed time, without a band.
func observed(r rules.RowVerdict) stats.Interval {
	mfu := observedMFU(r)
	return stats.Interval{Lo: mfu, Mid: mfu, Hi: mfu}
}

// atClock is a row's MFU at its clock, without a band.
func atClock(r rules.RowVerdict) stats.Interval {
	return stats.Interval{Lo: r.MFUAtClock.Mid, Mid: r.MFUAtClock.Mid, Hi: r.MFUAtClock.Mid}
}

// subtitle names the machine and the peak behind MFU, also at the clock of the times.
func subtitle(machine string, c Curve) string {
	words := []string{}
	if machine != "" {
		words = append(words, machine)
	}
	text := "MFU " + PeakText(c.Peak)
	if peak := c.Peak.At(c.ClockMHz); peak > 0 && c.ClockMHz != c.Peak.ClockMHz && c.Peak.Origin != kernels.Measured {
		text += fmt.Sprintf(", which is %s at %.0f MHz", formatOps(peak, c.Peak.DType), c.ClockMHz)
	}
	words = append(words, text)
	return strings.Join(words, "  ·  ")
}

// mfuAxis spans the curve. It starts at 0 unless that leaves much of the panel empty.
func mfuAxis(lo, hi float64) axis {
	if !IsFinite(lo) || !IsFinite(hi) || hi <= 0 {
		lo, hi = 0, 1
	}
	return linearAxis("MFU", roomBelow(lo-0.02, hi), hi*1.03, 6, percentTick)
}

func (c *Curve) drawMFU(canvas draw.Canvas) {
	lo, hi := math.Inf(1), math.Inf(-1)
	var upper []float64
	for _, r := range c.Rows {
		lo = math.Min(lo, r.MFU.Mid)
		if IsFinite(r.MFU.Lo) {
			lo = math.Min(lo, r.MFU.Lo)
		}
		hi = math.Max(hi, r.MFU.Mid)
		upper = append(upper, r.MFU.Hi)
		if c.Threshold > 0 && r.Expected > 0 {
			hi = math.Max(hi, r.Expected/c.Threshold)
		}
	}
	if c.scaled() {
		for _, r := range c.Rows {
			lo, hi = math.Min(lo, r.MFUAtClock.Mid), math.Max(hi, r.MFUAtClock.Mid)
		}
	}
	if c.adjusted() {
		for _, r := range c.Rows {
			lo, hi = math.Min(lo, observedMFU(r)), math.Max(hi, observedMFU(r))
		}
	}
	hi = outermost(upper, hi)
	from, to := c.batches()
	p, named := c.panelWithLabels(canvas, batchAxis(c.Key.Subject, from, to, c.Linear), mfuAxis(lo, hi))
	c.shade(p)
	if c.adjusted() {
		p.curve(strokesOf(p, c.Rows, observed), observedColour, false)
	}
	if c.Threshold > 0 {
		p.expectation(c.Rows, 1/c.Threshold, draw.LineStyle{Color: muted, Width: 0.9})
		if c.Threshold < 1 {
			p.expectation(c.Rows, 1, dashed(muted, 0.9))
		}
	}
	if c.scaled() {
		p.curve(strokesOf(p, c.Rows, atClock), green, false)
	}
	p.curve(strokesOf(p, c.Rows, func(r rules.RowVerdict) stats.Interval { return r.MFU }), blue, false)
	p.open(c.Rows)
	c.bars(p)
	for _, r := range c.Rows {
		if IsFinite(r.MFU.Mid) && r.MFU.Hi > p.y.hi {
			p.arrow(p.fx(float64(r.M)), true, blue)
		}
	}
	named.draw(canvas, p.Max.Y)
}

func (c *Curve) panelWithLabels(canvas draw.Canvas, x, y axis) (*panel, labels) {
	// The panel's left and right edges do not depend on its height, so place the labels on a hidden trial
	// panel.
	trial := measurePanel(canvas, x, y)
	named := nameRegions(c.regions(trial), lettering(8.5, ink, false).Width, trial.Min.X, trial.Max.X)
	return newPanel(canvas, x, y, 4+named.height(), verticalAxisWidth(y)), named
}

// measurePanel is newPanel without drawing.
func measurePanel(canvas draw.Canvas, x, y axis) *panel {
	return newPanel(draw.Canvas{Canvas: discard{}, Rectangle: canvas.Rectangle}, x, y, 0, verticalAxisWidth(y))
}
