package rules

import (
	"fmt"
	"hash/fnv"
	"math"

	"gonum.org/v1/gonum/mathext"

	"github.com/gemmaudit/gemmaudit/results"
)

const (
	// checkedShare is the share of the rows of families that are measured to hold what is
	// inferred against them, checkedGuessed that where nothing tells what would run.
	checkedShare   = 0.02
	checkedGuessed = 0.06
	// insideShare is the share of them that has to lie inside its interval.
	insideShare = 0.95
	// chanceLevel is how unlikely the check rows of the families of a series may be by their
	// lines: each family gets an even share of it, or else some of a hundred would fail by chance.
	chanceLevel = 0.02
	// surelyOutside is the probability of a single check row that breaks a family's line, and
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
	// Families are the kernels that rows were inferred by; Failed are those whose check rows lie
	// too far from their line, of which no row is inferred.
	Families int `json:"families"`
	Failed   int `json:"families_failed"`
	// Checked are the rows that were measured to be held against what would have been inferred
	// of them, Inside those in their 95 % interval.
	Checked int `json:"checked"`
	Inside  int `json:"checked_inside"`
}

// Share is the share of the check rows that lie inside their interval; 1 of none.
func (i Inference) Share() float64 {
	if i.Checked == 0 {
		return 1
	}
	return float64(i.Inside) / float64(i.Checked)
}

// Kept says whether the check rows are consistent with the share that has to lie inside: at
// least that share does, or so few lie outside that chance would bring as many.
func (i Inference) Kept() bool {
	return i.Share() >= insideShare || atLeast(i.Checked-i.Inside, i.Checked, 1-insideShare) > chanceLevel
}

func (i *Inference) add(o Inference) {
	i.Asked += o.Asked
	i.Measured += o.Measured
	i.Inferred += o.Inferred
	i.Open += o.Open
	i.Families += o.Families
	i.Failed += o.Failed
	i.Checked += o.Checked
	i.Inside += o.Inside
}

// atLeast is the probability of hits and more of n, each of probability p.
func atLeast(hits, n int, p float64) float64 {
	if hits <= 0 {
		return 1
	}
	return mathext.RegIncBeta(float64(hits), float64(n-hits+1), p)
}

// drawChecks draws the check rows of a series by the seed: a sweep and its audits agree on them
// without a word.
func drawChecks(key results.SeriesKey, seed uint64, told bool) func(m int) bool {
	share := checkedGuessed
	if told {
		share = checkedShare
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

// held counts the families that more than one check row may speak against.
func held(families []*fitted) int {
	n := 0
	for _, f := range families {
		checks := 0
		for _, r := range f.rows {
			if r.check && r.point >= 0 {
				checks++
			}
		}
		if checks > 1 {
			n++
		}
	}
	return n
}

// check holds the check rows of a family against the line of the others; level is how unlikely
// they may be by it.
func (f *fitted) check(points []point, serves func(point) bool, usual, level float64, q quantiles) {
	without := fitLine(f.family, points, serves, func(r familyRow) bool { return r.check }, usual)
	if without == nil || len(without.rows) < 2 {
		return
	}
	caster := without.forecaster()
	wide := without.wide(q)
	least := 1.0
	for _, r := range f.rows {
		if !r.check || r.point < 0 || !serves(points[r.point]) {
			continue
		}
		p := caster.predict(r)
		if q.upper(outside, p.df)*p.se > wide {
			continue // it would have been measured, check or not
		}
		us := points[r.point].us
		z := math.Abs(us.y-p.y) / math.Hypot(p.se, us.se)
		f.checked++
		if z <= q.upper(outside, p.df) {
			f.inside++
		}
		if math.Abs(us.y-p.y) > farOutside*wideInference {
			least = math.Min(least, 2*upperP(z, p.df))
		}
	}
	out := f.checked - f.inside
	f.failed = least*float64(max(f.checked, 1)) < surelyOutside || out > 1 && atLeast(out, f.checked, 1-insideShare) < level
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
		a.warn(subject, "%d of %d check rows lie inside what would have been inferred of them, fewer than %.0f %%: inferred rows are not to be relied on", count.Inside, count.Checked, 100*insideShare)
	}
	if count.Failed > 0 {
		a.warn(subject, "of %s no row is inferred: their check rows lie off their lines", plural(count.Failed, "kernel"))
	}
	if count.Open > 0 {
		a.warn(subject, "%s neither measured nor inferred", plural(count.Open, "row"))
	}
}
