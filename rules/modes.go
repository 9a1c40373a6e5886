package rules

import (
	"math"
	"slices"
)

const (
	// modeGap is how far two levels of a row must lie apart to be told from scatter, in
	// standard deviations of the rows around it, and modeStep the least distance
	// as a share of the time that is worth telling.
	modeGap  = 6
	modeStep = 0.01
	// modeShare is the least share of a row's samples at either level, and modeLeast the
	// least number: fewer are strays.
	modeShare = 0.15
	modeLeast = 2
)

// modes are the two levels of a row, in logs of time, and the share of the
// samples at the slower one.
type modes struct {
	fast, slow, share float64
}

// tellModes marks the rows of a curve whose samples fall into two groups with
// nothing between: another kernel, another placement of a buffer, a neighbour. Their mean is
// a time that never occurs. scales are the rows' own standard deviations.
func tellModes(points []point, scales []float64, y func(int) []float64) {
	var scratch []float64
	for i := range points {
		lo, hi := max(0, i-poolRows/2), min(len(points), i+poolRows/2+1)
		scratch = append(scratch[:0], scales[lo:hi]...)
		common := math.Max(selectMedian(scratch), scaleFloor)
		scratch = append(scratch[:0], y(i)...)
		slices.Sort(scratch)
		points[i].modes = twoModes(scratch, common)
	}
}

// flipRows is the share of a curve's rows with two levels from which on all of its rows may have them, and flipChance the chance, over all rows, that
// one has shown its slower level alone.
const flipRows, flipChance = 0.2, 0.01

// flipsOf are the levels that rows of a curve have in common, as logs over the faster one; nil where less than flipRows have two.
func flipsOf(points []point) *modes {
	var gaps, shares []float64
	several := 0
	for i := range points {
		if points[i].n >= 2*modeLeast {
			several++
		}
		if m := points[i].modes; m != nil {
			gaps, shares = append(gaps, m.slow-m.fast), append(shares, m.share)
		}
	}
	if len(gaps) == 0 || float64(len(gaps)) < flipRows*float64(several) {
		return nil
	}
	return &modes{0, median(gaps), meanOf(shares)}
}

// hidden is how far the faster level of a row may lie below its time though it has shown the slower one alone: where that may be chance, the
// distance of the levels of its curve.
func (c *curve) hidden(p point) float64 {
	if c.flips == nil || p.modes != nil || p.inferred {
		return 0
	}
	// A single sample at the other level is a stray to the search for levels.
	n, s := float64(p.n), c.flips.share
	if chance := math.Pow(s, n) + n*math.Pow(s, n-1)*(1-s); chance*float64(len(c.points)) <= flipChance {
		return 0
	}
	return c.flips.slow
}

// twoModes splits sorted samples at their widest gap; sigma is the scatter of one level.
func twoModes(sorted []float64, sigma float64) *modes {
	n := len(sorted)
	if n < 2*modeLeast {
		return nil
	}
	least := max(modeLeast, int(math.Ceil(modeShare*float64(n))))
	cut, gap := 0, 0.0
	for i := least; i <= n-least; i++ {
		if d := sorted[i] - sorted[i-1]; d > gap {
			cut, gap = i, d
		}
	}
	if cut == 0 {
		return nil
	}
	fast, slow := sorted[:cut], sorted[cut:]
	within := 0.0
	for _, level := range [][]float64{fast, slow} {
		within = math.Max(within, level[len(level)-1]-level[0])
	}
	low, high := median(fast), median(slow)
	// A gap that is no wider than the levels themselves is a hole in a broad scatter.
	if gap < modeGap*sigma/2 || high-low < modeGap*sigma || high-low < modeStep || gap < 1.5*within {
		return nil
	}
	return &modes{low, high, float64(len(slow)) / float64(n)}
}
