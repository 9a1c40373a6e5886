package rules

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"math/bits"
	"slices"

	"gonum.org/v1/gonum/mathext"

	"github.com/gemmaudit/gemmaudit/results"
)

const (
	// wideInference is the half-width of the interval around the time of an inferred row, as a
	// share, above which measuring the row is worth its time. Where the family's measured
	// rows are known hardly better, by wideNoise, that is enough.
	wideInference = 0.005
	wideNoise     = 1.5
	// looseInference is the half-width above which nothing is said of a row.
	looseInference = 0.05
	// controlInference is the share of the rows of families that are measured to hold what is
	// inferred against them, controlGuessed that where nothing tells what would run.
	controlInference = 0.02
	controlGuessed   = 0.06
	// controlInside is the share of them that has to lie inside its interval.
	controlInside = 0.95
	// controlLevel is how unlikely the control rows of a family may be by its line.
	controlLevel = 0.02
	// surelyOutside is the probability of a single control row that breaks a family's line, and
	// farOutside how far off it has to lie, in half-widths of wideInference.
	surelyOutside = 0.001
	farOutside    = 2
)

// Inference is what is known of the rows of series of which not every one was measured.
type Inference struct {
	// Asked rows are those of the plan: Measured, Inferred, and Open, of which nothing is known.
	Asked    int `json:"asked"`
	Measured int `json:"measured"`
	Inferred int `json:"inferred"`
	Open     int `json:"open"`
	// Families are the kernels that rows were inferred by; Failed are those whose control rows lie
	// too far from their line, of which no row is inferred.
	Families int `json:"families"`
	Failed   int `json:"families_failed"`
	// Control are the rows that were measured to be held against what would have been inferred
	// of them, Inside those in their 95 % interval.
	Control int `json:"control"`
	Inside  int `json:"control_inside"`
}

// Share is the share of the control rows that lie inside their interval; 1 of none.
func (i Inference) Share() float64 {
	if i.Control == 0 {
		return 1
	}
	return float64(i.Inside) / float64(i.Control)
}

// Kept says whether the control rows are consistent with the share that has to lie inside: at
// least that share does, or so few lie outside that chance would bring as many.
func (i Inference) Kept() bool {
	return i.Share() >= controlInside || atLeast(i.Control-i.Inside, i.Control, 1-controlInside) > controlLevel
}

func (i *Inference) add(o Inference) {
	i.Asked += o.Asked
	i.Measured += o.Measured
	i.Inferred += o.Inferred
	i.Open += o.Open
	i.Families += o.Families
	i.Failed += o.Failed
	i.Control += o.Control
	i.Inside += o.Inside
}

// atLeast is the probability of hits and more of n, each of probability p.
func atLeast(hits, n int, p float64) float64 {
	if hits <= 0 {
		return 1
	}
	return mathext.RegIncBeta(float64(hits), float64(n-hits+1), p)
}

// inference is how the rows of a curve are inferred.
type inference struct {
	families []*fitted
	count    Inference
	// unknown are the asked Ms of no known kernel, ascending.
	unknown []int
}

// fitted is a family with its line.
type fitted struct {
	*family
	line   *line // nil where nothing was measured
	failed bool
	// control and inside count its control rows.
	control, inside int
	// wide is the half-width above which its rows want to be measured.
	wide float64
}

// drawControl draws the control rows of a series by the seed: a sweep and its audits agree on them
// without a word.
func drawControl(key results.SeriesKey, seed uint64, told bool) func(m int) bool {
	share := controlGuessed
	if told {
		share = controlInference
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "inferred %+v %d", key, seed)
	base := h.Sum64()
	return func(m int) bool { return uniform(base, m) < share }
}

// uniform is a number from 0 to 1 that is drawn for an M: the finaliser of SplitMix64 spreads
// neighbours evenly.
func uniform(seed uint64, m int) float64 {
	x := seed + uint64(m)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return float64(x>>11) / (1 << 53)
}

// asking is a series of which not every row has to be measured.
type asking struct {
	key     results.SeriesKey
	ms      []int // ascending
	choices results.Choices
	control func(m int) bool
	units   int // tiles that the device computes at the same time, 0 unknown
}

// families sorts the asked rows by the kernels that run them. measured tells the point of an M,
// what its label and launch are; unknown are the Ms of which no kernel is known.
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
		row := familyRow{m: m, kind: kind, point: at, control: a.control(m)}
		row.other = at >= 0 && len(a.choices) == 0 && !runs(kind, points[at])
		f.rows = append(f.rows, row)
	}
	return out, unknown
}

// kinds returns a function that says what runs at an M, asked in ascending order: what was told
// beforehand, or, where nothing was, what ran on both sides.
func (a asking) kinds(points []point) func(m, at int) (results.LaunchKind, familyKind, bool) {
	if len(a.choices) == 0 {
		return a.guessed(points)
	}
	next := 0
	return func(m, at int) (results.LaunchKind, familyKind, bool) {
		for next < len(a.choices) && a.choices[next].To < m {
			next++
		}
		if next == len(a.choices) || a.choices[next].From > m {
			return results.LaunchKind{}, familyKind{}, false
		}
		kind := a.choices[next].Kind
		key := familyOf(kind)
		if at >= 0 && !runs(kind, points[at]) {
			key.alone = m // another kernel ran than was told
		}
		return kind, key, true
	}
}

// runs says whether a measured row ran what was told.
func runs(k results.LaunchKind, p point) bool {
	return p.label == "" || k.Runs(p.label, p.launch) || tailSplit.ReplaceAllString(p.label, "") == tailSplit.ReplaceAllString(k.Label, "")
}

// measureControl holds the control rows of a family against the line of the others.
func (f *fitted) measureControl(points []point, serves func(point) bool, usual float64, q quantiles) {
	without := fitLine(f.family, points, serves, func(r familyRow) bool { return r.control }, usual)
	if without == nil || len(without.rows) < 2 {
		return
	}
	caster := without.forecaster()
	wide := without.wide(q)
	least := 1.0
	for _, r := range f.rows {
		if !r.control || r.point < 0 || !serves(points[r.point]) {
			continue
		}
		p := caster.predict(r)
		if q.upper(outside, p.df)*p.se > wide {
			continue // it would have been measured, control or not
		}
		us := points[r.point].us
		z := math.Abs(us.y-p.y) / math.Hypot(p.se, us.se)
		f.control++
		if z <= q.upper(outside, p.df) {
			f.inside++
		}
		if math.Abs(us.y-p.y) > farOutside*wideInference {
			least = math.Min(least, 2*upperP(z, p.df))
		}
	}
	out := f.control - f.inside
	f.failed = least*float64(max(f.control, 1)) < surelyOutside || out > 1 && atLeast(out, f.control, 1-controlInside) < controlLevel
}

// outside is the probability of either side of a 95 % interval.
const outside = 0.025

// wide is the half-width above which a row of the family wants to be measured.
func (l *line) wide(q quantiles) float64 {
	own := make([]float64, len(l.rows))
	for i, r := range l.rows {
		own[i] = r.se
	}
	return math.Max(wideInference, wideNoise*q.upper(outside, l.df)*median(own))
}

// infer fits the families of a series to its points. Rows that were measured alone stay as
// they are.
func (a asking) infer(points []point, least int, q quantiles) *inference {
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
	for _, f := range out.families {
		if f.line == nil {
			if f.measured() > 0 {
				f.failed = true // whatever runs there, it is not what was guessed
			}
			continue
		}
		f.wide = f.line.wide(q)
		f.measureControl(points, serves, usual, q)
		if len(f.rows) > 1 {
			out.count.Families++
		}
		out.count.Control += f.control
		out.count.Inside += f.inside
		if f.failed {
			out.count.Failed++
		}
	}
	if len(a.choices) == 0 && !out.count.Kept() {
		// What runs was guessed alike everywhere.
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

// points makes points of the rows that were not measured, ascending in M.
func (i *inference) points(c *curve, q quantiles) []point {
	var out []point
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
			if len(p.from) == 0 || q.upper(outside, p.df)*p.se > looseInference {
				continue
			}
			out = append(out, f.line.point(c, r, p))
		}
	}
	slices.SortFunc(out, func(a, b point) int { return cmp.Compare(a.m, b.m) })
	return out
}

// point is an inferred row as the rules see it: it follows the clock as the nearest row that it
// rests on does, and is known by folds as they are.
func (l *line) point(c *curve, r familyRow, p prediction) point {
	out := point{row: -1, m: r.m, inferred: true, label: r.kind.Label, flops: math.Log(c.series.Key.FLOPs(r.m)), us: p.estimate, seen: p.estimate, folded: true}
	out.launch = results.Launch{Tile: r.kind.Tile, Waves: r.kind.Waves(r.m, l.family.n), Split: r.kind.Split, Orientation: r.kind.Orientation}
	nearest := p.from[0]
	for k := range folds {
		out.without[k], out.of[k] = p.y, p.y
	}
	for i, at := range p.from {
		row := l.rows[at]
		if math.Abs(row.logM-math.Log(float64(r.m))) < math.Abs(l.rows[nearest].logM-math.Log(float64(r.m))) {
			nearest = at
		}
		if from := &c.points[row.point]; from.folded {
			for k := range folds {
				out.without[k] += p.weight[i] * (from.without[k] - from.us.y)
				out.of[k] += p.weight[i] * (from.of[k] - from.us.y)
			}
		}
	}
	near := &c.points[l.rows[nearest].point]
	out.elastic, out.clock = near.elastic, near.clock
	out.seen.y += near.seen.y - near.us.y
	return out
}

// inferRows adds to the curves of a run the rows that were asked for and not measured.
func (p *prepared) inferRows(data Data, cfg Config) {
	if len(data.Asked) == 0 {
		return
	}
	each(len(p.curves), func(k int) {
		c := p.curves[k]
		ms := data.Asked[c.series.Key]
		if len(ms) == 0 {
			return
		}
		a := asking{key: c.series.Key, ms: ms, choices: data.Choices[c.series.Key], control: drawControl(c.series.Key, data.Meta.Seed, len(data.Choices[c.series.Key]) > 0), units: unitsOf(c.spec)}
		q := quantiles{}
		c.inference = a.infer(c.points, cfg.MinSamples, q)
		c.takeIn(c.inference.points(c, q), len(ms))
	})
}

// takeIn puts inferred points among the measured ones, and counts.
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
	// Lines name their rows by the places that these had among the measured points.
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

// caseOf is the case of a point; of one that was not measured it is made up from its family.
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
	made := &results.Case{SeriesKey: c.series.Key, M: p.m, Label: p.label, Launch: p.launch}
	c.made[i] = made
	return made
}

// countInferred adds what was inferred of a curve to the audit.
func (a *Audit) countInferred(c *curve) {
	if c.inference == nil {
		return
	}
	if a.Inference == nil {
		a.Inference = &Inference{}
	}
	count := c.inference.count
	a.Inference.add(count)
	a.Cases += count.Asked - len(c.series.Rows)
	subject := c.series.Key.String()
	if !count.Kept() {
		a.warn(subject, "%d of %d control rows lie inside what would have been inferred of them, fewer than %.0f %%: inferred rows are not to be relied on", count.Inside, count.Control, 100*controlInside)
	}
	if count.Failed > 0 {
		a.warn(subject, "of %s no row is inferred: their control rows lie off their lines", plural(count.Failed, "kernel"))
	}
	if count.Open > 0 {
		a.warn(subject, "%s neither measured nor inferred", plural(count.Open, "row"))
	}
}
