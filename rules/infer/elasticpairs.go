package infer

import (
	"math"

	"github.com/gemmaudit/gemmaudit/results"
)

// Blur is the standard error of the mean log ratio of pairs due to the uncertainty of the cases' βs. It grows
// with the distance of the clock from the common one.
func Blur(pairs [][2]results.Sample, a, b Elasticity, reference float64) float64 {
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
	return math.Hypot(off[0]*a.SE, off[1]*b.SE)
}

// Elasticity is the elasticity of a case's time in the clock, from the sweep's rows: its own row, its parts
// or its padded size. It is unknown for unmeasured sizes.
func (p *Estimates) Elasticity(c results.Case) Elasticity {
	for _, curve := range p.Curves {
		if curve.Series.Key != c.SeriesKey {
			continue
		}
		if !curve.Clocked {
			return Elasticity{}
		}
		ms := c.Parts
		switch {
		case c.PadTo > 0:
			ms = []int{c.PadTo}
		case len(ms) == 0:
			ms = []int{c.M}
		}
		var out Elasticity
		var time float64
		for _, m := range ms {
			i, ok := curve.At(m)
			if !ok {
				return unknownElasticity
			}
			pt := curve.Points[i]
			us := math.Exp(pt.US.Y)
			out.Beta += us * pt.Elastic.Beta
			out.SE += us * pt.Elastic.SE
			time += us
		}
		return Elasticity{out.Beta / time, out.SE / time}
	}
	return unknownElasticity
}
