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
