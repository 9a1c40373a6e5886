package rules

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gemmaudit/gemmaudit/results"
)

// blur is the standard error of the mean log ratio of pairs that comes from what is not
// known of the cases' βs: it grows with the distance of the clock from the common
// one.
func blur(pairs [][2]results.Sample, a, b elasticity, reference float64) float64 {
	if reference <= 0 || len(pairs) == 0 {
		return 0
	}
	var off [2]float64
	for _, p := range pairs {
		for k, s := range p {
			if clocked(&s) {
				off[k] += math.Log(s.ClockMHz/reference) / float64(len(pairs))
			}
		}
	}
	return math.Hypot(off[0]*a.se, off[1]*b.se)
}

// widened adds an independent standard error to an interval.
func widened(i Interval, se, confidence float64) Interval {
	z := distuv.UnitNormal.Quantile(1 - (1-confidence)/2)
	return Interval{i.Mid - math.Hypot(i.Mid-i.Lo, z*se), i.Mid, i.Mid + math.Hypot(i.Hi-i.Mid, z*se)}
}

// elasticity is how the time of a case follows the clock, from the rows of the sweep: its
// own, or what its parts, its padded size show. What was not measured is
// not known.
func (p *prepared) elasticity(c results.Case) elasticity {
	for _, curve := range p.curves {
		if curve.series.Key != c.SeriesKey {
			continue
		}
		if !curve.clocked {
			return elasticity{}
		}
		ms := c.Parts
		switch {
		case c.PadTo > 0:
			ms = []int{c.PadTo}
		case len(ms) == 0:
			ms = []int{c.M}
		}
		var out elasticity
		var time float64
		for _, m := range ms {
			i, ok := curve.at(m)
			if !ok {
				return unknownElasticity
			}
			pt := curve.points[i]
			us := math.Exp(pt.us.y)
			out.beta += us * pt.elastic.beta
			out.se += us * pt.elastic.se
			time += us
		}
		return elasticity{out.beta / time, out.se / time}
	}
	return unknownElasticity
}
