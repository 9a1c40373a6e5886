package report

import (
	"fmt"
	"image/color"
	"math"
	"sort"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

type timed struct{ at, value float64 }

// wallTime gives each sample its time in seconds since the first. Without clock times (imported data) it uses
// the order of blocks.
func wallTime(samples []results.Sample) (name string, at func(results.Sample) float64) {
	first, known := int64(math.MaxInt64), false
	for _, s := range samples {
		if s.StartedUnixMicro > 0 {
			known = true
			first = min(first, s.StartedUnixMicro)
		}
	}
	if !known {
		return "blocks", func(s results.Sample) float64 { return float64(s.Seq) }
	}
	return "wall time", func(s results.Sample) float64 { return float64(s.StartedUnixMicro-first) / 1e6 }
}

// wallAxis is the axis of wall time in a unit that gives short numbers, with the factor that converts seconds
// to it.
func wallAxis(name string, lo, hi float64) (axis, float64) {
	unit, factor := " (s)", 1.0
	switch {
	case name != "wall time":
		unit = ""
	case hi >= 3*3600:
		unit, factor = " (h)", 1.0/3600
	case hi >= 180:
		unit, factor = " (min)", 1.0/60
	}
	return linearAxis(name+unit, lo*factor, hi*factor, 8, plainTick), factor
}

// PlotDrift draws the sentinels over wall time, each relative to its own median; their common part is the
// machine's drift. cases names the sentinels. bound is the drift above which a run is invalid, as a share of
// the time, 0 if unknown. The axis spans most samples; arrows at its edge mark samples beyond it.
func PlotDrift(sentinels []results.Sample, cases map[int64]results.Case, machine string, bound float64) *Figure {
	f := &Figure{
		Name: "drift", Title: "Drift of the sentinels", Subtitle: machine,
		Alt: fmt.Sprintf("Time of %s relative to their medians over wall time.", Count(len(sentinels), "sentinel sample")),
	}
	byCase := map[int64][]results.Sample{}
	var ids []int64
	for _, s := range sentinels {
		if IsFinite(s.US) && s.US > 0 {
			if byCase[s.CaseID] == nil {
				ids = append(ids, s.CaseID)
			}
			byCase[s.CaseID] = append(byCase[s.CaseID], s)
		}
	}
	sort.Slice(ids, func(i, j int) bool { return ids[i] < ids[j] })
	for i, id := range ids {
		name := fmt.Sprintf("case %d", id)
		if c, ok := cases[id]; ok {
			name = c.String()
		}
		// The palette has seven colors; more sentinels share them.
		f.key(i < len(curveColours), name, curveColours[i%len(curveColours)], lineMark)
	}
	if len(ids) > 0 {
		if n := medianSpan(len(byCase[ids[0]])); n > 0 {
			f.Subtitle = strings.TrimPrefix(fmt.Sprintf("%s  ·  dots: samples, lines: median of %d neighbours in time", machine, n),
				"  ·  ")
		}
	}
	f.key(bound > 0, fmt.Sprintf("bound, a run that drifts by %s is invalid", FormatShare(bound)), vermillion, dashMark)
	f.draw = func(c draw.Canvas) {
		name, at := wallTime(sentinels)
		last := 1.0
		var all, smooth []float64
		lines := make([][]timed, len(ids))
		for i, id := range ids {
			var us []float64
			for _, s := range byCase[id] {
				us = append(us, s.US)
			}
			mid := stats.Median(us)
			for _, s := range byCase[id] {
				v := timed{at(s), s.US/mid - 1}
				last = math.Max(last, v.at)
				all = append(all, v.value)
				lines[i] = append(lines[i], v)
			}
			sort.Slice(lines[i], func(a, b int) bool { return lines[i][a].at < lines[i][b].at })
		}
		for _, line := range lines {
			smooth = append(smooth, runningMedian(line)...)
		}
		lo, hi := driftRange(all, smooth)
		x, factor := wallAxis(name, 0, last)
		y := linearAxis("time, relative to the median", lo, hi, 6, signedPercent)
		p := newPanel(c, x, y, 4, verticalAxisWidth(y))
		p.StrokeLine2(dashed(muted, 0.9), p.Min.X, p.fy(0), p.Max.X, p.fy(0))
		// The bound limits the span, so drift in either direction must stay below it.
		for _, b := range []float64{bound, -bound} {
			if b != 0 && b > lo && b < hi {
				p.StrokeLine2(dashed(vermillion, 0.9), p.Min.X, p.fy(b), p.Max.X, p.fy(b))
			}
		}
		for i, line := range lines {
			p.readings(line, factor, curveColours[i%len(curveColours)], true)
		}
	}
	return f
}

// driftRange is the axis range for relative times: all lines and most samples, with a margin.
func driftRange(samples, lines []float64) (lo, hi float64) {
	lo, hi = -0.01, 0.01
	for _, v := range lines {
		lo, hi = math.Min(lo, v), math.Max(hi, v)
	}
	if n := len(samples); n > 0 {
		sorted := append([]float64(nil), samples...)
		sort.Float64s(sorted)
		// Samples beyond 1.5 times the range of the middle 90 % are off the axis; with few samples, only the
		// outermost can be.
		out := max(n/20, min(1, n/8))
		least, most := sorted[out], sorted[n-1-out]
		lo = math.Min(lo, math.Max(sorted[0], 1.5*least))
		hi = math.Max(hi, math.Min(sorted[n-1], 1.5*math.Max(most, 0)))
	}
	return lo * 1.1, hi * 1.1
}

func signedPercent(v, step float64) string {
	s := percentTick(v, step)
	if v > step/2 {
		return "+" + s
	}
	return s
}

func (p *panel) readings(values []timed, factor float64, c color.NRGBA, joined bool) {
	radius := vg.Length(1.8)
	if len(values) > 400 {
		radius = 1
	}
	taken := spots{}
	for _, v := range values {
		if v.value > p.y.hi || v.value < p.y.lo {
			p.arrow(p.fx(v.at*factor), v.value > p.y.hi, alpha(c, 0.7))
			continue
		}
		at := p.at(v.at*factor, v.value)
		if taken.take(at, 1) {
			p.DrawGlyph(dot(alpha(c, 0.45), radius), at)
		}
	}
	if !joined || len(values) < 2 {
		return
	}
	var line []vg.Point
	for i, v := range runningMedian(values) {
		line = append(line, p.at(values[i].at*factor, v))
	}
	p.StrokeLines(draw.LineStyle{Color: c, Width: 1.3}, thin(line))
}

// spots holds the occupied positions of a plot. Where thousands of glyphs overlap, one per spot is enough.
type spots map[[2]int]bool

// take occupies the spot of the given size around a point and reports whether it was free.
func (s spots) take(at vg.Point, size vg.Length) bool {
	spot := [2]int{int(at.X / size), int(at.Y / size)}
	taken := s[spot]
	s[spot] = true
	return !taken
}

func medianSpan(n int) int {
	if n < 2 {
		return 0
	}
	return min(n, 2*max(2, min(25, n/20))+1)
}

// runningMedian smooths readings in order of time; the window is smaller at the ends.
func runningMedian(values []timed) []float64 {
	half := medianSpan(len(values)) / 2
	out := make([]float64, 0, len(values))
	var near []float64
	for i := range values {
		near = near[:0]
		for j := max(0, i-half); j <= min(len(values)-1, i+half); j++ {
			near = append(near, values[j].value)
		}
		out = append(out, stats.Median(near))
	}
	return out
}

// PlotClocks draws clock, power and temperature over wall time, as far as the device reports them; it returns
// nil without any. Samples taken while throttled are marked.
func PlotClocks(samples []results.Sample, machine string) *Figure {
	quantities := []struct {
		name   string
		colour color.NRGBA
		value  func(results.Sample) float64
	}{
		{"clock (MHz)", blue, func(s results.Sample) float64 { return s.ClockMHz }},
		{"power (W)", vermillion, func(s results.Sample) float64 { return s.PowerW }},
		{"temperature (°C)", green, func(s results.Sample) float64 { return s.TempC }},
	}
	name, at := wallTime(samples)
	var names []string
	var colours []color.NRGBA
	var data [][]timed
	last, throttled := 1.0, []float64{}
	for _, s := range samples {
		last = math.Max(last, at(s))
		if s.Throttle != "" {
			throttled = append(throttled, at(s))
		}
	}
	for _, q := range quantities {
		var values []timed
		for _, s := range samples {
			if v := q.value(s); v > 0 && IsFinite(v) {
				values = append(values, timed{at(s), v})
			}
		}
		if len(values) > 0 {
			sort.Slice(values, func(i, j int) bool { return values[i].at < values[j].at })
			names, colours, data = append(names, q.name), append(colours, q.colour), append(data, values)
		}
	}
	if len(data) == 0 {
		return nil
	}
	f := &Figure{
		Name: "clocks", Title: "Clock during the blocks", Subtitle: machine,
		Alt: fmt.Sprintf("Clock, power and temperature of %s over wall time, as far as they are known.", Count(len(samples), "block")),
	}
	f.legend = []legendItem{{"one block", alpha(colours[0], 0.45), dotMark}, {"running median", colours[0], lineMark}}
	f.key(len(throttled) > 0, "throttled", orange, tickMark)
	f.draw = func(c draw.Canvas) {
		// Only the lowest panel labels the time axis, so it is higher.
		const gap, foot = 4, 24
		each := (c.Max.Y - c.Min.Y - foot - gap*vg.Length(len(data)-1)) / vg.Length(len(data))
		axes := make([]axis, len(data))
		var left vg.Length
		for i, values := range data {
			lo, hi := math.Inf(1), math.Inf(-1)
			for _, v := range values {
				lo, hi = math.Min(lo, v.value), math.Max(hi, v.value)
			}
			// A steady clock must be a flat line, not noise enlarged to the panel.
			pad := 0.05 * (hi - lo)
			if hi-lo < 0.02*hi {
				pad = 0.02 * hi
			}
			axes[i] = linearAxis(names[i], math.Max(0, lo-pad), hi+pad, max(3, 6/len(data)), plainTick)
			left = max(left, verticalAxisWidth(axes[i]))
		}
		for i, values := range data {
			x, factor := wallAxis(name, 0, last)
			top := c.Max.Y - vg.Length(i)*(each+gap)
			bottom := top - each
			if i == len(data)-1 {
				bottom = c.Min.Y
			} else {
				x.bare = true
			}
			p := newPanel(draw.Crop(c, 0, 0, bottom-c.Min.Y, top-c.Max.Y), x, axes[i], 4, left)
			p.readings(values, factor, colours[i], true)
			if i == 0 {
				previous := vg.Length(-1)
				for _, t := range throttled {
					if tx := p.fx(t * factor); tx-previous >= 1 || tx < previous {
						p.StrokeLine2(draw.LineStyle{Color: orange, Width: 0.8}, tx, p.Min.Y, tx, p.Min.Y+5)
						previous = tx
					}
				}
			}
		}
	}
	return f
}
