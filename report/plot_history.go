package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg/draw"

	"github.com/gemmaudit/gemmaudit/rules/history"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// PlotHistory draws the cases with the largest changes by date, each with its levels, relative to its first
// level. Without changes, it draws the cases present in most runs.
func PlotHistory(r *history.Result) *Figure {
	f := &Figure{Name: "history", Title: "Times over runs", Subtitle: strings.TrimSuffix(historyVerdict(r), "."),
		Alt: "Median time of cases over runs, with their levels. " + historyVerdict(r)}
	most := func(c history.Case) float64 {
		m := 0.0
		for _, x := range c.Changes {
			m = math.Max(m, math.Abs(math.Log(x.Ratio.Mid)))
		}
		return m
	}
	shown := slices.Clone(r.Cases)
	slices.SortStableFunc(shown, func(a, b history.Case) int { return cmp.Compare(most(b), most(a)) })
	shown = shown[:min(len(shown), len(curveColours)-1)]
	for i, c := range shown {
		f.legend = append(f.legend, legendItem{fmt.Sprintf("%s m%d", c.Series.Text(), c.M), curveColours[i], lineMark})
	}
	f.draw = func(canvas draw.Canvas) {
		lines, levels := make([][]timed, len(shown)), make([][]timed, len(shown))
		var all, smooth []float64
		for i, c := range shown {
			lines[i], levels[i] = historyLine(c)
			for _, v := range lines[i] {
				all = append(all, v.value)
			}
			for _, v := range levels[i] {
				smooth = append(smooth, v.value)
			}
		}
		lo, hi := driftRange(all, smooth)
		x := linearAxis("run, by date", 1, math.Max(2, float64(len(r.Runs))), 8, plainTick)
		y := linearAxis("time, relative to the first level", lo, hi, 6, signedPercent)
		p := newPanel(canvas, x, y, 4, verticalAxisWidth(y))
		p.StrokeLine2(dashed(muted, 0.9), p.Min.X, p.fy(0), p.Max.X, p.fy(0))
		for i, line := range lines {
			p.readings(line, 1, curveColours[i], false)
			for k := 1; k < len(levels[i]); k++ {
				a, b := levels[i][k-1], levels[i][k]
				p.StrokeLine2(draw.LineStyle{Color: curveColours[i], Width: 1.5}, p.fx(a.at), p.fy(a.value), p.fx(b.at), p.fy(a.value))
				p.StrokeLine2(draw.LineStyle{Color: curveColours[i], Width: 1.5}, p.fx(b.at), p.fy(a.value), p.fx(b.at), p.fy(b.value))
			}
		}
	}
	return f
}

// historyLine is a case's times, and the start and end of each level, as shares of the first level.
func historyLine(c history.Case) (times, levels []timed) {
	var us []float64
	last := 0
	for i, v := range c.US {
		if v != nil {
			us, last = append(us, *v), i
		}
	}
	first := stats.Median(us)
	if len(c.Changes) > 0 {
		first = c.Changes[0].FromUS
	}
	for i, v := range c.US {
		if v != nil {
			times = append(times, timed{float64(i + 1), *v/first - 1})
		}
	}
	levels = append(levels, timed{1, 0})
	for _, x := range c.Changes {
		levels = append(levels, timed{float64(x.Run + 1), x.ToUS/first - 1})
	}
	return times, append(levels, timed{float64(last + 1), levels[len(levels)-1].value})
}
