package rules

import (
	"math"

	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// dipRows is how many rows before and after a slow row may be searched for a faster one: a machine that
// slows down for some time affects more rows.
const dipRows = 8

// inTime makes verdicts undecided that rest on rows measured at other times. If time explains rows, these are
// all verdicts. If the order is by M, they are those that the rows measured just before and just after do not
// support.
func (f *Facts) inTime(r Rule, c *infer.Curve, rows []Judgement) {
	if c.Placed == nil || r != Monotonic && r != SplitRule && r != Pad {
		return
	}
	for i := range rows {
		j := &rows[i]
		rests := c.Placed.Explains && j.Tested && j.Verdict != Undecided
		if c.Placed.ByM && j.Verdict == Anomalous {
			bound := -math.Log1p(-j.lossBound)
			rests = !f.slowerThan(c, i, -1, bound) || !f.slowerThan(c, i, 1, bound)
		}
		if rests {
			j.Verdict = Undecided
			c.Placed.Open++
		}
	}
}

// slowerThan reports whether a row is slower by more than bound, in logs, than one of the dipRows rows on one
// side, or has no judged row there.
func (f *Facts) slowerThan(c *infer.Curve, at, side int, bound float64) bool {
	alone := true
	for k := 1; k <= dipRows; k++ {
		by := at + k*side
		if by < 0 || by >= len(c.Points) {
			break
		}
		if !c.Points[by].Judged(f.Cfg.MinSamples) {
			continue
		}
		alone = false
		slow, fast := c.Points[at].US, c.Points[by].US
		slow.Y, fast.Y = -c.Points[at].Rate(), -c.Points[by].Rate()
		if d := stats.Difference(slow, fast); d.Y-f.decisive(d) > bound {
			return true
		}
	}
	return alone
}
