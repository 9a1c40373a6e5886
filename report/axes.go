package report

import (
	"math"
	"sort"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// axis maps values to a scale and places its ticks.
type axis struct {
	name   string
	lo, hi float64 // in values
	log    bool
	label  func(float64) string
	ticks  []float64
	// bare omits name and labels, because another panel below shows them.
	bare bool
}

// scale is the value's position on the axis before it is stretched to the canvas.
func (a axis) scale(v float64) float64 {
	if a.log {
		return math.Log2(math.Max(v, a.lo*0.5))
	}
	return v
}

// logRange is the ratio of largest to smallest M above which the M axis is logarithmic. On a linear axis the
// small batches would have no room.
const logRange = 64

// batchAxis is the axis for a subject's curves from lo to hi, along M or another dimension. It is
// logarithmic for a wide range, unless linear is set.
func batchAxis(s kernels.Subject, lo, hi int, linear bool) axis {
	name := s.AxisWord()
	if s.OverM() {
		name += " (" + s.Operation.Swept() + ")"
	}
	a := axis{name: name, lo: float64(lo), hi: float64(hi),
		label: func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }}
	if lo < 1 {
		a.lo = 1
	}
	if hi <= lo {
		a.lo, a.hi = math.Max(0, a.lo-1), a.lo+1
	}
	if !linear && a.hi/math.Max(a.lo, 1) > logRange {
		a.log = true
		step := 1.0
		if math.Log2(a.hi/a.lo) > 18 {
			step = 2
		}
		for e := math.Ceil(math.Log2(a.lo)); e <= math.Log2(a.hi)+1e-9; e += step {
			a.ticks = append(a.ticks, math.Exp2(e))
		}
		return a
	}
	// Batch sizes are multiples of powers of two, so the ticks are too.
	step := 1.0
	for (a.hi-a.lo)/step > 9 {
		step *= 2
	}
	for v := math.Ceil(a.lo/step) * step; v <= a.hi; v += step {
		a.ticks = append(a.ticks, v)
	}
	return a
}

// linearAxis has about n ticks at round values.
func linearAxis(name string, lo, hi float64, n int, label func(v, step float64) string) axis {
	if !IsFinite(lo) || !IsFinite(hi) || hi <= lo {
		if !IsFinite(lo) {
			lo = 0
		}
		hi = lo + math.Max(1, math.Abs(lo)*0.1)
	}
	step := roundStep((hi - lo) / float64(n))
	a := axis{name: name, lo: lo, hi: hi, label: func(v float64) string { return label(v, step) }}
	for i := math.Ceil(lo/step - 1e-9); i*step <= hi+step*1e-9; i++ {
		// Adding 0 turns a negative zero, which would print as "-0", into 0.
		a.ticks = append(a.ticks, i*step+0)
	}
	return a
}

func roundStep(v float64) float64 {
	if v <= 0 || !IsFinite(v) {
		return 1
	}
	base := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 5, 10} {
		if f*base >= v*(1-1e-9) {
			return f * base
		}
	}
	return 10 * base
}

func decimals(step float64) int {
	for d := 0; d < 6; d++ {
		if scaled := step * math.Pow(10, float64(d)); math.Abs(scaled-math.Round(scaled)) < 1e-6 {
			return d
		}
	}
	return 6
}

func plainTick(v, step float64) string { return strconv.FormatFloat(v, 'f', decimals(step), 64) }

func percentTick(v, step float64) string {
	return strconv.FormatFloat(100*v, 'f', decimals(100*step), 64) + " %"
}

// timeAxis is the axis of times from lo to hi in microseconds, in a unit that gives short numbers. Multiply
// microseconds by factor. A linear axis begins at 0 unless that leaves much of the panel empty.
func timeAxis(lo, hi float64, log bool) (a axis, factor float64) {
	unit, factor := "us", 1.0
	switch {
	case hi >= 2e6:
		unit, factor = "s", 1e-6
	case hi >= 2e3:
		unit, factor = "ms", 1e-3
	}
	name := "time per launch (" + unit + ")"
	if !log || lo <= 0 {
		lo = roomBelow(lo, hi)
		return linearAxis(name, lo*factor, (hi+0.02*(hi-lo))*factor, 6, plainTick), factor
	}
	a = axis{name: name, lo: lo * factor * 0.8, hi: hi * factor * 1.15, log: true,
		label: func(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }}
	steps := []float64{1, 2, 5}
	if a.hi/a.lo > 1e3 {
		steps = []float64{1}
	}
	for e := math.Floor(math.Log10(a.lo)); e <= math.Log10(a.hi); e++ {
		for _, s := range steps {
			if v := s * math.Pow(10, e); v >= a.lo && v <= a.hi {
				a.ticks = append(a.ticks, v)
			}
		}
	}
	return a, factor
}

// roomBelow is the start of a linear axis for lo to hi: 0, unless that leaves much of the panel empty.
func roomBelow(lo, hi float64) float64 {
	if lo -= 0.3 * (hi - lo); lo < 0.35*hi {
		return 0
	}
	return lo
}

// outermost is the largest of values without outliers far above the others and above core: one wild bound
// must not flatten the plot. Non-finite values are ignored.
func outermost(values []float64, core float64) float64 {
	const far = 1.5 // relative to the others' distance from 0
	var v []float64
	for _, x := range values {
		if IsFinite(x) {
			v = append(v, x)
		}
	}
	sort.Float64s(v)
	n := len(v)
	for lone := min(max(1, n/50), n-1); lone > 0; lone-- {
		if rest := math.Max(core, v[n-1-lone]); v[n-lone] > far*rest {
			return rest
		}
	}
	if n == 0 {
		return core
	}
	return math.Max(core, v[n-1])
}

// panel is the drawing area between two axes.
type panel struct {
	draw.Canvas
	x, y axis
	fx   func(float64) vg.Length
	fy   func(float64) vg.Length
}

func (p *panel) at(x, y float64) vg.Point { return vg.Point{X: p.fx(x), Y: p.fy(y)} }

// newPanel draws axes and grid into c and returns the area between them. It leaves top free above the area. A
// positive left sets the width of the y axis, to align stacked panels.
func newPanel(c draw.Canvas, x, y axis, top, left vg.Length) *panel {
	p := plot.New()
	p.BackgroundColor = nil
	for i, a := range []axis{x, y} {
		target := &p.X
		if i == 1 {
			target = &p.Y
		}
		target.Min, target.Max = a.scale(a.lo), a.scale(a.hi)
		target.Padding = 3
		target.LineStyle = draw.LineStyle{Color: muted, Width: 0.6}
		if !a.bare {
			target.Label.Text = a.name
		}
		target.Label.Padding = 3
		label := lettering(textSize, ink, false)
		label.XAlign, label.YAlign = text.XCenter, text.YBottom
		target.Label.TextStyle = label
		tick := lettering(8.5, ink, false)
		if i == 0 {
			tick.XAlign, tick.YAlign = text.XCenter, text.YTop
		} else {
			tick.XAlign, tick.YAlign = text.XRight, text.YCenter
		}
		target.Tick.Label = tick
		target.Tick.LineStyle = draw.LineStyle{Color: muted, Width: 0.6}
		target.Tick.Length = 3
		target.Tick.Marker = tickMarker(a)
	}
	c = draw.Crop(c, 0, -6, 0, -top)
	if left > 0 {
		own := c.Min.X
		c = draw.Crop(c, left-(p.DataCanvas(c).Min.X-own), 0, 0, 0)
	}
	area := p.DataCanvas(c)
	fx, fy := p.Transforms(&area)
	out := &panel{Canvas: area, x: x, y: y, fx: func(v float64) vg.Length { return fx(x.scale(v)) },
		fy: func(v float64) vg.Length { return fy(y.scale(v)) }}
	for _, v := range y.ticks {
		c.StrokeLine2(draw.LineStyle{Color: gridGrey, Width: 0.6}, area.Min.X, out.fy(v), area.Max.X, out.fy(v))
	}
	p.Draw(c)
	return out
}

func tickMarker(a axis) plot.Ticker {
	return plot.TickerFunc(func(lo, hi float64) []plot.Tick {
		var ticks []plot.Tick
		for _, v := range a.ticks {
			t := plot.Tick{Value: a.scale(v), Label: a.label(v)}
			if a.bare {
				t.Label = " "
			}
			ticks = append(ticks, t)
		}
		return ticks
	})
}

func verticalAxisWidth(y axis) vg.Length {
	style := lettering(8.5, ink, false)
	var widest vg.Length
	for _, v := range y.ticks {
		widest = max(widest, style.Width(y.label(v)))
	}
	// The rest is the axis name with padding, the ticks and the gap to the area.
	return widest + textSize*1.3 + 14
}
