package report

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot/vg/draw"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// PlotComparison draws the MFU of several series of one data type and shape in
// one figure: kernels of a device, or a kernel on several devices.
func PlotComparison(curves []Curve, machine string) *Figure {
	f := &Figure{Subtitle: machine}
	if len(curves) == 0 {
		f.Name, f.Title, f.draw = "compare", "no series to compare", func(draw.Canvas) {}
		return f
	}
	key := curves[0].Key
	what := key.Device + "/" + key.Subject.String()
	f.Name, f.Title = fileName("compare "+what), what+" — kernels compared"
	across := curves[len(curves)-1].Key.Device != key.Device
	if across {
		what = key.Kernel + "/" + key.Subject.String()
		f.Name, f.Title = fileName("cards "+what), what+" — cards compared"
	}
	f.Subtitle = subtitle(machine, curves[0])
	if mhz := curves[0].ClockMHz; mhz > 0 && !slices.ContainsFunc(curves, func(c Curve) bool { return c.ClockMHz != mhz }) {
		f.Subtitle += fmt.Sprintf("  ·  times at %.0f MHz", mhz)
	}
	f.Alt = fmt.Sprintf("MFU over M of %s, overlaid.", Count(len(curves), "series"))
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
		p := newPanel(canvas, batchAxis(curves[0].Key.Subject, from, to, false), y, 4, verticalAxisWidth(y))
		for i, c := range curves {
			p.curve(strokesOf(p, c.Rows, func(r rules.RowVerdict) stats.Interval { return r.MFU }), curveColours[i%len(curveColours)],
				false)
		}
	}
	return f
}

// curveName names a series by its differences from the first.
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
