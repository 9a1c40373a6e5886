package rules

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

type inference struct {
	families []*fitted
	count    Inference
	// unknown are the asked Ms without a known kernel, ascending.
	unknown []int
}

type fitted struct {
	*family
	line            *line // nil if no row was measured
	failed          bool
	checked, inside int
	wide            float64
}

type asking struct {
	key     results.SeriesKey
	ms      []int // ascending
	choices results.Choices
	check   func(m int) bool
	units   int // tiles that the device computes at the same time, 0 unknown
}

func (a asking) families(points []point) (out []*family, unknown []int) {
	by := map[familyKind]*family{}
	next := 0
	stretch := a.kinds(points)
	for _, m := range a.ms {
		for next < len(points) && points[next].m < m {
			next++
		}
		at := -1
		if next < len(points) && points[next].m == m {
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
			f = &family{kind: key, n: a.key.N, units: float64(a.units)}
			by[key] = f
			out = append(out, f)
		}
		row := familyRow{m: m, kind: kind, point: at, check: a.check(m)}
		row.other = at >= 0 && len(a.choices) == 0 && !runs(*kind, points[at])
		f.rows = append(f.rows, row)
	}
	return out, unknown
}

// kinds returns a function that gives the kind at an M, called in ascending order. The kind is the reported
// choice, or without one, what ran on both sides.
func (a asking) kinds(points []point) func(m, at int) (*results.LaunchKind, familyKind, bool) {
	if len(a.choices) == 0 {
		return a.guessed(points)
	}
	next := 0
	return func(m, at int) (*results.LaunchKind, familyKind, bool) {
		for next < len(a.choices) && a.choices[next].To < m {
			next++
		}
		if next == len(a.choices) || a.choices[next].From > m {
			return nil, familyKind{}, false
		}
		kind := &a.choices[next].Kind
		key := familyOf(*kind)
		if at >= 0 && !runs(*kind, points[at]) {
			key.ownM = m // another kernel ran than reported
		}
		return kind, key, true
	}
}

func runs(k results.LaunchKind, p point) bool {
	return p.label == "" || k.Runs(p.label, p.launch) || alikeLabels(p.label, k.Label)
}

// outside is the probability of either side of a 95 % interval.
const outside = 0.025

func (l *line) wide(q stats.Quantiles) float64 {
	own := make([]float64, len(l.rows))
	for i, r := range l.rows {
		own[i] = r.se
	}
	return math.Max(wideInference, wideNoise*q.Upper(outside, l.df)*stats.Median(own))
}

func (a asking) infer(points []point, least int, q stats.Quantiles) *inference {
	out := &inference{}
	families, unknown := a.families(points)
	out.unknown = unknown
	serves := func(p point) bool { return p.serves(least) && !p.inferred }
	all := func(familyRow) bool { return false }
	usual := usualScatter
	for pass := range 2 {
		out.families = out.families[:0]
		sum, n := usualDF*usualScatter*usualScatter, float64(usualDF)
		for _, f := range families {
			x := &fitted{family: f, line: fitLine(f, points, serves, all, usual)}
			out.families = append(out.families, x)
			if x.line != nil && len(x.line.rows) > 3 {
				w := math.Min(float64(len(x.line.rows)), 10)
				sum, n = sum+w*x.line.scatter*x.line.scatter, n+w
			}
		}
		if pass == 0 {
			usual = math.Sqrt(sum / n)
		}
	}
	level := chanceLevel / float64(max(1, held(out.families)))
	for _, f := range out.families {
		if f.line == nil {
			continue
		}
		f.wide = f.line.wide(q)
		f.check(points, serves, usual, level, q)
		if len(f.rows) > 1 {
			out.count.Families++
		}
		out.count.Checked += f.checked
		out.count.Inside += f.inside
		if f.failed {
			out.count.Failed++
		}
	}
	if len(a.choices) == 0 && !out.count.Kept() {
		// Kernels were guessed in the same way everywhere, so one failure affects the whole series.
		out.count.Failed = 0
		for _, f := range out.families {
			f.failed = true
			if len(f.rows) > 1 {
				out.count.Failed++
			}
		}
	}
	return out
}

func (i *inference) points(c *curve, q stats.Quantiles) []point {
	unmeasured := 0
	for _, f := range i.families {
		unmeasured += len(f.rows) - f.measured()
	}
	out := make([]point, 0, unmeasured)
	for _, f := range i.families {
		if f.line == nil || f.failed {
			continue
		}
		caster := f.line.forecaster()
		for _, r := range f.rows {
			if r.point >= 0 {
				continue
			}
			p := caster.predict(r)
			if len(p.from) == 0 || q.Upper(outside, p.DF)*p.SE > looseInference {
				continue
			}
			out = append(out, f.line.point(c, r, p))
		}
	}
	slices.SortFunc(out, func(a, b point) int { return cmp.Compare(a.m, b.m) })
	return out
}

// point is an inferred row. It takes its elasticity and its folds from the nearest row that it rests on.
func (l *line) point(c *curve, r familyRow, p prediction) point {
	out := point{row: -1, m: r.m, inferred: true, label: r.kind.Label, flops: math.Log(c.series.Key.FLOPs(r.m)), us: p.Estimate,
		seen: p.Estimate, folded: true}
	out.launch = results.Launch{Tile: r.kind.Tile, Waves: r.kind.Waves(r.m, l.family.n), Split: r.kind.Split,
		Orientation: r.kind.Orientation}
	nearest := p.from[0]
	for k := range stats.Folds {
		out.without[k], out.of[k] = p.Y, p.Y
	}
	for i, at := range p.from {
		row := l.rows[at]
		if math.Abs(row.logM-math.Log(float64(r.m))) < math.Abs(l.rows[nearest].logM-math.Log(float64(r.m))) {
			nearest = at
		}
		if from := &c.points[row.point]; from.folded {
			for k := range stats.Folds {
				out.without[k] += p.weight[i] * (from.without[k] - from.us.Y)
				out.of[k] += p.weight[i] * (from.of[k] - from.us.Y)
			}
		}
	}
	near := &c.points[l.rows[nearest].point]
	out.elastic, out.clock = near.elastic, near.clock
	out.seen.Y += near.seen.Y - near.us.Y
	return out
}

func (p *prepared) inferRows(data Data, cfg Basis) {
	if len(data.Asked) == 0 {
		return
	}
	each(len(p.curves), func(k int) {
		c := p.curves[k]
		ms := data.Asked[c.series.Key]
		if len(ms) == 0 {
			return
		}
		a := asking{key: c.series.Key, ms: ms, choices: data.Choices[c.series.Key],
			check: drawChecks(c.series.Key, data.Meta.Seed, len(data.Choices[c.series.Key]) > 0), units: unitsOf(c.spec)}
		q := stats.Quantiles{}
		c.inference = a.infer(c.points, cfg.MinSamples, q)
		c.takeIn(c.inference.points(c, q), len(ms))
	})
}

func (c *curve) takeIn(inferred []point, asked int) {
	count := &c.inference.count
	count.Asked, count.Inferred, count.Measured = asked, len(inferred), len(c.points)
	count.Open = max(0, asked-count.Inferred-count.Measured)
	if len(inferred) == 0 {
		return
	}
	points := make([]point, 0, len(c.points)+len(inferred))
	next := 0
	for _, p := range c.points {
		for next < len(inferred) && inferred[next].m < p.m {
			points, next = append(points, inferred[next]), next+1
		}
		points = append(points, p)
	}
	points = append(points, inferred[next:]...)
	// Lines index rows among the measured points, so the indexes are translated.
	place := make([]int, 0, len(c.points))
	for i := range points {
		if !points[i].inferred {
			place = append(place, i)
		}
	}
	for _, f := range c.inference.families {
		for i := range f.rows {
			if at := f.rows[i].point; at >= 0 {
				f.rows[i].point = place[at]
			}
		}
		if f.line != nil {
			for i := range f.line.rows {
				f.line.rows[i].point = place[f.line.rows[i].point]
			}
			for i := range f.line.wild {
				f.line.wild[i].point = place[f.line.wild[i].point]
			}
		}
	}
	c.points = points
}

func (c *curve) caseOf(i int) *results.Case {
	p := &c.points[i]
	if p.row >= 0 {
		return &c.series.Rows[p.row].Case
	}
	if made := c.made[i]; made != nil {
		return made
	}
	if c.made == nil {
		c.made = map[int]*results.Case{}
	}
	made := c.copyOf(i)
	c.made[i] = &made
	return &made
}

func (c *curve) copyOf(i int) results.Case {
	p := &c.points[i]
	if p.row >= 0 {
		return c.series.Rows[p.row].Case
	}
	return results.Case{SeriesKey: c.series.Key, M: p.m, Label: p.label, Launch: p.launch}
}

// against is the reference case at a point of the curve. For a row that keeps the rule no case is made.
func (c *curve) against(i int, kept bool) *results.Case {
	if kept && c.points[i].row < 0 {
		return nothing
	}
	return c.caseOf(i)
}
