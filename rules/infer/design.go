package infer

import (
	"maps"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

const (
	// seedRows is how many rows of a family are measured first; families of at most fewRows are measured
	// whole.
	seedRows, fewRows = 5, 3
	// seedWidth is the half-width, as a share of the time, that seeds are expected to leave.
	seedWidth = 0.002
	// leastAdded and growth limit the rows added to a family at one look; growth is a multiple of the rows
	// measured so far. The scatter around the family's line is unknown until some measured rows are near each
	// other.
	leastAdded, growth = 4, 2
)

const (
	// coarse is the largest step, in rows, between measured rows of a series whose kernels are unknown. It
	// doubles above coarseRows rows, and again above 16 times as many.
	coarse, coarseRows = 8, 1024
)

// Seeds are the Ms to measure first and the check rows, ascending; see [choose.Designer.Seeds].
func (a Asking) Seeds() []int {
	ms := a.Ms
	wanted := map[int]bool{}
	if len(a.Choices) == 0 {
		step := coarse
		for n := coarseRows; len(ms) > n && step < 4*coarse; n *= 16 {
			step *= 2
		}
		for i := 0; i < len(ms); i += step {
			wanted[ms[i]] = true
		}
		if len(ms) > 0 {
			wanted[ms[len(ms)-1]] = true
		}
		for _, m := range ms {
			if a.Check(m) {
				wanted[m] = true
			}
		}
		return slices.Sorted(maps.Keys(wanted))
	}
	families, unknown := a.Families(nil)
	for _, m := range unknown {
		wanted[m] = true
	}
	for _, f := range families {
		for i, r := range f.Rows {
			if r.check || len(f.Rows) <= fewRows {
				wanted[f.Rows[i].M] = true
			}
		}
		if len(f.Rows) > fewRows {
			for _, m := range f.seeds() {
				wanted[m] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(wanted))
}

// beforehand is the prior uncertainty of each term, as a share of a row's time, before a family is measured.
var beforehand = [terms]float64{0.1, 0.3, 0.3, 0.3}

// seeds chooses the first rows of a family: the ends, then always the least certain row, assuming that the
// time is a sum of the terms.
func (f *Family) seeds() []int {
	l := &Line{Family: f, layout: f.layouts()[0], scatter: usualScatter, df: usualDF}
	all := make([]told, len(f.Rows))
	var top [terms]float64
	for i, r := range f.Rows {
		all[i] = told{M: r.M, logM: math.Log(float64(r.M)), x: f.terms(r, l.layout), se: leastScatter}
		for j, v := range all[i].x {
			top[j] = math.Max(top[j], v)
		}
	}
	for i := range all {
		// Assumes that the waves take most of the time.
		share := 0.1
		for j, part := range [terms]float64{0, 0.5, 0.2, 0.2} {
			if top[j] > 0 {
				share += part * all[i].x[j] / top[j]
			}
		}
		for j := range terms {
			if top[j] > 0 {
				all[i].h[j] = beforehand[j] * all[i].x[j] / top[j] / share
			}
		}
	}
	chosen := []int{0, len(all) - 1}
	for len(chosen) < seedRows {
		slices.Sort(chosen)
		l.Rows = l.Rows[:0]
		for _, i := range chosen {
			l.Rows = append(l.Rows, all[i])
		}
		from := make([]int, len(l.Rows))
		for i := range from {
			from[i] = i
		}
		s := l.system(from)
		worst, at := seedWidth, -1
		for i := range all {
			if f.Rows[i].check || slices.Contains(chosen, i) {
				continue
			}
			if p := l.foretell(s, &all[i]); p.SE > worst {
				worst, at = p.SE, i
			}
		}
		if at < 0 {
			break
		}
		chosen = append(chosen, at)
	}
	out := make([]int, len(chosen))
	for i, at := range chosen {
		out[i] = f.Rows[at].M
	}
	return out
}

// Wanting is the set of Ms to measure next, so that each row of the curve's families is known well enough.
func (c *Curve) Wanting(q stats.Quantiles) map[int]bool {
	out := map[int]bool{}
	if c.Families == nil {
		return out
	}
	c.halve(c.Families.unknown, out)
	for _, f := range c.Families.Families {
		switch {
		case f.Line == nil, f.Failed:
			for _, r := range f.Rows {
				if r.Point < 0 {
					out[r.M] = true
				}
			}
		default:
			f.refine(q, out)
		}
	}
	return out
}

func (c *Curve) halve(unknown []int, out map[int]bool) {
	for i := 0; i < len(unknown); {
		// A measured point ends a stretch.
		end := i + 1
		at, _ := c.At(unknown[i])
		for end < len(unknown) && (at >= len(c.Points) || unknown[end] < c.Points[at].M) {
			end++
		}
		out[unknown[i+(end-i)/2]] = true
		i = end
	}
}

// refine adds the least certain row until each is known well enough. The certainty does not depend on the
// values to be measured.
func (f *FittedFamily) refine(q stats.Quantiles, out map[int]bool) {
	l := *f.Line
	l.Rows = slices.Clone(l.Rows)
	own := make([]float64, len(l.Rows))
	for i, r := range l.Rows {
		own[i] = r.se
	}
	noise := stats.Median(own)
	var open []FamilyRow
	for _, r := range f.Rows {
		if r.Point < 0 {
			open = append(open, r)
		}
	}
	// half[i] is the half-width of open row i, valid while no row is added near it.
	half := make([]float64, len(open))
	estimate := func(from, to int) {
		caster := l.forecaster()
		for i := from; i < to; i++ {
			if half[i] >= 0 {
				p := caster.predict(open[i])
				half[i] = q.Upper(outside, p.DF) * p.SE
			}
		}
	}
	estimate(0, len(open))
	for range leastAdded + growth*len(f.Line.Rows) {
		at := -1
		for i, h := range half {
			if h > f.wide && (at < 0 || h > half[at]) {
				at = i
			}
		}
		if at < 0 {
			return
		}
		half[at] = -1
		r := l.row(open[at])
		r.y, r.se = r.line, noise
		out[r.M] = true
		place, _ := slices.BinarySearchFunc(l.Rows, r.M, func(t told, m int) int { return t.M - m })
		l.Rows = slices.Insert(l.Rows, place, r)
		below, above := l.Rows[max(0, place-2)].M, l.Rows[min(len(l.Rows)-1, place+2)].M
		from, _ := slices.BinarySearchFunc(open, below, func(r FamilyRow, m int) int { return r.M - m })
		to, _ := slices.BinarySearchFunc(open, above, func(r FamilyRow, m int) int { return r.M - m })
		estimate(from, to)
	}
}
