package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/problem"
)

// around is the small plot of a problem: the times of neighboring sizes, its own time, and the best
// alternative time.
type around struct {
	problem *problem.Problem
	rows    []rules.RowVerdict
}

const (
	// leastAside and mostAside limit the sizes shown on each side of a problem; between the limits it is half
	// the problem's number of sizes.
	leastAside, mostAside = 5, 30
	// mostDots is the most sizes drawn as single dots.
	mostDots = 48
	// wideRange is the ratio of last to first M above which the M axis is logarithmic.
	wideRange = 6
)

// cut keeps the rows around the problem, including those up to the padded size.
func (a *around) cut(rows []rules.RowVerdict) {
	p := a.problem
	rows = slices.DeleteFunc(slices.Clone(rows), func(r rules.RowVerdict) bool { return !(r.US.Mid > 0) || !IsFinite(r.US.Mid) })
	at := func(m int) int {
		i, _ := slices.BinarySearchFunc(rows, m, func(r rules.RowVerdict, m int) int { return r.M - m })
		return i
	}
	from, to := at(p.FromM), at(p.ToM+1)
	aside := min(mostAside, max(leastAside, (to-from)/2))
	if p.Remedy != nil && p.Remedy.PadTo > 0 {
		to = max(to, at(p.Remedy.PadTo+1)-aside/2)
	}
	from, to = max(0, from-aside, at(p.M)-2*mostAside), min(len(rows), to+aside, at(p.M)+2*mostAside)
	if from < to {
		a.rows = rows[from:to]
	}
}

const (
	svgWidth, svgHeight                = 340, 170
	svgLeft, svgRight, svgTop, svgFoot = 34, 12, 10, 22
	digitWidth                         = 7.5 // of a label, in wide fonts
)

func (a *around) svg(w io.Writer) {
	p := a.problem
	if len(a.rows) == 0 {
		return
	}
	first, last := float64(a.rows[0].M), float64(a.rows[len(a.rows)-1].M)
	scale := func(m float64) float64 { return m }
	if last/first >= wideRange {
		scale = math.Log
	}
	high := a.high()
	_, factor := timeUnit(high)
	axis := linearAxis("", 0, high*factor, 4, plainTick)
	high *= 1.08
	x := func(m float64) float64 {
		m = min(max(m, first), last)
		if last <= first {
			return svgLeft + (svgWidth-svgLeft-svgRight)/2
		}
		return svgLeft + (scale(m)-scale(first))/(scale(last)-scale(first))*(svgWidth-svgLeft-svgRight)
	}
	y := func(us float64) float64 { return svgTop + (1-us/high)*(svgHeight-svgTop-svgFoot) }

	fmt.Fprintf(w, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">", svgWidth, svgHeight, forHTML(a.alt()))
	left, right := x(float64(p.FromM))-4, x(float64(p.ToM))+4
	fmt.Fprintf(w, "<rect class=\"stretch\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>", left, svgTop, right-left,
		svgHeight-svgTop-svgFoot)
	for _, tick := range axis.ticks {
		at := y(tick / factor)
		fmt.Fprintf(w,
			"<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/><text class=\"right\" x=\"%d\" y=\"%.1f\">%s</text>",
			svgLeft, svgWidth-svgRight, at, at, svgLeft-5, at+4, forHTML(axis.label(tick)))
	}
	a.ticks(w, x)
	points := make([]string, 0, len(a.rows))
	for _, r := range a.rows {
		points = append(points, fmt.Sprintf("%.1f,%.1f", x(float64(r.M)), y(r.US.Mid)))
	}
	fmt.Fprintf(w, "<polyline class=\"curve\" points=\"%s\"/>", strings.Join(points, " "))
	if len(a.rows) <= mostDots {
		for _, r := range a.rows {
			fmt.Fprintf(w, "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"1.8\"/>", x(float64(r.M)), y(r.US.Mid))
		}
	}
	at := x(float64(p.M))
	if p.BetterUS > 0 && p.BetterUS < high && p.US > 0 {
		fmt.Fprintf(w,
			"<line class=\"gain\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/><circle class=\"better\" cx=\"%.1f\" cy=\"%.1f\" "+
				"r=\"4.5\"/>", at, at, y(p.US), y(p.BetterUS), at, y(p.BetterUS))
	}
	if p.US > 0 {
		fmt.Fprintf(w, "<circle class=\"now\" cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\"/>", at, y(p.US))
	}
	fmt.Fprintf(w, "</svg>")
}

// high is the largest time of the plot in microseconds. Larger times are labeled in milliseconds, since the
// margin has room for four digits.
func (a *around) high() float64 {
	high := a.problem.US
	for _, r := range a.rows {
		high = max(high, r.US.Mid)
	}
	return high
}

func (a *around) caption() string {
	unit, _ := timeUnit(a.high())
	return fmt.Sprintf("Time over %s in %s", a.problem.AxisWord(), unit)
}

func (a *around) alt() string {
	return fmt.Sprintf("Time over %s from %d to %d. %s", a.problem.AxisWord(), a.rows[0].M, a.rows[len(a.rows)-1].M,
		timesSentence(a.problem, false, false))
}

// ticks labels the problem's M below the plot, and the first and last size if there is space.
func (a *around) ticks(w io.Writer, x func(float64) float64) {
	var ends []float64 // left and right edges of written labels, in turn
	for _, m := range []int{a.problem.M, a.rows[0].M, a.rows[len(a.rows)-1].M} {
		text, class := itoa(m), "middle"
		if m == a.problem.M {
			text, class = a.problem.AxisWord()+" "+text, "middle strong"
		}
		half := digitWidth * float64(len(text)) / 2
		at := min(max(x(float64(m)), half), svgWidth-half)
		crowded := false
		for i := 0; i < len(ends); i += 2 {
			crowded = crowded || at-half < ends[i+1]+4 && at+half > ends[i]-4
		}
		if crowded {
			continue
		}
		ends = append(ends, at-half, at+half)
		fmt.Fprintf(w, "<text class=\"%s\" x=\"%.1f\" y=\"%d\">%s</text>", class, at, svgHeight-6, text)
	}
}
