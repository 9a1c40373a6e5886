package report

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
)

// PlotMFU draws MFU over M with its confidence band, the reference and the
// expectation derived from it, the findings as shaded intervals with their
// causes as labels, and undecided rows as light marks. machine is named in the
// subtitle.
func PlotMFU(c Curve, machine string) *Figure {
	f := &Figure{
		Name: fileName("mfu " + SeriesText(c.Key) + c.suffix()), Title: SeriesText(c.Key) + " — MFU over M", Subtitle: subtitle(machine, c),
		Alt: fmt.Sprintf("MFU over M of %s: %s, %s.", SeriesText(c.Key), count(len(c.Rows), "row"), count(len(c.Findings), "finding")),
	}
	gathered := len(c.Rows) > maxStrokes
	f.legend = []legendItem{{"MFU", blue, lineMark}}
	if c.hasIntervals() {
		f.legend = append(f.legend, legendItem{"confidence interval", alpha(blue, 0.22), areaMark})
	}
	if gathered {
		f.legend = []legendItem{{"MFU, median of neighbouring rows", blue, lineMark}, {"their range", alpha(blue, 0.22), areaMark}}
	}
	if c.scaled() {
		f.legend = append(f.legend, legendItem{"MFU at the clock of each row", green, lineMark})
	}
	expects, undecided := false, false
	for _, r := range c.Rows {
		expects = expects || r.Expected > 0
		undecided = undecided || r.Verdict == rules.Undecided
	}
	if expects {
		name := "reference"
		if c.hasIntervals() {
			name = "reference (simultaneous lower bound)"
		}
		f.legend = append(f.legend, legendItem{name, muted, lineMark})
		if c.Threshold > 0 && c.Threshold < 1 {
			f.legend = append(f.legend, legendItem{fmt.Sprintf("expected, %v of it", c.Threshold), muted, dashMark})
		}
	}
	f.legend = append(f.legend, c.findingLegend()...)
	if undecided {
		f.legend = append(f.legend, legendItem{"undecided row", orange, tickMark})
	}
	f.draw = func(canvas draw.Canvas) { c.drawMFU(canvas) }
	return f
}

// scaled says whether MFU at the measured clock is worth a line of its own: the peak
// is of another clock than the one at hand, and every row tells its own.
func (c *Curve) scaled() bool {
	if len(c.Rows) == 0 || c.Peak.Origin == kernels.Measured {
		return false
	}
	for _, r := range c.Rows {
		if r.MFUAtClock.Mid <= 0 {
			return false
		}
	}
	return true
}

// atClock is the MFU of a row at its clock, as a line without a band.
func atClock(r rules.RowVerdict) rules.Interval {
	return rules.Interval{Lo: r.MFUAtClock.Mid, Mid: r.MFUAtClock.Mid, Hi: r.MFUAtClock.Mid}
}

// subtitle names the machine and what MFU is relative to.
func subtitle(machine string, c Curve) string {
	words := []string{}
	if machine != "" {
		words = append(words, machine)
	}
	words = append(words, "MFU "+PeakText(c.Peak))
	return strings.Join(words, "  ·  ")
}

// findingColour is the shade of a finding: the surer, the stronger.
func findingColour(s rules.Status) color.NRGBA {
	switch s {
	case rules.Confirmed:
		return alpha(vermillion, 0.26)
	case rules.Waived:
		return alpha(muted, 0.16)
	}
	return alpha(orange, 0.24)
}

// findingLegend has one item for each status of a shaded finding, and one for
// each kind of bar.
func (c *Curve) findingLegend() []legendItem {
	var items []legendItem
	shown := c.shown()
	for _, s := range []rules.Status{rules.Confirmed, rules.Unconfirmed, rules.Waived} {
		if slices.ContainsFunc(shown, func(f rules.Finding) bool { return f.Status == s }) {
			items = append(items, legendItem{"finding, " + string(s), findingColour(s), areaMark})
		}
	}
	var kernels []string
	for _, f := range c.Findings {
		if f.Rule == rules.Alternative && f.Remedy != nil && f.Remedy.Kernel != "" && !slices.Contains(kernels, f.Remedy.Kernel) {
			kernels = append(kernels, f.Remedy.Kernel)
		}
	}
	for _, rule := range barred {
		if !slices.ContainsFunc(c.Findings, func(f rules.Finding) bool { return f.Rule == rule }) {
			continue
		}
		name := string(rule)
		if rule == rules.Alternative && len(kernels) > 0 {
			name += ": " + strings.Join(kernels, ", ")
		} else if rule == rules.Alternative {
			name += ": another kernel is faster"
		}
		items = append(items, legendItem{name, barColour(rule), barMark})
	}
	return items
}

// barred are the rules whose findings compare a whole curve with another one:
// their intervals often span everything, so they are thin bars at the top.
var barred = []rules.Rule{rules.Alternative, rules.Parity}

// barColour is the colour of the bars of one rule.
func barColour(r rules.Rule) color.NRGBA {
	if r == rules.Parity {
		return alpha(sky, 0.9)
	}
	return alpha(purple, 0.9)
}

// bars draws the intervals of the rules that are not shaded at the top of the panel.
func (c *Curve) bars(p *panel) {
	const height, step = 2.5, 3.5
	from, to := c.batches()
	top := p.Max.Y
	for _, rule := range barred {
		drawn := false
		for _, f := range c.Findings {
			if f.Rule != rule || f.ToM < from || f.FromM > to {
				continue
			}
			left, right := c.spanOf(p, f.FromM, f.ToM)
			p.FillPolygon(barColour(rule), []vg.Point{{X: left, Y: top - height}, {X: right, Y: top - height}, {X: right, Y: top}, {X: left, Y: top}})
			drawn = true
		}
		if drawn {
			top -= step
		}
	}
}

// arrow marks at the edge of the panel that something lies beyond it.
func (p *panel) arrow(x vg.Length, up bool, c color.NRGBA) {
	edge, foot := p.Max.Y, p.Max.Y-6
	if !up {
		edge, foot = p.Min.Y, p.Min.Y+6
	}
	p.FillPolygon(c, []vg.Point{{X: x, Y: edge}, {X: x - 3, Y: foot}, {X: x + 3, Y: foot}})
}

// mfuAxis spans the curve. It starts at 0 unless that would leave much of the
// panel empty.
func mfuAxis(lo, hi float64) axis {
	if !isFinite(lo) || !isFinite(hi) || hi <= 0 {
		lo, hi = 0, 1
	}
	return linearAxis("MFU", roomBelow(lo-0.02, hi), hi*1.02, 6, true, percentTick)
}

func (c *Curve) drawMFU(canvas draw.Canvas) {
	lo, hi := math.Inf(1), math.Inf(-1)
	var upper []float64
	for _, r := range c.Rows {
		lo = math.Min(lo, r.MFU.Mid)
		if isFinite(r.MFU.Lo) {
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
	hi = outermost(upper, hi)
	from, to := c.batches()
	p, placed := c.panelWithLabels(canvas, batchAxis(from, to, c.Linear), mfuAxis(lo, hi))
	c.shade(p)
	if c.Threshold > 0 {
		p.expectation(c.Rows, 1/c.Threshold, draw.LineStyle{Color: muted, Width: 0.9})
		if c.Threshold < 1 {
			p.expectation(c.Rows, 1, dashed(muted, 0.9))
		}
	}
	if c.scaled() {
		p.curve(strokesOf(p, c.Rows, atClock), green, false)
	}
	p.curve(strokesOf(p, c.Rows, func(r rules.RowVerdict) rules.Interval { return r.MFU }), blue, false)
	p.undecided(c.Rows)
	c.bars(p)
	for _, r := range c.Rows {
		if isFinite(r.MFU.Mid) && r.MFU.Hi > p.y.hi {
			p.arrow(p.fx(float64(r.M)), true, blue)
		}
	}
	drawLabels(canvas, p.Max.Y, placed)
}

// panelWithLabels makes a panel with the room above it that the labels of the
// findings need.
func (c *Curve) panelWithLabels(canvas draw.Canvas, x, y axis) (*panel, []placedLabel) {
	// Where the area begins and ends does not depend on its height, so labels
	// can be placed on a trial panel that is never shown.
	trial := measurePanel(canvas, x, y)
	placed := placeLabels(c.regions(trial), lettering(8.5, ink, false).Width, trial.Min.X, trial.Max.X, labelLanes)
	top := vg.Length(4)
	if n := lanesUsed(placed); n > 0 {
		top += vg.Length(n)*laneHeight + 4
	}
	return newPanel(canvas, x, y, top, verticalAxisWidth(y)), placed
}

// measurePanel is newPanel without a trace on the canvas.
func measurePanel(canvas draw.Canvas, x, y axis) *panel {
	return newPanel(draw.Canvas{Canvas: discard{}, Rectangle: canvas.Rectangle}, x, y, 0, verticalAxisWidth(y))
}

// spanOf is the interval of the x axis that M from..to covers: half-way to the
// neighbouring rows, and no thinner than a hair where there is room.
func (c *Curve) spanOf(p *panel, from, to int) (vg.Length, vg.Length) {
	before, after := from, to
	i := searchRows(c.Rows, from)
	if i > 0 {
		before = c.Rows[i-1].M
	}
	if j := searchRows(c.Rows, to+1); j < len(c.Rows) {
		after = c.Rows[j].M
	}
	left, right := (p.fx(float64(from))+p.fx(float64(before)))/2, (p.fx(float64(to))+p.fx(float64(after)))/2
	left, right = max(p.Min.X, left), min(p.Max.X, right)
	// Where rows are dense the true width stays, so that the shade's strength is
	// the share of rows found.
	if room := p.fx(float64(after)) - p.fx(float64(before)); right-left < 1 && room > 1 {
		mid := (left + right) / 2
		left, right = mid-0.5, mid+0.5
	}
	return left, right
}

// searchRows is the index of the first row with at least that M.
func searchRows(rows []rules.RowVerdict, m int) int {
	lo, hi := 0, len(rows)
	for lo < hi {
		if mid := (lo + hi) / 2; rows[mid].M < m {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// shown are the findings that are shaded, the monotonic rule's first.
func (c *Curve) shown() []rules.Finding {
	from, to := c.batches()
	var out []rules.Finding
	for _, primary := range []bool{true, false} {
		for _, f := range c.Findings {
			if slices.Contains(barred, f.Rule) || (f.Rule == rules.Monotonic) != primary || f.ToM < from || f.FromM > to {
				continue
			}
			// Another rule that says the same of the same rows adds nothing.
			if !primary && slices.ContainsFunc(out, func(o rules.Finding) bool {
				return o.Cause == f.Cause && f.Cause != rules.Unknown && o.Status == f.Status && o.FromM <= f.ToM && f.FromM <= o.ToM
			}) {
				continue
			}
			out = append(out, f)
		}
	}
	return out
}

func (c *Curve) regions(p *panel) []region {
	var out []region
	shown := c.shown()
	for _, f := range shown {
		from, to := c.spanOf(p, f.FromM, f.ToM)
		out = append(out, region{from: from, to: to, name: clean(findingLabel(f, len(shown) <= fewFindings))})
	}
	return out
}

// fewFindings is up to how many findings each one's label may hold its own
// numbers; the labels of more are merged, for which they have to be equal.
const fewFindings = 6

// findingLabel is the rule with the cause where one is known, else, in detail,
// with what the row was held against.
func findingLabel(f rules.Finding, detail bool) string {
	s := string(f.Rule)
	if f.Cause != rules.Unknown && f.Cause != "" {
		return s + ": " + string(f.Cause)
	}
	if !detail {
		return s
	}
	switch r := f.Remedy; {
	case f.Rule == rules.Pad && r != nil && r.PadTo > 0:
		return fmt.Sprintf("%s: m%d is faster", s, r.PadTo)
	case f.Rule == rules.SplitRule && r != nil && len(r.Parts) > 0:
		return s + ": " + results.JoinInts(r.Parts, "+")
	case f.Rule == rules.Pad && f.ReferenceM > 0:
		return fmt.Sprintf("%s: m%d is faster", s, f.ReferenceM)
	case f.Rule == rules.Monotonic && f.ReferenceM > 0:
		return fmt.Sprintf("%s: below m%d", s, f.ReferenceM)
	}
	return s
}

// shade fills the intervals of the findings. Two findings of different rules
// on one interval darken it once only.
func (c *Curve) shade(p *panel) {
	for _, s := range []rules.Status{rules.Waived, rules.Unconfirmed, rules.Confirmed} {
		covered := p.Min.X
		var spans []region
		for _, f := range c.shown() {
			if f.Status == s {
				from, to := c.spanOf(p, f.FromM, f.ToM)
				spans = append(spans, region{from: from, to: to})
			}
		}
		sortRegions(spans)
		for _, r := range spans {
			from := max(r.from, covered)
			if r.to <= from {
				continue
			}
			p.FillPolygon(findingColour(s), []vg.Point{{X: from, Y: p.Min.Y}, {X: r.to, Y: p.Min.Y}, {X: r.to, Y: p.Max.Y}, {X: from, Y: p.Max.Y}})
			covered = r.to
		}
	}
}

// strokesOf turns rows into canvas units.
func strokesOf(p *panel, rows []rules.RowVerdict, value func(rules.RowVerdict) rules.Interval) []stroke {
	var out []stroke
	for _, r := range rows {
		v := value(r)
		if !isFinite(v.Mid) {
			continue
		}
		if !isFinite(v.Lo) || v.Lo > v.Mid {
			v.Lo = v.Mid
		}
		if !isFinite(v.Hi) || v.Hi < v.Mid {
			v.Hi = v.Mid
		}
		clip := func(y float64) vg.Length { return max(p.Min.Y, min(p.Max.Y, p.fy(y))) }
		out = append(out, stroke{x: p.fx(float64(r.M)), lo: clip(v.Lo), mid: clip(v.Mid), hi: clip(v.Hi), rows: 1})
	}
	return out
}

// curve draws a line with its band; stepped draws it as a staircase, each row's
// value holding from half-way to its neighbours.
func (p *panel) curve(strokes []stroke, c color.NRGBA, stepped bool) {
	strokes, _ = gather(strokes)
	if len(strokes) == 0 {
		return
	}
	if len(strokes) == 1 {
		s := strokes[0]
		p.StrokeLine2(draw.LineStyle{Color: alpha(c, 0.5), Width: 1}, s.x, s.lo, s.x, s.hi)
		p.DrawGlyph(draw.GlyphStyle{Color: c, Radius: 2.5, Shape: draw.CircleGlyph{}}, vg.Point{X: s.x, Y: s.mid})
		return
	}
	var upper, lower, line []vg.Point
	for i, s := range strokes {
		xs := []vg.Length{s.x}
		if stepped {
			xs = []vg.Length{s.x, s.x}
			if i > 0 {
				xs[0] = (s.x + strokes[i-1].x) / 2
			}
			if i < len(strokes)-1 {
				xs[1] = (s.x + strokes[i+1].x) / 2
			}
		}
		for _, x := range xs {
			upper = append(upper, vg.Point{X: x, Y: s.hi})
			lower = append(lower, vg.Point{X: x, Y: s.lo})
			line = append(line, vg.Point{X: x, Y: s.mid})
		}
	}
	for i := len(lower) - 1; i >= 0; i-- {
		upper = append(upper, lower[i])
	}
	p.FillPolygon(alpha(c, 0.22), upper)
	width := vg.Length(1.5)
	if len(strokes) > 300 {
		width = 0.9
	}
	p.StrokeLines(draw.LineStyle{Color: c, Width: width}, line)
	// Few rows are shown as such: the line between them is no measurement.
	if len(strokes) <= 60 && !stepped {
		for _, s := range strokes {
			p.DrawGlyph(draw.GlyphStyle{Color: c, Radius: 1.9, Shape: draw.CircleGlyph{}}, vg.Point{X: s.x, Y: s.mid})
		}
	}
}

// expectation draws what rows were held against, times scale, as a staircase.
func (p *panel) expectation(rows []rules.RowVerdict, scale float64, style draw.LineStyle) {
	var line []vg.Point
	for _, r := range rows {
		if r.Expected <= 0 {
			continue
		}
		y := max(p.Min.Y, min(p.Max.Y, p.fy(r.Expected*scale)))
		x := p.fx(float64(r.M))
		if n := len(line); n > 0 {
			// Long flat stretches are one line, however many rows they have.
			if n > 1 && line[n-1].Y == y && line[n-2].Y == y {
				line[n-1].X = x
				continue
			}
			if line[n-1].Y != y {
				line = append(line, vg.Point{X: x, Y: line[n-1].Y})
			}
		}
		line = append(line, vg.Point{X: x, Y: y})
	}
	if len(line) > 1 {
		p.StrokeLines(style, line)
	}
}

// undecided marks rows that were not decided at the foot of the panel, one mark
// for each place that can be told apart.
func (p *panel) undecided(rows []rules.RowVerdict) {
	last := vg.Length(math.Inf(-1))
	for _, r := range rows {
		if r.Verdict != rules.Undecided {
			continue
		}
		if x := p.fx(float64(r.M)); x-last >= 1 {
			p.StrokeLine2(draw.LineStyle{Color: orange, Width: 0.8}, x, p.Min.Y, x, p.Min.Y+5)
			last = x
		}
	}
}

// PlotComparison draws the MFU of several series of one data type and shape in
// one figure: kernels of a device, or a kernel on several devices.
func PlotComparison(curves []Curve, machine string) *Figure {
	f := &Figure{Subtitle: machine}
	if len(curves) == 0 {
		f.Name, f.Title, f.draw = "compare", "no series to compare", func(draw.Canvas) {}
		return f
	}
	key := curves[0].Key
	what := fmt.Sprintf("%s/%s n%d k%d", key.Device, key.DType, key.N, key.K)
	f.Name, f.Title = fileName("compare "+what), what+" — kernels compared"
	across := curves[len(curves)-1].Key.Device != key.Device
	if across {
		what = fmt.Sprintf("%s/%s n%d k%d", key.Kernel, key.DType, key.N, key.K)
		f.Name, f.Title = fileName("cards "+what), what+" — cards compared"
	}
	f.Subtitle = subtitle(machine, curves[0])
	f.Alt = fmt.Sprintf("MFU over M of %s, overlaid.", count(len(curves), "series"))
	for i, c := range curves {
		f.legend = append(f.legend, legendItem{curveName(c.Key, key, across), curveColours[i%len(curveColours)], lineMark})
	}
	f.draw = func(canvas draw.Canvas) {
		lo, hi, from, to := math.Inf(1), math.Inf(-1), math.MaxInt, 0
		var upper []float64
		for _, c := range curves {
			for _, r := range c.Rows {
				upper = append(upper, r.MFU.Hi)
				lo, hi, from, to = math.Min(lo, r.MFU.Mid), math.Max(hi, r.MFU.Mid), min(from, r.M), max(to, r.M)
			}
		}
		if to == 0 {
			from = 0
		}
		y := mfuAxis(lo, outermost(upper, hi))
		p := newPanel(canvas, batchAxis(from, to, false), y, 4, verticalAxisWidth(y))
		for i, c := range curves {
			p.curve(strokesOf(p, c.Rows, func(r rules.RowVerdict) rules.Interval { return r.MFU }), curveColours[i%len(curveColours)], false)
		}
	}
	return f
}

// curveName says what sets a series apart from the first.
func curveName(k, first results.SeriesKey, across bool) string {
	s := k.Kernel
	if across {
		s = k.Device
	}
	if k.DType != first.DType {
		s += " " + string(k.DType)
	}
	if k.Regime != first.Regime {
		s += " " + string(k.Regime)
	}
	if k.PackInside {
		s += " pack-inside"
	}
	if k.Threads != first.Threads {
		s += fmt.Sprintf(" %d threads", k.Threads)
	}
	return s
}
