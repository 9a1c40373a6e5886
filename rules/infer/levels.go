package infer

import (
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

const (
	// levelGap is the least ratio of the gap between two levels to either level's width in a single row.
	// levelLeast is the least number of samples of such a row: five can do so by chance.
	levelGap, levelLeast = 2, 7
	// levelAgree is the share of such rows whose levels must be equally far apart, within levelReach.
	levelAgree, levelReach = 0.7, 0.25
)

// LikeTime is the time of a row at the faster level of its curve, with the fields of [Point] for all samples.
type LikeTime struct {
	us          stats.Estimate
	without, of [stats.Folds]float64
	folded      bool
}

// levelScatter is the scatter within each level of a curve with many bimodal rows; 0 if few rows are. The
// rows' own scales can't be used: if most rows are bimodal, they are as wide as the distance of the levels.
func levelScatter(points []Point, y func(int) []float64) float64 {
	var variances, gaps, scratch []float64
	several := 0
	for i := range points {
		if points[i].N < levelLeast {
			continue
		}
		several++
		scratch = append(scratch[:0], y(i)...)
		slices.Sort(scratch)
		cut := widestGap(scratch)
		if cut == 0 {
			continue
		}
		fast, slow := scratch[:cut], scratch[cut:]
		within := math.Max(fast[len(fast)-1]-fast[0], slow[len(slow)-1]-slow[0])
		if gap := slow[0] - fast[len(fast)-1]; gap < modeStep || gap < levelGap*within {
			continue
		}
		gaps = append(gaps, stats.Median(slow)-stats.Median(fast))
		squares := 0.0
		for _, level := range [][]float64{fast, slow} {
			mean := stats.Mean(level)
			for _, v := range level {
				squares += (v - mean) * (v - mean)
			}
		}
		variances = append(variances, squares/float64(len(scratch)-2))
	}
	if len(variances) == 0 || float64(len(variances)) < flipRows*float64(several) {
		return 0
	}
	usual, agree := stats.Median(gaps), 0
	for _, gap := range gaps {
		if math.Abs(gap-usual) <= levelReach*usual {
			agree++
		}
	}
	if float64(agree) < levelAgree*float64(len(gaps)) {
		return 0
	}
	return math.Max(math.Sqrt(stats.Mean(variances)), ScaleFloor)
}

// levelScatters is [levelScatter] by curve; nil unless most rows are in such curves. Then times are not
// adjusted by the pace of the machine, which has no usual moment.
func levelScatters(curves []*Curve, tracks [][]track) []float64 {
	of, total := 0, 0
	out := make([]float64, len(curves))
	stats.Each(len(curves), func(k int) {
		out[k] = levelScatter(curves[k].Points, func(i int) []float64 { return tracks[k][i].y })
	})
	for k, c := range curves {
		if total += len(c.Points); out[k] > 0 {
			of += len(c.Points)
		}
	}
	if 2*of <= total {
		return nil
	}
	return out
}

// tellLevels finds the levels of each row of such a curve, and the time at the faster one. adjusted are the standard errors of adjustments.
func (c *Curve) tellLevels(sigma float64, adjusted []float64, y func(int) []float64) {
	scales := make([]float64, len(c.Points))
	for i := range scales {
		scales[i] = sigma
	}
	tellModes(c.Points, scales, y)
	c.Flips = flipsOf(c.Points)
	var f folder
	var fast []float64
	for i := range c.Points {
		p := &c.Points[i]
		fast = fast[:0]
		for _, v := range y(i) {
			if p.Modes == nil || v < (p.Modes.Fast+p.Modes.Slow)/2 {
				fast = append(fast, v)
			}
		}
		n := float64(len(fast))
		if n == 0 {
			continue
		}
		q := *p
		q.Folded = false
		q.US.Y = f.fold(&q, fast)
		q.US.SE = math.Hypot(adjusted[i], stats.CentreFactor*sigma/math.Sqrt(n))
		q.US.DF = tailIndex * (n + 1)
		p.Like = &LikeTime{us: q.US, without: q.Without, of: q.Of, folded: q.Folded}
	}
}

// CompareLevels fills in the times at the faster level, if many of the curve's rows move between two levels.
func (c *Curve) CompareLevels() {
	for i := range c.Points {
		if p := &c.Points[i]; p.Like != nil {
			p.US, p.Without, p.Of, p.Folded = p.Like.us, p.Like.without, p.Like.of, p.Like.folded
		}
	}
}
