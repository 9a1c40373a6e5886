package infer

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
	M     int
	logM  float64
	x     [terms]float64
	h     [terms]float64 // derivative of the row's log time by the uncertainty of each term
	y, se float64
	line  float64 // log time by the line alone
	point int
}

// Line is the fitted time of a family's rows, with the rows that it rests on.
type Line struct {
	Family *Family
	layout layout
	factor [terms]float64 // microseconds each
	top    [terms]float64 // the largest share of each term over the measured rows
	Rows   []told         // ascending in M
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
func fitLine(f *Family, points []Point, serves func(Point) bool, skip func(FamilyRow) bool, usual float64) *Line {
	var best *Line
	for _, l := range f.layouts() {
		fit := &Line{Family: f, layout: l}
		for _, r := range f.Rows {
			if r.Point < 0 || r.Other || skip(r) || !serves(points[r.Point]) {
				continue
			}
			p := points[r.Point]
			fit.Rows = append(fit.Rows, told{M: r.M, logM: math.Log(float64(r.M)), x: f.terms(r, l), y: p.US.Y,
				se: math.Max(p.US.SE, ScaleFloor/8), point: r.Point})
		}
		if len(fit.Rows) == 0 {
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

func (l *Line) settle(usual float64) {
	most := int(wildShare * float64(len(l.Rows)))
	for range wildPasses {
		l.draw()
		l.measureScatter(usual)
		wild := l.findWild()
		if len(wild) == 0 || len(l.Rows) < 4 || len(l.wild)+len(wild) > most {
			break
		}
		rows := l.Rows[:0:0]
		for i, r := range l.Rows {
			if slices.Contains(wild, i) {
				place := sort.Search(len(l.wild), func(i int) bool { return l.wild[i].M > r.M })
				l.wild = slices.Insert(l.wild, place, r)
			} else {
				rows = append(rows, r)
			}
		}
		l.Rows = rows
	}
}

// findWild lists the outliers. Among neighbors it takes only the largest, because an outlier distorts the
// others' predictions.
func (l *Line) findWild() (wild []int) {
	z := make([]float64, len(l.Rows))
	for i, r := range l.Rows {
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

func (l *Line) alongside(i int) bool {
	off := func(k int) float64 { return l.Rows[k].y - l.Rows[k].line }
	below, above := max(i-1, 0), min(i+1, len(l.Rows)-1)
	return math.Abs(off(i)-off(below)) < wildStep/2 && math.Abs(off(i)-off(above)) < wildStep/2
}

func (l *Line) draw() {
	x := make([][terms]float64, len(l.Rows))
	weight := make([]float64, len(l.Rows))
	for i, r := range l.Rows {
		t := math.Exp(r.y)
		for j := range terms {
			x[i][j] = r.x[j] / t
		}
		weight[i] = 1
	}
	off := make([]float64, len(l.Rows))
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
	for i := range l.Rows {
		r := &l.Rows[i]
		r.line = l.at(r.x)
		for j := range terms {
			l.top[j] = math.Max(l.top[j], r.x[j]/math.Exp(r.line))
		}
	}
	for i := range l.Rows {
		l.Rows[i].h = l.doubt(l.Rows[i].x, l.Rows[i].line)
	}
}

// at is the log time of terms by the line alone.
func (l *Line) at(x [terms]float64) float64 {
	sum := 0.0
	for j := range terms {
		sum += l.factor[j] * x[j]
	}
	return math.Log(math.Max(sum, 1e-9))
}

func (l *Line) doubt(x [terms]float64, y float64) (h [terms]float64) {
	t := math.Exp(y)
	for j := range terms {
		if l.top[j] > 0 {
			h[j] = termDoubt * x[j] / t / l.top[j]
		}
	}
	return h
}

// alike is the covariance of two rows' log times, without noise.
func (l *Line) alike(a, b *told) float64 {
	apart := math.Abs(a.logM-b.logM) / nearReach
	if p, q := a.x[termWaves], b.x[termWaves]; p != q {
		apart += math.Abs(p-q) / (wavesReach * math.Max(p, q))
	}
	near := l.scatter * l.scatter * math.Exp(-apart)
	if a.M != b.M {
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

func (l *Line) system(from []int) *system {
	s := &system{from: from}
	for i, p := range from {
		for j, q := range from[:i+1] {
			s.factor[i][j] = l.alike(&l.Rows[p], &l.Rows[q])
		}
		s.factor[i][i] += l.Rows[p].se * l.Rows[p].se
	}
	s.ok = s.factor.factor(len(from))
	return s
}

func (l *Line) foretell(s *system, r *told) prediction {
	p := prediction{Estimate: stats.Estimate{Y: r.line, SE: math.Sqrt(l.alike(r, r)), DF: l.df}}
	if !s.ok || len(s.from) == 0 {
		return p
	}
	var k, weight [mostSystem]float64
	n := len(s.from)
	for i, at := range s.from {
		k[i] = l.alike(r, &l.Rows[at])
		weight[i] = k[i]
	}
	s.factor.solve(weight[:n])
	variance := p.SE * p.SE
	for i, at := range s.from {
		p.Y += weight[i] * (l.Rows[at].y - l.Rows[at].line)
		variance -= weight[i] * k[i]
	}
	p.SE = math.Sqrt(math.Max(variance, 1e-10))
	p.from, p.weight = s.from, slices.Clone(weight[:n])
	return p
}

func (l *Line) without(i int) prediction {
	var from []int
	for k := max(0, i-nearRows); k < min(len(l.Rows), i+nearRows+1); k++ {
		if k != i {
			from = append(from, k)
		}
	}
	return l.foretell(l.system(from), &l.Rows[i])
}

// Leaving predicts a measured row from the others.
func (l *Line) Leaving(r FamilyRow) prediction {
	if i := slices.IndexFunc(l.Rows, func(t told) bool { return t.M == r.M }); i >= 0 {
		return l.without(i)
	}
	return l.ForetellAt(r)
}

// ForetellAt predicts the log time of a row, in microseconds, from the measured rows.
func (l *Line) ForetellAt(r FamilyRow) prediction {
	t := l.row(r)
	at := sort.Search(len(l.Rows), func(i int) bool { return l.Rows[i].M >= r.M })
	return l.foretell(l.system(l.around(at)), &t)
}

func (l *Line) around(at int) (from []int) {
	for k := max(0, at-nearRows); k < min(len(l.Rows), at+nearRows); k++ {
		from = append(from, k)
	}
	return from
}

// measureScatter estimates the scatter around the line from the errors of leave-one-out predictions, shrunk
// towards the usual one.
func (l *Line) measureScatter(usual float64) {
	l.scatter, l.df = usual, usualDF+float64(len(l.Rows))
	if len(l.Rows) < 3 {
		l.score = 0
		return
	}
	step := (len(l.Rows) + scatterRows - 1) / scatterRows
	for range 3 {
		sum, n := 0.0, 0.0
		l.score = 0
		for i := 0; i < len(l.Rows); i += step {
			p := l.without(i)
			variance := p.SE*p.SE + l.Rows[i].se*l.Rows[i].se
			off := l.Rows[i].y - p.Y
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

func (l *Line) row(r FamilyRow) told {
	t := told{M: r.M, logM: math.Log(float64(r.M)), x: l.Family.terms(r, l.layout)}
	t.line = l.at(t.x)
	t.h = l.doubt(t.x, t.line)
	return t
}

// forecaster predicts rows in ascending order of M, and caches the system around them.
type forecaster struct {
	*Line
	at     int
	system *system
}

func (l *Line) forecaster() *forecaster { return &forecaster{Line: l, at: -1} }

// predict predicts a row that the line does not rest on. An outlier among its neighbors widens the interval.
func (f *forecaster) predict(r FamilyRow) prediction {
	t := f.row(r)
	at := sort.Search(len(f.Rows), func(i int) bool { return f.Rows[i].M >= r.M })
	if at != f.at {
		f.at, f.system = at, f.Line.system(f.around(at))
	}
	p := f.foretell(f.system, &t)
	below, above := 0, math.MaxInt
	if at > 0 {
		below = f.Rows[at-1].M
	}
	if at < len(f.Rows) {
		above = f.Rows[at].M
	}
	for _, w := range f.wild {
		if below < w.M && w.M < above {
			p.SE = math.Hypot(p.SE, (w.y-f.Line.at(w.x))/2)
		}
	}
	if f.beyond(&t) {
		p.SE = math.Max(p.SE, unforetold)
	}
	return p
}

// beyond reports whether too few rows were measured on either side of a row.
func (l *Line) beyond(r *told) bool {
	n := len(l.Rows)
	if n == 0 || n < leastRows && len(l.Family.Rows) > fewRows {
		return true
	}
	return r.logM < l.Rows[0].logM-beyondReach || r.logM > l.Rows[n-1].logM+beyondReach
}
