package rules

import (
	"math"
	"slices"
	"sort"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

const (
	// nearRows is how many measured rows on either side, in addition to the line, a prediction uses.
	nearRows = 8
	// nearReach is the correlation length of the residuals in log M, and wavesReach the same in waves, as a
	// share of them.
	nearReach  = 0.15
	wavesReach = 1.4
	// ownShare is the share of the variance around the line that is independent between rows.
	ownShare = 0.06
	// beyondReach is how far in log M outside a family's measured rows a row can be predicted. leastRows is
	// how many rows that takes in a family of more than fewRows. unforetold is the standard deviation of the
	// log time of a row without a prediction. Such rows only occur if a sweep was stopped before it measured
	// a family's ends.
	beyondReach, leastRows, unforetold = 0.05, 3, 0.5
	// termDoubt is the prior standard deviation of each term's contribution, as a share of the time.
	termDoubt = 0.02
	// usualScatter is the prior standard deviation around the line of a family, and usualDF its degrees of
	// freedom. On two cards and 350 families of cuBLAS and our kernels it was 0.1 to 0.5 %.
	usualScatter = 0.0035
	usualDF      = 4
	// scatterMargin is the factor on the estimated scatter: rows chosen by design are farther apart than the
	// rows between them. Of 8192 rows on an H200, 95.1 % of the inferred times lay inside their interval
	// without it, 97.5 % with it.
	scatterMargin = 1.08
	leastScatter  = 0.0004
	scatterRows   = 64
	// wildZ and wildStep define an outlier: by how many standard deviations, and by what share of its time, a
	// row differs from its prediction by the others.
	wildZ, wildStep = 4, 0.01
	// wildShare is the largest share of a family's rows that are excluded as outliers.
	wildShare = 0.2
	// wildPasses is the number of passes that search for outliers.
	wildPasses = 6
)

type told struct {
	m     int
	logM  float64
	x     [terms]float64
	h     [terms]float64 // derivative of the row's log time by the uncertainty of each term
	y, se float64
	line  float64 // log time by the line alone
	point int
}

type line struct {
	family *family
	layout layout
	factor [terms]float64 // microseconds each
	top    [terms]float64 // the largest share of each term over the measured rows
	rows   []told         // ascending in M
	wild   []told         // ascending in M
	// scatter is the standard deviation around the line in log time, df its degrees of freedom.
	scatter, df float64
	// score is minus twice the log likelihood of the measured rows, each predicted by the others.
	score float64
}

// prediction is the log time of a row that was not measured.
type prediction struct {
	stats.Estimate
	// from are the positions in line.rows that it rests on, with their weights.
	from   []int
	weight []float64
}

// fitLine fits the line of a family to the measured rows that serve accepts and skip does not exclude. usual
// is the expected scatter. nil if no row was measured.
func fitLine(f *family, points []point, serves func(point) bool, skip func(familyRow) bool, usual float64) *line {
	var best *line
	for _, l := range f.layouts() {
		fit := &line{family: f, layout: l}
		for _, r := range f.rows {
			if r.point < 0 || r.other || skip(r) || !serves(points[r.point]) {
				continue
			}
			p := points[r.point]
			fit.rows = append(fit.rows, told{m: r.m, logM: math.Log(float64(r.m)), x: f.terms(r, l), y: p.us.Y,
				se: math.Max(p.us.SE, scaleFloor/8), point: r.point})
		}
		if len(fit.rows) == 0 {
			return nil
		}
		fit.settle(usual)
		if best == nil || fit.score < best.score-layoutGain {
			best = fit
		}
	}
	return best
}

// layoutGain is by how much the likelihood must favor a less usual layout.
const layoutGain = 2

func (l *line) settle(usual float64) {
	most := int(wildShare * float64(len(l.rows)))
	for range wildPasses {
		l.draw()
		l.measureScatter(usual)
		wild := l.findWild()
		if len(wild) == 0 || len(l.rows) < 4 || len(l.wild)+len(wild) > most {
			break
		}
		rows := l.rows[:0:0]
		for i, r := range l.rows {
			if slices.Contains(wild, i) {
				place := sort.Search(len(l.wild), func(i int) bool { return l.wild[i].m > r.m })
				l.wild = slices.Insert(l.wild, place, r)
			} else {
				rows = append(rows, r)
			}
		}
		l.rows = rows
	}
}

// findWild lists the outliers. Among neighbors it takes only the largest, because an outlier distorts the
// others' predictions.
func (l *line) findWild() (wild []int) {
	z := make([]float64, len(l.rows))
	for i, r := range l.rows {
		if l.alongside(i) {
			continue
		}
		p := l.without(i)
		if off := math.Abs(r.y - p.Y); off > wildStep {
			z[i] = off / math.Hypot(p.SE, r.se)
		}
	}
	for i, v := range z {
		if v > wildZ && (i == 0 || v >= z[i-1]) && (i+1 == len(z) || v > z[i+1]) {
			wild = append(wild, i)
		}
	}
	return wild
}

func (l *line) alongside(i int) bool {
	off := func(k int) float64 { return l.rows[k].y - l.rows[k].line }
	below, above := max(i-1, 0), min(i+1, len(l.rows)-1)
	return math.Abs(off(i)-off(below)) < wildStep/2 && math.Abs(off(i)-off(above)) < wildStep/2
}

func (l *line) draw() {
	x := make([][terms]float64, len(l.rows))
	weight := make([]float64, len(l.rows))
	for i, r := range l.rows {
		t := math.Exp(r.y)
		for j := range terms {
			x[i][j] = r.x[j] / t
		}
		weight[i] = 1
	}
	off := make([]float64, len(l.rows))
	for range 4 {
		l.factor = combine(x, weight)
		for i := range x {
			sum := -1.0
			for j := range terms {
				sum += l.factor[j] * x[i][j]
			}
			off[i] = math.Abs(sum)
		}
		bound := 2 * math.Max(stats.MADFactor*stats.Median(off), leastScatter)
		for i := range weight {
			weight[i] = math.Min(1, bound/math.Max(off[i], 1e-12))
		}
	}
	l.top = [terms]float64{}
	for i := range l.rows {
		r := &l.rows[i]
		r.line = l.at(r.x)
		for j := range terms {
			l.top[j] = math.Max(l.top[j], r.x[j]/math.Exp(r.line))
		}
	}
	for i := range l.rows {
		l.rows[i].h = l.doubt(l.rows[i].x, l.rows[i].line)
	}
}

// at is the log time of terms by the line alone.
func (l *line) at(x [terms]float64) float64 {
	sum := 0.0
	for j := range terms {
		sum += l.factor[j] * x[j]
	}
	return math.Log(math.Max(sum, 1e-9))
}

func (l *line) doubt(x [terms]float64, y float64) (h [terms]float64) {
	t := math.Exp(y)
	for j := range terms {
		if l.top[j] > 0 {
			h[j] = termDoubt * x[j] / t / l.top[j]
		}
	}
	return h
}

// alike is the covariance of two rows' log times, without noise.
func (l *line) alike(a, b *told) float64 {
	apart := math.Abs(a.logM-b.logM) / nearReach
	if p, q := a.x[termWaves], b.x[termWaves]; p != q {
		apart += math.Abs(p-q) / (wavesReach * math.Max(p, q))
	}
	near := l.scatter * l.scatter * math.Exp(-apart)
	if a.m != b.m {
		near *= 1 - ownShare
	}
	for j := range terms {
		near += a.h[j] * b.h[j]
	}
	return near
}

type system struct {
	from   []int
	factor matrix
	ok     bool
}

func (l *line) system(from []int) *system {
	s := &system{from: from}
	for i, p := range from {
		for j, q := range from[:i+1] {
			s.factor[i][j] = l.alike(&l.rows[p], &l.rows[q])
		}
		s.factor[i][i] += l.rows[p].se * l.rows[p].se
	}
	s.ok = s.factor.factor(len(from))
	return s
}

func (l *line) foretell(s *system, r *told) prediction {
	p := prediction{Estimate: stats.Estimate{Y: r.line, SE: math.Sqrt(l.alike(r, r)), DF: l.df}}
	if !s.ok || len(s.from) == 0 {
		return p
	}
	var k, weight [mostSystem]float64
	n := len(s.from)
	for i, at := range s.from {
		k[i] = l.alike(r, &l.rows[at])
		weight[i] = k[i]
	}
	s.factor.solve(weight[:n])
	variance := p.SE * p.SE
	for i, at := range s.from {
		p.Y += weight[i] * (l.rows[at].y - l.rows[at].line)
		variance -= weight[i] * k[i]
	}
	p.SE = math.Sqrt(math.Max(variance, 1e-10))
	p.from, p.weight = s.from, slices.Clone(weight[:n])
	return p
}

func (l *line) without(i int) prediction {
	var from []int
	for k := max(0, i-nearRows); k < min(len(l.rows), i+nearRows+1); k++ {
		if k != i {
			from = append(from, k)
		}
	}
	return l.foretell(l.system(from), &l.rows[i])
}

func (l *line) leaving(r familyRow) prediction {
	if i := slices.IndexFunc(l.rows, func(t told) bool { return t.m == r.m }); i >= 0 {
		return l.without(i)
	}
	return l.foretellAt(r)
}

func (l *line) foretellAt(r familyRow) prediction {
	t := l.row(r)
	at := sort.Search(len(l.rows), func(i int) bool { return l.rows[i].m >= r.m })
	return l.foretell(l.system(l.around(at)), &t)
}

func (l *line) around(at int) (from []int) {
	for k := max(0, at-nearRows); k < min(len(l.rows), at+nearRows); k++ {
		from = append(from, k)
	}
	return from
}

// measureScatter estimates the scatter around the line from the errors of leave-one-out predictions, shrunk
// towards the usual one.
func (l *line) measureScatter(usual float64) {
	l.scatter, l.df = usual, usualDF+float64(len(l.rows))
	if len(l.rows) < 3 {
		l.score = 0
		return
	}
	step := (len(l.rows) + scatterRows - 1) / scatterRows
	for range 3 {
		sum, n := 0.0, 0.0
		l.score = 0
		for i := 0; i < len(l.rows); i += step {
			p := l.without(i)
			variance := p.SE*p.SE + l.rows[i].se*l.rows[i].se
			off := l.rows[i].y - p.Y
			z := math.Min(off*off/variance, 9)
			sum += z
			l.score += z + math.Log(variance)
			n++
		}
		was := l.scatter * l.scatter
		l.scatter = math.Max(math.Sqrt(was*(usualDF*usual*usual/was+sum)/(usualDF+n)), leastScatter)
	}
	l.scatter *= scatterMargin
}

func (l *line) row(r familyRow) told {
	t := told{m: r.m, logM: math.Log(float64(r.m)), x: l.family.terms(r, l.layout)}
	t.line = l.at(t.x)
	t.h = l.doubt(t.x, t.line)
	return t
}

// forecaster predicts rows in ascending order of M, and caches the system around them.
type forecaster struct {
	*line
	at     int
	system *system
}

func (l *line) forecaster() *forecaster { return &forecaster{line: l, at: -1} }

// predict predicts a row that the line does not rest on. An outlier among its neighbors widens the interval.
func (f *forecaster) predict(r familyRow) prediction {
	t := f.row(r)
	at := sort.Search(len(f.rows), func(i int) bool { return f.rows[i].m >= r.m })
	if at != f.at {
		f.at, f.system = at, f.line.system(f.around(at))
	}
	p := f.foretell(f.system, &t)
	below, above := 0, math.MaxInt
	if at > 0 {
		below = f.rows[at-1].m
	}
	if at < len(f.rows) {
		above = f.rows[at].m
	}
	for _, w := range f.wild {
		if below < w.m && w.m < above {
			p.SE = math.Hypot(p.SE, (w.y-f.line.at(w.x))/2)
		}
	}
	if f.beyond(&t) {
		p.SE = math.Max(p.SE, unforetold)
	}
	return p
}

// beyond reports whether too few rows were measured on either side of a row.
func (l *line) beyond(r *told) bool {
	n := len(l.rows)
	if n == 0 || n < leastRows && len(l.family.rows) > fewRows {
		return true
	}
	return r.logM < l.rows[0].logM-beyondReach || r.logM > l.rows[n-1].logM+beyondReach
}
