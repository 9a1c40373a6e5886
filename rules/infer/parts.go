package infer

import (
	"math"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Sum is the time of parts run one after the other, in microseconds; log is the log time of a single launch.
func (c *Curve) Sum(parts []int, log func(Point) float64) float64 {
	var us float64
	for _, m := range parts {
		if i, ok := c.At(m); ok {
			us += math.Exp(log(c.Points[i]))
		}
	}
	return us
}

// Priced is the log time of parts run one after the other, with its error, from the estimates of single
// launches. Equal parts share their error.
func (c *Curve) Priced(parts []int) stats.Estimate {
	total := c.Sum(parts, func(p Point) float64 { return p.US.Y })
	share := map[int]float64{}
	var variance, open float64
	df := math.Inf(1)
	for _, m := range parts {
		share[m]++
	}
	for m, n := range share {
		if i, ok := c.At(m); ok {
			us := c.Points[i].US
			weight := n * math.Exp(us.Y) / total * us.SE
			variance += weight * weight
			open += n * math.Exp(us.Y) / total * us.Open
			df = math.Min(df, us.DF)
		}
	}
	return stats.Estimate{Y: math.Log(total), SE: math.Sqrt(variance), DF: df, Open: open}
}
