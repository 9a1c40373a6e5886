package rules

import (
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// lineRows is the least number of other rows behind a line that a cause rests on.
const lineRows = 5

// lineWidth is the largest half-width, as a share, of a time that a cause rests on.
const lineWidth = 0.02

func (c *curve) lines() []*fitted {
	if c.inference != nil {
		return c.inference.families
	}
	if c.fitted == nil {
		c.fitted = []*fitted{}
		a := asking{key: c.series.Key, check: func(int) bool { return false }, units: unitsOf(c.spec)}
		for _, p := range c.points {
			if p.label != "" {
				a.ms = append(a.ms, p.m)
			}
		}
		families, _ := a.families(c.points)
		for _, f := range families {
			if len(f.rows) > lineRows {
				l := fitLine(f, c.points, func(p point) bool { return p.n > 0 && p.serves(0) }, func(familyRow) bool { return false },
					usualScatter)
				c.fitted = append(c.fitted, &fitted{family: f, line: l})
			}
		}
	}
	return c.fitted
}

func (l *line) span() string {
	return fmt.Sprintf("the fit of %s from m%d to m%d", plural(len(l.rows), "row"), l.rows[0].m, l.rows[len(l.rows)-1].m)
}

// offLine: the row is slow for its kernel, by the line of the kernel's other rows.
func (w *witness) offLine() (Cause, string) {
	if w.row.label == "" {
		return "", ""
	}
	for _, f := range w.curve.lines() {
		at, found := f.at(w.row.m)
		if !found || f.line == nil {
			continue
		}
		row := f.rows[at]
		if row.point < 0 {
			return "", "" // the row was not measured: its time is the line's
		}
		if len(f.line.rows) <= lineRows {
			return "", fmt.Sprintf("%s runs too few other sizes to predict its time", short(w.row.label))
		}
		p := f.line.leaving(row)
		off := w.row.us.Y - p.Y
		if off > clearly*math.Hypot(p.SE, w.row.us.SE) && w.explains(stats.Lost(-off)) {
			return Implementation,
				fmt.Sprintf("%s takes %s us here, but %[4]s us according to %[3]s: the kernel itself is slow at this %[5]s",
					short(w.row.label), figure(math.Exp(w.row.us.Y)), f.line.span(), figure(math.Exp(p.Y)), dimension(w.curve.series.Key))
		}
		return "", fmt.Sprintf("%s takes as long as expected from other sizes: %s us from %s", short(w.row.label), figure(math.Exp(p.Y)),
			f.line.span())
	}
	return "", ""
}

// otherLine: another kernel of the same library would be faster, by the line of its rows.
func (w *witness) otherLine() (Cause, string) {
	if w.row.label == "" {
		return "", ""
	}
	var best *line
	least := math.Inf(1)
	for _, c := range append([]*curve{w.curve}, w.curve.choices...) {
		for _, f := range c.lines() {
			l := f.line
			if l == nil || f.failed || len(l.rows) < lineRows || f.kind.tile[0] == 0 || alikeLabels(f.kind.label, w.row.label) ||
				w.row.m < l.rows[0].m || w.row.m > l.rows[len(l.rows)-1].m {
				continue
			}
			// At this M the family has the waves of its nearest row's launch.
			near := f.nearest(w.row.m)
			near.m, near.point = w.row.m, -1
			p := l.foretellAt(near)
			if half := clearly * p.SE; half <= lineWidth && p.Y+half < least {
				best, least = l, p.Y+half
			}
		}
	}
	switch {
	case best == nil:
		return "", fmt.Sprintf("no other kernel of %s has a fit for this size", w.kernel())
	case least > w.within():
		return "",
			fmt.Sprintf("other kernels of %s take at least %s us at m%d, from their fits", w.kernel(), figure(math.Exp(least)), w.row.m)
	}
	return HeuristicChoice, fmt.Sprintf("%s has %s, which would take at most %s us at m%d, from %s, while this size runs %s",
		w.kernel(), short(best.family.kind.label), figure(math.Exp(least)), w.row.m, best.span(), short(w.row.label))
}

func (f *family) at(m int) (int, bool) {
	return slices.BinarySearchFunc(f.rows, m, func(r familyRow, m int) int { return r.m - m })
}

func (f *family) nearest(m int) familyRow {
	at, _ := f.at(m)
	if at == len(f.rows) || at > 0 && m-f.rows[at-1].m <= f.rows[at].m-m {
		at--
	}
	return f.rows[at]
}
