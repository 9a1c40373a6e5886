package infer

import (
	"fmt"
	"hash/fnv"
	"math"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

const (
	// checkedShare is the share of a family's rows that are measured to check its predictions, checkedGuessed
	// the share if the kernels are guessed.
	checkedShare   = 0.02
	checkedGuessed = 0.06
	// InsideShare is the share of check rows that must lie inside their interval.
	InsideShare = 0.95
	// chanceLevel is the significance level of the check of a series' families. It is split evenly between
	// them; otherwise some of a hundred would fail by chance.
	chanceLevel = 0.02
	// surelyOutside is the probability of a single check row that fails a family, and farOutside its least
	// distance, in half-widths of wideInference.
	surelyOutside = 0.001
	farOutside    = 2
)

// Inference summarizes the rows of series that are measured only in part.
type Inference struct {
	// Asked rows are the plan's: Measured, Inferred, and Open, which are unknown.
	Asked    int `json:"asked"`
	Measured int `json:"measured"`
	Inferred int `json:"inferred"`
	Open     int `json:"open"`
	// Families are the kernels that rows were inferred by. Failed are those whose check rows lie too far from
	// their line; they infer no row.
	Families int `json:"families"`
	Failed   int `json:"families_failed"`
	// Checked rows were measured and compared with their prediction; Inside counts those in its 95 %
	// interval.
	Checked int `json:"checked"`
	Inside  int `json:"checked_inside"`
}

// Share is the share of the check rows inside their interval; 1 without check rows.
func (i Inference) Share() float64 {
	if i.Checked == 0 {
		return 1
	}
	return float64(i.Inside) / float64(i.Checked)
}

// Kept reports whether the check rows are consistent with the required share inside, allowing for chance.
func (i Inference) Kept() bool {
	return i.Share() >= InsideShare || stats.BinomialTail(i.Checked-i.Inside, i.Checked, 1-InsideShare) > chanceLevel
}

// Add adds the counts of another series.
func (i *Inference) Add(o Inference) {
	i.Asked += o.Asked
	i.Measured += o.Measured
	i.Inferred += o.Inferred
	i.Open += o.Open
	i.Families += o.Families
	i.Failed += o.Failed
	i.Checked += o.Checked
	i.Inside += o.Inside
}

// DrawChecks draws the check rows of a series by the seed, so a sweep and its audits choose the same ones.
func DrawChecks(key results.SeriesKey, seed uint64, told bool) func(m int) bool {
	share := checkedGuessed
	if told {
		share = checkedShare
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "inferred %+v %d", key, seed)
	base := h.Sum64()
	return func(m int) bool { return uniform(base, m) < share }
}

// uniform is a hash of seed and M to 0..1; the finalizer of SplitMix64 spreads neighbors evenly.
func uniform(seed uint64, m int) float64 {
	x := seed + uint64(m)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return float64(x>>11) / (1 << 53)
}

func held(families []*FittedFamily) int {
	n := 0
	for _, f := range families {
		checks := 0
		for _, r := range f.Rows {
			if r.check && r.Point >= 0 {
				checks++
			}
		}
		if checks > 1 {
			n++
		}
	}
	return n
}

func (f *FittedFamily) check(points []Point, serves func(Point) bool, usual, level float64, q stats.Quantiles) {
	without := fitLine(f.Family, points, serves, func(r FamilyRow) bool { return r.check }, usual)
	if without == nil || len(without.Rows) < 2 {
		return
	}
	caster := without.forecaster()
	wide := without.wide(q)
	least := 1.0
	for _, r := range f.Rows {
		if !r.check || r.Point < 0 || !serves(points[r.Point]) {
			continue
		}
		p := caster.predict(r)
		if q.Upper(outside, p.DF)*p.SE > wide {
			continue // it would be measured even if it were not a check row
		}
		us := points[r.Point].US
		z := math.Abs(us.Y-p.Y) / math.Hypot(p.SE, us.SE)
		f.checked++
		if z <= q.Upper(outside, p.DF) {
			f.inside++
		}
		if math.Abs(us.Y-p.Y) > farOutside*wideInference {
			least = math.Min(least, 2*stats.UpperP(z, p.DF))
		}
	}
	out := f.checked - f.inside
	f.Failed = least*float64(max(f.checked, 1)) < surelyOutside || out > 1 && stats.BinomialTail(out, f.checked, 1-InsideShare) < level
}
