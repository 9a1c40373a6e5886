package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Interval is an estimate with its confidence bounds.
type Interval struct {
	Lo  float64 `json:"lo"`
	Mid float64 `json:"mid"`
	Hi  float64 `json:"hi"`
}

// Raw is the estimate without its bounds, nil if it is not a number.
func (i Interval) Raw() any {
	if math.IsNaN(i.Mid) || math.IsInf(i.Mid, 0) {
		return nil
	}
	return i.Mid
}

// Exp takes the estimate and its bounds from logs to their unit.
func (i Interval) Exp() Interval { return Interval{Exp(i.Lo), Exp(i.Mid), Exp(i.Hi)} }

// Log takes the logs of the estimate and its bounds.
func (i Interval) Log() Interval { return Interval{math.Log(i.Lo), math.Log(i.Mid), math.Log(i.Hi)} }

// Exactly is an interval of zero width, for values without uncertainty.
func Exactly(v float64) Interval { return Interval{v, v, v} }

// Sharing widens the interval of a mean by an error that all its values share.
func (i Interval) Sharing(common Estimate, confidence float64) Interval {
	if common.SE == 0 || i.Mid <= 0 {
		return i
	}
	g := i.Log()
	half := math.Hypot(g.Hi-g.Mid, common.SE*UpperT((1-confidence)/2, math.Min(common.DF, 1e6)))
	return Interval{g.Mid - half, g.Mid, g.Mid + half}.Exp()
}

// Widen adds an independent standard error to an interval of the given confidence.
func Widen(i Interval, se, confidence float64) Interval {
	z := distuv.UnitNormal.Quantile(1 - (1-confidence)/2)
	return Interval{i.Mid - math.Hypot(i.Mid-i.Lo, z*se), i.Mid, i.Mid + math.Hypot(i.Hi-i.Mid, z*se)}
}
