package rules

import (
	"math"

	"github.com/gemmaudit/gemmaudit/results"
)

// blur is the standard error of the mean log ratio of pairs due to the uncertainty of the cases' βs. It grows
// with the distance of the clock from the common one.
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

// elasticity is the elasticity of a case's time in the clock, from the sweep's rows: its own row, its parts
// or its padded size. It is unknown for unmeasured sizes.
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
			us := math.Exp(pt.us.Y)
			out.beta += us * pt.elastic.beta
			out.se += us * pt.elastic.se
			time += us
		}
		return elasticity{out.beta / time, out.se / time}
	}
	return unknownElasticity
}
