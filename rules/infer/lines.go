package infer

import (
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/rules/phrase"
)

// LineRows is the least number of other rows behind a line that a cause rests on.
const LineRows = 5

// Lines are the families of the curve with their lines: of a series that is inferred all, otherwise those
// with enough named rows.
func (c *Curve) Lines() []*FittedFamily {
	if c.Families != nil {
		return c.Families.Families
	}
	if c.fitted == nil {
		c.fitted = []*FittedFamily{}
		a := Asking{Key: c.Series.Key, Check: func(int) bool { return false }, Units: Units(c.Spec)}
		for _, p := range c.Points {
			if p.Label != "" {
				a.Ms = append(a.Ms, p.M)
			}
		}
		families, _ := a.Families(c.Points)
		for _, f := range families {
			if len(f.Rows) > LineRows {
				l := fitLine(f, c.Points, func(p Point) bool { return p.N > 0 && p.Serves(0) }, func(FamilyRow) bool { return false },
					usualScatter)
				c.fitted = append(c.fitted, &FittedFamily{Family: f, Line: l})
			}
		}
	}
	return c.fitted
}

// Span describes the line in a sentence: "the fit of 9 rows from m8 to m72".
func (l *Line) Span() string {
	return fmt.Sprintf("the fit of %s from m%d to m%d", phrase.Count(len(l.Rows), "row"), l.Rows[0].M, l.Rows[len(l.Rows)-1].M)
}

// At is the position of an M among the rows, and whether it is there.
func (f *Family) At(m int) (int, bool) {
	return slices.BinarySearchFunc(f.Rows, m, func(r FamilyRow, m int) int { return r.M - m })
}

// Nearest is the row nearest to an M.
func (f *Family) Nearest(m int) FamilyRow {
	at, _ := f.At(m)
	if at == len(f.Rows) || at > 0 && m-f.Rows[at-1].M <= f.Rows[at].M-m {
		at--
	}
	return f.Rows[at]
}
