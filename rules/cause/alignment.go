package cause

import (
	"fmt"
	"math"
	"sort"
	"strconv"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/phrase"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

const (
	// alignmentRows is the least number of fast and of slow sizes that shows a pattern.
	alignmentRows = 3
	// alignmentWindow is the most sizes on either side that are looked at, within a factor of two.
	alignmentWindow = 128
	// alignmentP is the level of the test, over all patterns together.
	alignmentP = 0.01
	// alignmentStep is the least difference of two patterns' distances, as a log of rates, that prefers the larger
	// modulus.
	alignmentStep = 0.02
)

// pattern is a way in which sizes may divide into fast and slow ones.
type pattern struct {
	modulus int
	// half means that sizes half a modulus beyond a multiple are slow, instead of all but the multiples.
	half bool
}

var patterns = func() (out []pattern) {
	for _, g := range []int{2, 4, 8, 16, 32, 64, 128, 256} {
		out = append(out, pattern{modulus: g})
		if g > 2 { // the odd sizes are those that are no multiple of 2
			out = append(out, pattern{g, true})
		}
	}
	return out
}()

func (p pattern) slow(size int) bool {
	if p.half {
		return size%p.modulus == p.modulus/2
	}
	return size%p.modulus != 0
}

func (p pattern) text(letter string, n int) string {
	if p.half {
		return fmt.Sprintf("the %s with %s mod %d = %d", phrase.Count(n, "size"), letter, p.modulus, p.modulus/2)
	}
	return fmt.Sprintf("the %s that are no multiple of %d", phrase.Count(n, "size"), p.modulus)
}

// alignment: a modulus separates the fast sizes around the row from the slow ones, and a larger fast size takes
// less time. Tiles of that size would let the time grow in steps, but never fall.
//
// Each pattern is tested by ranks (Mann and Whitney), so the test holds for any noise. Its p-value is
// multiplied by the number of patterns. Of those that pass, the one with the largest distance between the medians
// of fast and slow sizes is named, weighted by how surely a fast size is faster. Modulus 2 separates as surely as 8
// where only multiples of 8 are fast, but by less; the next multiple of 2 would be a poor remedy. Of patterns that
// are nearly equal, the smallest modulus is named.
func (w *Witness) alignment() (Kind, string) {
	points := w.nearby()
	rates := withoutTrend(points)
	var best pattern
	tried, distance, p, letter := 0, 0.0, 1.0, w.Curve.AxisWord()
	for _, x := range patterns {
		apart, own, ok := x.test(points, rates)
		if !ok {
			continue
		}
		tried++
		if own *= float64(len(patterns)); x.slow(w.Row.M) && own <= alignmentP && apart > distance+alignmentStep {
			best, distance, p = x, apart, own
		}
	}
	switch {
	case tried == 0:
		return "", fmt.Sprintf("%s around it show no pattern", phrase.Count(len(points), "size"))
	case distance == 0:
		return "", fmt.Sprintf("no modulus of %s separates fast from slow among %s around it", letter, phrase.Count(len(points), "size"))
	}
	fast, slow := best.divide(points, func(i int) float64 { return points[i].Rate() })
	text := fmt.Sprintf("%s from %s to %s reach MFU %s in the median, the %d others %s (rank test, p %s)", best.text(letter, len(slow)),
		w.Curve.Name(points[0].M), w.Curve.Name(points[len(points)-1].M), phrase.Percent(math.Exp(stats.Median(slow)-w.Curve.Peak)),
		len(fast), phrase.Percent(math.Exp(stats.Median(fast)-w.Curve.Peak)), probability(p))
	least := math.Inf(1)
	for _, q := range points {
		if q.M > w.Row.M && !best.slow(q.M) {
			least = math.Min(least, q.US.Y)
		}
	}
	switch {
	case least > w.within() && !math.IsInf(least, 1):
		return "", text + ", but no larger fast size takes less time"
	case !w.explains(1 - math.Exp(w.Row.Rate()-stats.Median(fast))):
		return "", text + ", which explains less than half of the loss"
	}
	return Alignment, text
}

// nearby returns the points around the row.
func (w *Witness) nearby() []infer.Point {
	points, at := w.Curve.Points, w.At
	from := sort.Search(at, func(i int) bool { return 2*points[i].M >= w.Row.M })
	to := sort.Search(len(points), func(i int) bool { return points[i].M > 2*w.Row.M })
	return points[max(from, at-alignmentWindow):min(to, at+alignmentWindow)]
}

// withoutTrend returns the logs of the points' rates without their line over the log of the size.
func withoutTrend(points []infer.Point) []float64 {
	out := make([]float64, len(points))
	var x, y, xx, xy, slope float64
	for i := range points {
		out[i] = points[i].Rate()
		at := math.Log(float64(points[i].M))
		x, y, xx, xy = x+at, y+out[i], xx+at*at, xy+at*out[i]
	}
	n := float64(len(points))
	if spread := xx - x*x/n; spread > 1e-9 {
		slope = (xy - x*y/n) / spread
	}
	for i := range points {
		out[i] -= slope * math.Log(float64(points[i].M))
	}
	return out
}

// divide returns the values of the points at fast and at slow sizes.
func (p pattern) divide(points []infer.Point, value func(i int) float64) (fast, slow []float64) {
	for i := range points {
		if p.slow(points[i].M) {
			slow = append(slow, value(i))
		} else {
			fast = append(fast, value(i))
		}
	}
	return fast, slow
}

// test compares the rates of fast and slow sizes. apart is the distance of their medians, weighted by how much
// likelier than not a fast size has the larger rate; pValue is one-sided. ok is false if there are too few of either.
func (p pattern) test(points []infer.Point, rates []float64) (apart, pValue float64, ok bool) {
	fast, slow := p.divide(points, func(i int) float64 { return rates[i] })
	if min(len(fast), len(slow)) < alignmentRows {
		return 0, 1, false
	}
	sort.Float64s(slow)
	var above float64
	for _, v := range fast {
		lower := sort.SearchFloat64s(slow, v)
		equal := sort.SearchFloat64s(slow, math.Nextafter(v, math.Inf(1))) - lower
		above += float64(lower) + float64(equal)/2
	}
	n, m := float64(len(fast)), float64(len(slow))
	z := (above - n*m/2 - 0.5) / math.Sqrt(n*m*(n+m+1)/12) // with a correction for continuity
	apart = (2*above/(n*m) - 1) * (stats.Median(fast) - stats.MedianOfSorted(slow))
	return apart, distuv.UnitNormal.Survival(z), true
}

func probability(p float64) string {
	if p < 0.0001 {
		return "< 0.0001"
	}
	return strconv.FormatFloat(p, 'g', 2, 64)
}
