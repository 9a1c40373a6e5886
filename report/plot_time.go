package report

import (
	"fmt"
	"image/color"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Boundary is the M before a kernel needs one more wave or tile.
type Boundary struct {
	M    int    // the last M that fits
	Kind string // "wave", "tile"
}

// PlotTime draws the time of a launch over M as steps, with the minimum time that peak and bandwidth allow,
// if known. Known boundaries of waves or tiles are light vertical lines.
func PlotTime(c Curve, machine string, boundaries []Boundary) *Figure {
	f := &Figure{
		times: c.Key, Name: fileName("time " + c.Key.Text() + c.suffix()), Title: c.Key.Text() + " — time over " + c.Key.AxisWord(),
		Subtitle: machine,
		Alt:      fmt.Sprintf("Time of a launch over %s of %s, %s.", c.Key.AxisWord(), c.Key.Text(), Count(len(c.Rows), "row")),
	}
	name := c.atClock("time", "")
	c.lineLegend(f, name+", median", name)
	if c.Peak.FLOPS > 0 {
		name := "least time at " + formatOps(c.Peak.FLOPS, c.Peak.DType)
		if memory := formatRate(c.Bandwidth.Rate, "B/s"); c.Peak.Memory.Rate > 0 {
			name = "least time of a " + string(c.Bandwidth.Of) + " at " + memory
		} else if c.Bandwidth.Rate > 0 {
			name += " and " + memory
		}
		f.legend = append(f.legend, legendItem{name + ", " + string(c.Peak.Origin), green, dashMark})
	}
	f.legend = append(f.legend, c.findingLegend()...)
	seen := map[string]bool{}
	for _, b := range boundaries {
		if !seen[b.Kind] {
			seen[b.Kind] = true
			f.legend = append(f.legend, legendItem{"end of a " + b.Kind, boundaryColour(b.Kind), tickMark})
		}
	}
	f.draw = func(canvas draw.Canvas) { c.drawTime(canvas, boundaries) }
	return f
}

func boundaryColour(kind string) color.NRGBA {
	if kind == "wave" {
		return alpha(purple, 0.8)
	}
	return alpha(muted, 0.4)
}

// least is the minimum possible time of a launch in microseconds, 0 if unknown.
func (c *Curve) least(m int) float64 {
	if c.Peak.FLOPS <= 0 {
		return 0
	}
	t := c.Key.FLOPs(m) / c.Peak.FLOPS
	if c.Bandwidth.Rate > 0 { // the peak may be derived from it, averaged over M
		t = math.Max(t, c.Key.Bytes(m)/c.Bandwidth.Rate)
	}
	return t * 1e6
}

func (c *Curve) drawTime(canvas draw.Canvas, boundaries []Boundary) {
	lo, hi := math.Inf(1), 0.0
	var upper []float64
	for _, r := range c.Rows {
		if IsFinite(r.US.Mid) {
			lo, hi = math.Min(lo, r.US.Mid), math.Max(hi, r.US.Mid)
			upper = append(upper, r.US.Hi)
		}
		if IsFinite(r.US.Lo) && r.US.Lo > 0 {
			lo = math.Min(lo, r.US.Lo)
		}
	}
	hi = outermost(upper, hi)
	from, to := c.batches()
	x := batchAxis(c.Key.Subject, from, to, c.Linear)
	// Show the minimum time only as far as it is near the curve. At small M without a known bandwidth it is
	// orders of magnitude lower and would flatten the curve.
	room := lo * math.Pow(lo/math.Max(hi, lo), 0.5)
	for _, r := range c.Rows {
		if least := c.least(r.M); least >= math.Min(room, 0.8*lo) {
			lo = math.Min(lo, least)
			break
		}
	}
	y, factor := timeAxis(lo, hi, x.log)
	p, named := c.panelWithLabels(canvas, x, y)
	c.shade(p)
	p.boundaries(boundaries)
	var floor []vg.Point
	for _, r := range c.Rows {
		if least := c.least(r.M) * factor; least > 0 && least >= y.lo && least <= y.hi {
			floor = append(floor, p.at(float64(r.M), least))
		}
	}
	if len(floor) > 1 {
		p.StrokeLines(dashed(green, 1), thin(floor))
	}
	p.curve(strokesOf(p, c.Rows, func(r rules.RowVerdict) stats.Interval { return interval(r.US, factor) }), blue, true)
	c.bars(p)
	for _, r := range c.Rows {
		if IsFinite(r.US.Mid) && r.US.Hi*factor > y.hi {
			p.arrow(p.fx(float64(r.M)), true, blue)
		}
	}
	named.draw(canvas, p.Max.Y)
}

// leastGap is the smallest distance between vertical lines; closer ones look like hatching.
const leastGap = vg.Length(5)

// boundaries draws vertical lines of each kind, up to the first that is too close to its successor.
func (p *panel) boundaries(all []Boundary) {
	byKind := map[string][]vg.Length{}
	for _, b := range all {
		if v := float64(b.M); v >= p.x.lo && v <= p.x.hi {
			byKind[b.Kind] = append(byKind[b.Kind], p.fx(v))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(byKind)) {
		xs := byKind[kind]
		for i, x := range xs {
			if i+1 < len(xs) && xs[i+1]-x < leastGap {
				break
			}
			p.StrokeLine2(draw.LineStyle{Color: boundaryColour(kind), Width: 0.6}, x, p.Min.Y, x, p.Max.Y)
		}
	}
}

func thin(line []vg.Point) []vg.Point {
	out := line[:1]
	for _, p := range line[1:] {
		last := out[len(out)-1]
		if p.X-last.X >= 0.5 || math.Abs(float64(p.Y-last.Y)) >= 0.5 {
			out = append(out, p)
		}
	}
	return out
}
