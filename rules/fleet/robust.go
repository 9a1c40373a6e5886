package fleet

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// median is the median of v, whose order it leaves as it is; NaN for none.
func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	s := slices.Clone(v)
	slices.Sort(s)
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// middleHalf is the mean of the middle half of v, whose order it spoils; NaN for none.
func middleHalf(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	slices.Sort(v)
	n := len(v)
	return mean(v[n/4 : n-n/4])
}

// widest bounds the logs of what is reported, so that what is not known prints as a huge number and not as infinity.
const widest = 600

// expo is exp within what can be printed.
func expo(x float64) float64 { return math.Exp(math.Max(-widest, math.Min(widest, x))) }

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// weighed is a value with the weight that it has in a [weightedMedian].
type weighed struct{ value, weight float64 }

// weightedMedian is the value at which half of the weight lies below, between two values where the half falls
// between them. It spoils the order of v; NaN for none.
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

// scale is a robust standard deviation about the median.
func scale(v []float64) float64 {
	m := median(v)
	d := make([]float64, len(v))
	for i, x := range v {
		d[i] = math.Abs(x - m)
	}
	return 1.4826 * median(d)
}

func student(df float64) distuv.StudentsT { return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df} }

// upperP is P(T > t) for Student's t with df degrees of freedom; 1 where t is not a number.
func upperP(t, df float64) float64 {
	if math.IsNaN(t) {
		return 1
	}
	if t < 0 {
		return 1 - student(df).Survival(-t)
	}
	return student(df).Survival(t)
}

// quantile is the t that is exceeded with probability p.
func quantile(p, df float64) float64 { return -student(df).Quantile(p) }

const (
	// outlierLevel is the level of the test that tells which cards are not used as peers of others.
	outlierLevel = 0.02
	// mostOutliers is the largest share of cards that may be outliers: of more, nobody can say which are the normal ones.
	mostOutliers = 0.4
	// Among manyValues values and more none that lies within nearValue deviations is an outlier at that level, so that it need not be asked how
	// likely it is.
	manyValues, nearValue = 20, 2.5
)

// outliers tells which values do not belong to the others: the generalised extreme Studentized deviate test (Rosner 1983), in
// which several outliers can't hide each other, as they do where the farthest alone is held against all others.
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
		t := quantile(outlierLevel/2/left, left-2)
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
