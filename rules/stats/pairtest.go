package stats

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// exactPairs is the largest number of pairs with an exact signed-rank distribution; above it the normal limit
// is used.
const exactPairs = 120

// SignedRank is Wilcoxon's signed-rank test of pairs. It assumes only that a difference is as likely to err
// up as down, which holds if both sides of a pair ran in the same round in random order. It returns P for the
// hypothesis that the median difference is at most bound, against a larger one; it is exact also for ties.
func SignedRank(differences []float64, bound float64) float64 {
	d := make([]float64, 0, len(differences))
	for _, v := range differences {
		d = append(d, v-bound)
	}
	n := len(d)
	if n == 0 {
		return 1
	}
	slices.SortFunc(d, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
	// Ranks are doubled to keep those of ties whole, because ties share their mean rank. A difference of zero
	// counts against significance.
	ranks := make([]int, n)
	sum := 0
	for i := 0; i < n; {
		j := i
		for j < n && math.Abs(d[j]) == math.Abs(d[i]) {
			j++
		}
		for k := i; k < j; k++ {
			ranks[k] = i + j + 1
			if d[k] > 0 {
				sum += ranks[k]
			}
		}
		i = j
	}
	if n > exactPairs {
		var mean, variance float64
		for _, r := range ranks {
			mean += float64(r) / 2
			variance += float64(r) * float64(r) / 4
		}
		return distuv.UnitNormal.Survival((float64(sum) - 1 - mean) / math.Sqrt(variance))
	}
	// chance[s] is the probability that ranks with random signs sum to s.
	chance := []float64{1}
	for _, r := range ranks {
		next := make([]float64, len(chance)+r)
		for s, c := range chance {
			next[s] += c / 2
			next[s+r] += c / 2
		}
		chance = next
	}
	var p float64
	for s := len(chance) - 1; s >= sum; s-- {
		p += chance[s]
	}
	return math.Min(1, p)
}

// WalshInterval is the median of all pairwise means, with the bounds that the signed-rank test rejects at 1 −
// confidence. With too few pairs for the level, the bounds are the extreme differences.
func WalshInterval(d []float64, confidence float64) Interval {
	n := len(d)
	if n == 0 {
		return Interval{}
	}
	walsh := make([]float64, 0, n*(n+1)/2)
	for i := range d {
		for j := i; j < n; j++ {
			walsh = append(walsh, (d[i]+d[j])/2)
		}
	}
	slices.Sort(walsh)
	total := len(walsh)
	k := 0 // how many means may lie outside on each side
	if n > exactPairs {
		mean, sd := float64(total)/2, math.Sqrt(float64(n)*float64(n+1)*float64(2*n+1)/24)
		k = max(0, int(math.Floor(mean-distuv.UnitNormal.Quantile(1-(1-confidence)/2)*sd)))
	} else {
		chance := []float64{1}
		for r := 1; r <= n; r++ {
			next := make([]float64, len(chance)+r)
			for s, c := range chance {
				next[s] += c / 2
				next[s+r] += c / 2
			}
			chance = next
		}
		tail := 0.0
		for k < total/2 {
			if tail += chance[k]; tail > (1-confidence)/2 {
				break
			}
			k++
		}
	}
	// P(W < k) is within the level: the k-th mean from either end is a bound.
	k = max(k-1, 0)
	return Interval{walsh[k], Median(walsh), walsh[total-1-k]}
}
