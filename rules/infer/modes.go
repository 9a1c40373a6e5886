package infer

import (
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

const (
	// modeGap is the least distance of two levels of a row, in standard deviations of the rows around it.
	// modeStep is the least distance as a share of the time.
	modeGap  = 6
	modeStep = 0.01
	// modeShare is the least share of a row's samples at either level, and modeLeast the least number: fewer
	// are outliers.
	modeShare = 0.15
	modeLeast = 2
)

// Modes are the two levels of a row, in logs of time, and the share of the samples at the slower level.
type Modes struct {
	Fast, Slow, share float64
}

// tellModes marks the bimodal rows of a curve: their samples fall into two separate groups because of another
// kernel, another buffer placement or another process. Their mean is a time that never occurs. scales are the
// rows' own standard deviations.
func tellModes(points []Point, scales []float64, y func(int) []float64) {
	var scratch []float64
	for i := range points {
		lo, hi := max(0, i-poolRows/2), min(len(points), i+poolRows/2+1)
		scratch = append(scratch[:0], scales[lo:hi]...)
		common := math.Max(stats.UpperMedianInPlace(scratch), ScaleFloor)
		scratch = append(scratch[:0], y(i)...)
		slices.Sort(scratch)
		points[i].Modes = twoModes(scratch, common)
	}
}

// flipRows is the least share of bimodal rows in a curve whose rows may all be bimodal. flipChance is the
// accepted probability, over all rows, that one shows only its slower level.
const flipRows, flipChance = 0.2, 0.01

// flipsOf are the levels that rows of a curve share, as logs over the faster one; nil if less than flipRows
// of them are bimodal.
func flipsOf(points []Point) *Modes {
	var gaps, shares []float64
	several := 0
	for i := range points {
		if points[i].N >= 2*modeLeast {
			several++
		}
		if m := points[i].Modes; m != nil {
			gaps, shares = append(gaps, m.Slow-m.Fast), append(shares, m.share)
		}
	}
	if len(gaps) == 0 || float64(len(gaps)) < flipRows*float64(several) {
		return nil
	}
	return &Modes{0, stats.Median(gaps), stats.Mean(shares)}
}

// Hidden is how far below its time the faster level of a row may lie if the row shows only the slower one:
// the distance of its curve's levels if that may be chance, else 0.
func (c *Curve) Hidden(p Point) float64 {
	if c.Flips == nil || p.Modes != nil || p.Inferred {
		return 0
	}
	// The search for levels ignores a single sample at the other level.
	n, s := float64(p.N), c.Flips.share
	if chance := math.Pow(s, n) + n*math.Pow(s, n-1)*(1-s); chance*float64(len(c.Points)) <= flipChance {
		return 0
	}
	return c.Flips.Slow
}

// twoModes splits sorted samples at their widest gap; sigma is the scatter of one level.
func twoModes(sorted []float64, sigma float64) *Modes {
	n := len(sorted)
	if n < 2*modeLeast {
		return nil
	}
	cut := widestGap(sorted)
	if cut == 0 {
		return nil
	}
	fast, slow := sorted[:cut], sorted[cut:]
	gap := slow[0] - fast[len(fast)-1]
	within := 0.0
	for _, level := range [][]float64{fast, slow} {
		within = math.Max(within, level[len(level)-1]-level[0])
	}
	low, high := stats.Median(fast), stats.Median(slow)
	// A gap no wider than the levels themselves is a hole in a broad scatter.
	if gap < modeGap*sigma/2 || high-low < modeGap*sigma || high-low < modeStep || gap < 1.5*within {
		return nil
	}
	return &Modes{low, high, float64(len(slow)) / float64(n)}
}

func widestGap(sorted []float64) (cut int) {
	n, gap := len(sorted), 0.0
	least := max(modeLeast, int(math.Ceil(modeShare*float64(n))))
	for i := least; i <= n-least; i++ {
		if d := sorted[i] - sorted[i-1]; d > gap {
			cut, gap = i, d
		}
	}
	return cut
}
