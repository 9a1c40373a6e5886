package rules

import (
	"fmt"
	"math"
	"slices"
)

const (
	// lineRows is the least number of other rows that a family's line has to rest on for a cause.
	lineRows = 5
	// lineWidth is the largest half-width, as a share of the time, of a time that a cause rests on.
	lineWidth = 0.02
)

// lines are the families of the rows of the curve that were measured, by the kernels that ran
// them.
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
				l := fitLine(f, c.points, func(p point) bool { return p.n > 0 && p.serves(0) }, func(familyRow) bool { return false }, usualScatter)
				c.fitted = append(c.fitted, &fitted{family: f, line: l})
			}
		}
	}
	return c.fitted
}

// span says of how many rows a line knows, and from which to which.
func (l *line) span() string {
	return fmt.Sprintf("the line of %s from m%d to m%d", plural(len(l.rows), "row"), l.rows[0].m, l.rows[len(l.rows)-1].m)
}

// offLine: the row is slow for the very kernel that ran it, by the line of the other rows that this
// kernel runs.
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
			return "", fmt.Sprintf("%s runs too few other rows to tell what it takes", short(w.row.label))
		}
		p := f.line.leaving(row)
		off := w.row.us.y - p.y
		if off > clearly*math.Hypot(p.se, w.row.us.se) && w.explains(lost(-off)) {
			return Implementation, fmt.Sprintf("%s takes %s us here, and by %s it would take %s us: the kernel itself is slow at this M",
				short(w.row.label), figure(math.Exp(w.row.us.y)), f.line.span(), figure(math.Exp(p.y)))
		}
		return "", fmt.Sprintf("%s takes what it does at other Ms: %s us by %s", short(w.row.label), figure(math.Exp(p.y)), f.line.span())
	}
	return "", ""
}

// otherLine: another kernel of the same library would have been faster, by the line of the rows
// that this other kernel runs, where that line holds.
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
			// What the family runs at this M has the waves of its nearest row's launch.
			near := f.nearest(w.row.m)
			near.m, near.point = w.row.m, -1
			p := l.foretellAt(near)
			if half := clearly * p.se; half <= lineWidth && p.y+half < least {
				best, least = l, p.y+half
			}
		}
	}
	switch {
	case best == nil:
		return "", "no other kernel of the library has a line that holds here"
	case least > w.within():
		return "", fmt.Sprintf("the library's other kernels take %s us and more at m%d, by their lines", figure(math.Exp(least)), w.row.m)
	}
	return HeuristicChoice, fmt.Sprintf("the library's own %s would take no more than %s us at m%d, by %s, where the row runs %s",
		short(best.family.kind.label), figure(math.Exp(least)), w.row.m, best.span(), short(w.row.label))
}

// at is where the family has a row, or would have it.
func (f *family) at(m int) (int, bool) {
	return slices.BinarySearchFunc(f.rows, m, func(r familyRow, m int) int { return r.m - m })
}

// nearest is the row of the family nearest to m.
func (f *family) nearest(m int) familyRow {
	at, _ := f.at(m)
	if at == len(f.rows) || at > 0 && m-f.rows[at-1].m <= f.rows[at].m-m {
		at--
	}
	return f.rows[at]
}
