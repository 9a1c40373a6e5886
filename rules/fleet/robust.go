package fleet

import (
	"cmp"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// median is NaN if v is empty: the value is unknown.
func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	return stats.Median(v)
}

// appendKnown appends a value unless it is 0, which is unknown.
func appendKnown(to *[]float64, v float64) {
	if v > 0 {
		*to = append(*to, v)
	}
}

// ratio is the interval of a log with a standard error, at 95 % confidence.
func ratio(log, se, freedom float64) stats.Interval {
	half := stats.UpperT(0.025, freedom) * se
	return stats.Interval{Lo: log - half, Mid: log, Hi: log + half}.Exp()
}

// middleHalf is the mean of the middle half of v; NaN if empty. It reorders v.
func middleHalf(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	slices.Sort(v)
	return stats.MidMean(v)
}

// With more than flipShare of the values beyond flipScales robust deviations, these are no outliers: the card
// alternates between levels. More than a quarter would distort the mean of the middle half. flipLeast is the
// minimum number of values.
const flipShare, flipScales, flipLeast = 0.1, 5, 16

// steadyMiddle is [middleHalf], or the median if many values are far off.
func steadyMiddle(v []float64) float64 {
	if len(v) < flipLeast {
		return middleHalf(v)
	}
	m, s, far := median(v), math.Max(stats.Scale(v), leastDeviation), 0
	for _, x := range v {
		if math.Abs(x-m) > flipScales*s {
			far++
		}
	}
	if float64(far) > flipShare*float64(len(v)) {
		return m
	}
	return middleHalf(v)
}

type weighed struct{ value, weight float64 }

func weightedMedian(v []weighed) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	slices.SortFunc(v, func(a, b weighed) int { return cmp.Compare(a.value, b.value) })
	total := 0.0
	for _, x := range v {
		total += x.weight
	}
	below := 0.0
	for i, x := range v {
		below += x.weight
		if math.Abs(below-total/2) <= 1e-9*total && i+1 < len(v) {
			return (x.value + v[i+1].value) / 2
		}
		if below > total/2 {
			return x.value
		}
	}
	return v[len(v)-1].value
}

const (
	// outlierLevel is the level of the test that excludes cards as peers of others.
	outlierLevel = 0.02
	// mostOutliers is the maximum share of outliers among cards: beyond it the normal ones can't be
	// identified.
	mostOutliers = 0.4
	// Among manyValues values, one within nearValue deviations is never an outlier at that level.
	manyValues, nearValue = 20, 2.5
)

// outliers uses the generalized extreme Studentized deviate test (Rosner 1983), which finds several outliers
// that would mask each other.
func outliers(v []float64) []bool {
	n := len(v)
	out := make([]bool, n)
	most := int(mostOutliers * float64(n))
	if n < 5 || most < 1 {
		return out
	}
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(v[a], v[b]), a-b) })
	centre := v[order[n/2]]
	var sum, squares float64
	for _, x := range v {
		sum, squares = sum+x-centre, squares+(x-centre)*(x-centre)
	}
	lo, hi, found := 0, n, 0
	removed := make([]int, 0, most)
	for i := 1; i <= most && hi-lo > 3; i++ {
		left := float64(hi - lo)
		about := sum / left
		sd := math.Sqrt(math.Max(0, squares-sum*about) / (left - 1))
		low, high := order[lo], order[hi-1]
		x := v[high] - centre
		if about-(v[low]-centre) > x-about {
			removed, x, lo = append(removed, low), v[low]-centre, lo+1
		} else {
			removed, hi = append(removed, high), hi-1
		}
		far := math.Abs(x-about) / sd
		if sd == 0 || left >= manyValues && far < nearValue {
			sum, squares = sum-x, squares-x*x
			continue
		}
		t := stats.UpperT(outlierLevel/2/left, left-2)
		if far > t*(left-1)/math.Sqrt((left-2+t*t)*left) {
			found = i
		}
		sum, squares = sum-x, squares-x*x
	}
	for _, i := range removed[:found] {
		out[i] = true
	}
	return out
}
