package report

import (
	"cmp"
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
)

// PlotGain draws the gain of one series' remedies over M: predictions as rings, measurements as dots with
// intervals.
func PlotGain(key results.SeriesKey, rows []remedy.Row, machine string) *Figure {
	var own []remedy.Row
	executed := 0
	outcomes := map[ending]bool{}
	for _, r := range rows {
		if r.Series != key {
			continue
		}
		own = append(own, r)
		if r.Executed {
			executed++
			outcomes[outcomeOf(r.Remedy)] = true
		}
	}
	f := &Figure{
		Name: fileName("gain " + key.Text()), Title: key.Text() + " — gain of remedies", Subtitle: machine,
		Alt: fmt.Sprintf("Gain of %s over %s of %s; %d executed.", Plural(len(own), "remedy", "remedies"), key.AxisWord(),
			key.Text(), executed),
	}
	f.legend = []legendItem{{"predicted", sky, ringMark}}
	for _, o := range []ending{doesPay, doesNotPay, unsteady} {
		f.key(outcomes[o], "executed, "+string(o), o.colour(), dotMark)
	}
	f.legend = append(f.legend, legendItem{"no gain", muted, dashMark})
	f.draw = func(c draw.Canvas) { drawGain(c, key.Subject, own) }
	return f
}

// ending is the result of an executed remedy, in the words of the tables.
type ending string

const (
	doesPay    ending = "pays"
	doesNotPay ending = "does not pay"
	unsteady   ending = "unsteady" // other work slowed the product: no conclusion
)

func outcomeOf(r rules.Remedy) ending {
	switch {
	case r.Pays:
		return doesPay
	case r.Unsteady:
		return unsteady
	}
	return doesNotPay
}

func (o ending) colour() color.NRGBA {
	switch o {
	case doesPay:
		return green
	case unsteady:
		return muted
	}
	return vermillion
}

func predictedGain(r rules.Remedy) float64 {
	direct := cmp.Or(r.SweepUS, r.DirectUS)
	if r.PredictedUS <= 0 || direct <= 0 {
		return 0
	}
	return direct / r.PredictedUS
}

func drawGain(canvas draw.Canvas, of kernels.Subject, rows []remedy.Row) {
	lo, hi, from, to := 1.0, 1.0, math.MaxInt, 0
	for _, r := range rows {
		from, to = min(from, r.M), max(to, r.M)
		for _, g := range []float64{predictedGain(r.Remedy), r.Gain.Lo, r.Gain.Hi} {
			if g > 0 && IsFinite(g) {
				lo, hi = math.Min(lo, g), math.Max(hi, g)
			}
		}
	}
	if to == 0 {
		from = 0
	}
	pad := math.Max(0.02, 0.06*(hi-lo))
	y := linearAxis("gain (direct ÷ remedy)", lo-pad, hi+pad, 6, func(v, step float64) string { return plainTick(v, step) + "×" })
	x := batchAxis(of, from, to, false)
	p := newPanel(canvas, x, y, 4, verticalAxisWidth(y))
	p.StrokeLine2(dashed(muted, 0.9), p.Min.X, p.fy(1), p.Max.X, p.fy(1))
	radius := vg.Length(2.4)
	if len(rows) > 200 {
		radius = 1.5
	}
	taken := spots{}
	for _, r := range rows {
		g := predictedGain(r.Remedy)
		if g <= 0 || !IsFinite(g) {
			continue
		}
		at := p.at(float64(r.M), g)
		if taken.take(at, radius) {
			p.DrawGlyph(ring(sky, radius), at)
		}
	}
	for _, r := range rows {
		if !r.Executed || !IsFinite(r.Gain.Mid) {
			continue
		}
		c := outcomeOf(r.Remedy).colour()
		at := p.at(float64(r.M), r.Gain.Mid)
		line := draw.LineStyle{Color: c, Width: 1}
		if IsFinite(r.Gain.Lo) && IsFinite(r.Gain.Hi) && r.Gain.Hi > r.Gain.Lo {
			bottom, top := p.fy(r.Gain.Lo), p.fy(r.Gain.Hi)
			p.StrokeLine2(line, at.X, bottom, at.X, top)
			p.StrokeLine2(line, at.X-2.5, bottom, at.X+2.5, bottom)
			p.StrokeLine2(line, at.X-2.5, top, at.X+2.5, top)
		}
		p.DrawGlyph(dot(c, 2.4), at)
	}
}
