package infer

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

const (
	// wideInference is the half-width of an inferred row's interval, as a share of the time, above which the
	// row is worth measuring. If the family's measured rows are hardly more precise, by wideNoise, the row is
	// not measured.
	wideInference  = 0.005
	wideNoise      = 1.5
	looseInference = 0.05
)

// Families are the families of one series, with the rows that they infer.
type Families struct {
	Families []*FittedFamily
	Count    Inference // of the series
	// unknown are the asked Ms without a known kernel, ascending.
	unknown []int
}

// FittedFamily is a family with its line, and how its check rows compare with that.
type FittedFamily struct {
	*Family
	Line            *Line // nil if no row was measured
	Failed          bool
	checked, inside int
	wide            float64
}

// Asking is a series that is measured only in part: the Ms asked for, and the kernels that would run them.
type Asking struct {
	Key     results.SeriesKey
	Ms      []int // ascending
	Choices results.Choices
	Check   func(m int) bool // reports whether an M is a check row
	Units   int              // tiles that the device computes at the same time, 0 unknown
}

// Ask asks for the Ms of a series; check rows are drawn by the seed.
func Ask(key results.SeriesKey, ms []int, choices results.Choices, seed uint64, units int) Asking {
	return Asking{Key: key, Ms: ms, Choices: choices, Check: DrawChecks(key, seed, len(choices) > 0), Units: units}
}

// Families sorts the Ms asked for into families, given the points measured so far. unknown are the Ms whose
// kernel is unknown, ascending.
func (a Asking) Families(points []Point) (out []*Family, unknown []int) {
	by := map[FamilyKind]*Family{}
	next := 0
	stretch := a.kinds(points)
	for _, m := range a.Ms {
		for next < len(points) && points[next].M < m {
			next++
		}
		at := -1
		if next < len(points) && points[next].M == m {
			at = next
		}
		kind, key, ok := stretch(m, at)
		if !ok {
			unknown = append(unknown, m)
			continue
		}
		if kind.Tile[0] == 0 {
			key.octave = bits.Len(uint(m))
		}
		f := by[key]
		if f == nil {
			f = &Family{Kind: key, n: a.Key.N, units: float64(a.Units)}
			by[key] = f
			out = append(out, f)
		}
		row := FamilyRow{M: m, kind: kind, Point: at, check: a.Check(m)}
		row.Other = at >= 0 && len(a.Choices) == 0 && !runs(*kind, points[at])
		f.Rows = append(f.Rows, row)
	}
	return out, unknown
}

// kinds returns a function that gives the kind at an M, called in ascending order. The kind is the reported
// choice, or without one, what ran on both sides.
func (a Asking) kinds(points []Point) func(m, at int) (*results.LaunchKind, FamilyKind, bool) {
	if len(a.Choices) == 0 {
		return a.guessed(points)
	}
	next := 0
	return func(m, at int) (*results.LaunchKind, FamilyKind, bool) {
		for next < len(a.Choices) && a.Choices[next].To < m {
			next++
		}
		if next == len(a.Choices) || a.Choices[next].From > m {
			return nil, FamilyKind{}, false
		}
		kind := &a.Choices[next].Kind
		key := familyOf(*kind)
		if at >= 0 && !runs(*kind, points[at]) {
			key.OwnM = m // another kernel ran than reported
		}
		return kind, key, true
	}
}

func runs(k results.LaunchKind, p Point) bool {
	return p.Label == "" || k.Runs(p.Label, p.Launch) || AlikeLabels(p.Label, k.Label)
}

// outside is the probability of either side of a 95 % interval.
const outside = 0.025

func (l *Line) wide(q stats.Quantiles) float64 {
	own := make([]float64, len(l.Rows))
	for i, r := range l.Rows {
		own[i] = r.se
	}
	return math.Max(wideInference, wideNoise*q.Upper(outside, l.df)*stats.Median(own))
}

func (a Asking) infer(points []Point, least int, q stats.Quantiles) *Families {
	out := &Families{}
	families, unknown := a.Families(points)
	out.unknown = unknown
	serves := func(p Point) bool { return p.Serves(least) && !p.Inferred }
	all := func(FamilyRow) bool { return false }
	usual := usualScatter
	for pass := range 2 {
		out.Families = out.Families[:0]
		sum, n := usualDF*usualScatter*usualScatter, float64(usualDF)
		for _, f := range families {
			x := &FittedFamily{Family: f, Line: fitLine(f, points, serves, all, usual)}
			out.Families = append(out.Families, x)
			if x.Line != nil && len(x.Line.Rows) > 3 {
				w := math.Min(float64(len(x.Line.Rows)), 10)
				sum, n = sum+w*x.Line.scatter*x.Line.scatter, n+w
			}
		}
		if pass == 0 {
			usual = math.Sqrt(sum / n)
		}
	}
	level := chanceLevel / float64(max(1, held(out.Families)))
	for _, f := range out.Families {
		if f.Line == nil {
			continue
		}
		f.wide = f.Line.wide(q)
		f.check(points, serves, usual, level, q)
		if len(f.Rows) > 1 {
			out.Count.Families++
		}
		out.Count.Checked += f.checked
		out.Count.Inside += f.inside
		if f.Failed {
			out.Count.Failed++
		}
	}
	if len(a.Choices) == 0 && !out.Count.Kept() {
		// Kernels were guessed in the same way everywhere, so one failure affects the whole series.
		out.Count.Failed = 0
		for _, f := range out.Families {
			f.Failed = true
			if len(f.Rows) > 1 {
				out.Count.Failed++
			}
		}
	}
	return out
}

func (i *Families) points(c *Curve, q stats.Quantiles) []Point {
	unmeasured := 0
	for _, f := range i.Families {
		unmeasured += len(f.Rows) - f.measured()
	}
	out := make([]Point, 0, unmeasured)
	for _, f := range i.Families {
		if f.Line == nil || f.Failed {
			continue
		}
		caster := f.Line.forecaster()
		for _, r := range f.Rows {
			if r.Point >= 0 {
				continue
			}
			p := caster.predict(r)
			if len(p.from) == 0 || q.Upper(outside, p.DF)*p.SE > looseInference {
				continue
			}
			out = append(out, f.Line.point(c, r, p))
		}
	}
	slices.SortFunc(out, func(a, b Point) int { return cmp.Compare(a.M, b.M) })
	return out
}

// point is an inferred row. It takes its elasticity and its folds from the nearest row that it rests on.
func (l *Line) point(c *Curve, r FamilyRow, p prediction) Point {
	out := Point{Row: -1, M: r.M, Inferred: true, Label: r.kind.Label, Flops: math.Log(c.Series.Key.FLOPs(r.M)), US: p.Estimate,
		Seen: p.Estimate, Folded: true}
	out.Launch = results.Launch{Tile: r.kind.Tile, Waves: r.kind.Waves(r.M, l.Family.n), Split: r.kind.Split,
		Orientation: r.kind.Orientation}
	nearest := p.from[0]
	for k := range stats.Folds {
		out.Without[k], out.Of[k] = p.Y, p.Y
	}
	for i, at := range p.from {
		row := l.Rows[at]
		if math.Abs(row.logM-math.Log(float64(r.M))) < math.Abs(l.Rows[nearest].logM-math.Log(float64(r.M))) {
			nearest = at
		}
		if from := &c.Points[row.point]; from.Folded {
			for k := range stats.Folds {
				out.Without[k] += p.weight[i] * (from.Without[k] - from.US.Y)
				out.Of[k] += p.weight[i] * (from.Of[k] - from.US.Y)
			}
		}
	}
	near := &c.Points[l.Rows[nearest].point]
	out.Elastic, out.Clock = near.Elastic, near.Clock
	out.Seen.Y += near.Seen.Y - near.US.Y
	return out
}

func (p *Estimates) inferRows(data Data, cfg Basis) {
	if len(data.Asked) == 0 {
		return
	}
	stats.Each(len(p.Curves), func(k int) {
		c := p.Curves[k]
		ms := data.Asked[c.Series.Key]
		if len(ms) == 0 {
			return
		}
		a := Ask(c.Series.Key, ms, data.Choices[c.Series.Key], data.Meta.Seed, Units(c.Spec))
		q := stats.Quantiles{}
		c.Families = a.infer(c.Points, cfg.MinSamples, q)
		c.takeIn(c.Families.points(c, q), len(ms))
	})
}

func (c *Curve) takeIn(inferred []Point, asked int) {
	count := &c.Families.Count
	count.Asked, count.Inferred, count.Measured = asked, len(inferred), len(c.Points)
	count.Open = max(0, asked-count.Inferred-count.Measured)
	if len(inferred) == 0 {
		return
	}
	points := make([]Point, 0, len(c.Points)+len(inferred))
	next := 0
	for _, p := range c.Points {
		for next < len(inferred) && inferred[next].M < p.M {
			points, next = append(points, inferred[next]), next+1
		}
		points = append(points, p)
	}
	points = append(points, inferred[next:]...)
	// Lines index rows among the measured points, so the indexes are translated.
	place := make([]int, 0, len(c.Points))
	for i := range points {
		if !points[i].Inferred {
			place = append(place, i)
		}
	}
	for _, f := range c.Families.Families {
		for i := range f.Rows {
			if at := f.Rows[i].Point; at >= 0 {
				f.Rows[i].Point = place[at]
			}
		}
		if f.Line != nil {
			for i := range f.Line.Rows {
				f.Line.Rows[i].point = place[f.Line.Rows[i].point]
			}
			for i := range f.Line.wild {
				f.Line.wild[i].point = place[f.Line.wild[i].point]
			}
		}
	}
	c.Points = points
}

// CaseOf is the case of a point. The curve keeps the case made for an inferred row.
func (c *Curve) CaseOf(i int) *results.Case {
	p := &c.Points[i]
	if p.Row >= 0 {
		return &c.Series.Rows[p.Row].Case
	}
	if made := c.Made[i]; made != nil {
		return made
	}
	if c.Made == nil {
		c.Made = map[int]*results.Case{}
	}
	made := c.CaseCopy(i)
	c.Made[i] = &made
	return &made
}

// CaseCopy is a copy of a point's case.
func (c *Curve) CaseCopy(i int) results.Case {
	p := &c.Points[i]
	if p.Row >= 0 {
		return c.Series.Rows[p.Row].Case
	}
	return results.Case{SeriesKey: c.Series.Key, M: p.M, Label: p.Label, Launch: p.Launch}
}
