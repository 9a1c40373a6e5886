package stats

import (
	"math"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// Estimate is the center of the log of one quantity over a row's samples (see [Centre]), with a standard
// error and degrees of freedom for Student's t. Open is a possible bias of Y, to either side, that more
// samples don't reduce: a timer's step, or the distance between two levels.
type Estimate struct {
	Y, SE, DF, Open float64
}

// Above is the p-value of the hypothesis that the true value is at most bound.
func (e Estimate) Above(bound float64) float64 { return UpperP((e.Y-e.Open-bound)/e.SE, e.DF) }

// Beyond is the p-value of the hypothesis that the true value lies within bound of zero: twice the smaller of
// two one-sided p-values.
func (e Estimate) Beyond(bound float64) float64 {
	return math.Min(1, 2*math.Min(e.Above(bound), Estimate{-e.Y, e.SE, e.DF, e.Open}.Above(bound)))
}

// Interval returns exp of the estimate with bounds at the given confidence.
func (e Estimate) Interval(confidence float64, q Quantiles) Interval {
	half := q.Upper((1-confidence)/2, e.DF)*e.SE + e.Open
	return Interval{e.Y - half, e.Y, e.Y + half}.Exp()
}

// welch is Satterthwaite's degrees of freedom for the difference of two estimates.
func welch(a, b Estimate) float64 {
	va, vb := a.SE*a.SE, b.SE*b.SE
	if va+vb == 0 {
		return math.Min(a.DF, b.DF)
	}
	return (va + vb) * (va + vb) / (va*va/a.DF + vb*vb/b.DF)
}

// GeometricMean is the geometric mean of ratios. Its interval covers measurement error only; the cases are
// taken as given, not as a sample.
func GeometricMean(logs []Estimate, confidence float64) Interval {
	if len(logs) == 0 {
		return Interval{}
	}
	var sum, variance, open float64
	for _, e := range logs {
		sum, open = sum+e.Y, open+e.Open
		variance += e.SE * e.SE
	}
	n := float64(len(logs))
	half := distuv.UnitNormal.Quantile(1-(1-confidence)/2)*math.Sqrt(variance)/n + open/n
	return Interval{sum/n - half, sum / n, sum/n + half}.Exp()
}

// Difference is a − b of independent estimates, with Satterthwaite's degrees of freedom.
func Difference(a, b Estimate) Estimate {
	return Estimate{a.Y - b.Y, math.Hypot(a.SE, b.SE), welch(a, b), a.Open + b.Open}
}

// Sharing adds an error that all ratios of a pair of runs share.
func (e Estimate) Sharing(common Estimate) Estimate {
	if common.SE == 0 {
		return e
	}
	return Estimate{e.Y, math.Hypot(e.SE, common.SE), welch(e, common), e.Open}
}

// GeometricMeanSharing is [GeometricMean] with an error that all logs share, so averaging does not reduce
// it.
func GeometricMeanSharing(logs []Estimate, common Estimate, confidence float64) Interval {
	return GeometricMean(logs, confidence).Sharing(common, confidence)
}

// PriorDF is the weight, in degrees of freedom, of a common variance against each row's own. It follows
// from how much more the logs of the rows' variances, each with d degrees of freedom, differ than by
// chance.
func PriorDF(logs []float64, d float64) float64 {
	if len(logs) < 8 || d <= 0 {
		return priorMax / 4
	}
	sigma := Scale(logs)
	excess := sigma*sigma - mathext.Zeta(2, d/2) // trigamma(x) = ζ(2, x)
	if excess <= 0 {
		return priorMax
	}
	lo, hi := 0.5, float64(priorMax)
	if mathext.Zeta(2, hi/2) >= excess {
		return hi
	}
	for range 40 { // trigamma falls: bisect
		mid := (lo + hi) / 2
		if mathext.Zeta(2, mid/2) > excess {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}
