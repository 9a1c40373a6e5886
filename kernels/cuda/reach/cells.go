package reach

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

const (
	// confidence of a cell's upper bound.
	confidence = 0.99
	// One in trimmedOf samples is trimmed at either end, to drop outliers from host delays.
	trimmedOf = 7
)

// Cell compares our kernel with its better peer on one product.
type Cell struct {
	Product
	Label       string // of ours
	Peer        Series // the better one at the common clock
	US, PeerUS  float64
	Samples     int
	Common      float64 // the peer's time ÷ ours at the common clock
	Observed    float64 // the ratio of uncorrected times, with the peer that is better in them
	Upper       float64 // the upper bound of Common
	commonLog   float64
	observedLog float64
}

// Below these times the launch overhead dominates, and ours may be behind by 0.1 us.
const (
	shortUS  = 4
	behindUS = 0.1
)

// Excused reports whether a short product's difference is too small to count.
func (c Cell) Excused() bool { return c.US < shortUS && c.Upper+behindUS/c.US >= 1 }

func cells(all []*times, ours Series, peers ...Series) []Cell {
	type key struct {
		Product
		Series
	}
	rows := map[key]*times{}
	for _, t := range all {
		rows[key{t.Product, t.Series}] = t
	}
	var out []Cell
	for _, t := range all {
		if t.Series != ours || len(t.Samples) == 0 {
			continue
		}
		c := Cell{Product: t.Product, Label: t.Label, US: typical(t), commonLog: math.Inf(1), observedLog: math.Inf(1)}
		complete := true
		for _, s := range peers {
			peer := rows[key{t.Product, s}]
			if peer == nil || len(peer.Samples) == 0 {
				complete = false
				break
			}
			common, upper, n := ratio(peer.common, t.common)
			if common < c.commonLog {
				c.commonLog, c.Upper, c.Samples, c.Peer, c.PeerUS = common, math.Exp(upper), n, s, typical(peer)
			}
			observed, _, _ := ratio(peer.observed, t.observed)
			c.observedLog = min(c.observedLog, observed)
		}
		if complete && c.Samples > 0 {
			c.Common, c.Observed = math.Exp(c.commonLog), math.Exp(c.observedLog)
			out = append(out, c)
		}
	}
	return out
}

func typical(t *times) float64 {
	var us []float64
	for _, s := range t.Samples {
		us = append(us, s.US)
	}
	return stats.Median(us)
}

// ratio compares log-times round by round, which cancels variation between rounds. It returns the mean and
// its upper bound.
func ratio(peer, ours map[int]float64) (mid, upper float64, n int) {
	var d []float64
	for round, y := range peer {
		if x, ok := ours[round]; ok {
			d = append(d, y-x)
		}
	}
	slices.Sort(d)
	mid, upper = bound(d)
	return mid, upper, len(d)
}

// bound returns the trimmed mean of sorted numbers and its upper bound, by Student's distribution and the
// winsorized variance (Tukey and McLaughlin). A single number has no bound.
func bound(d []float64) (mid, upper float64) {
	n := len(d)
	if n == 0 {
		return math.NaN(), math.Inf(1)
	}
	g := n / trimmedOf
	inner := d[g : n-g]
	for _, x := range inner {
		mid += x / float64(len(inner))
	}
	if len(inner) < 2 {
		return mid, math.Inf(1)
	}
	var mean, square float64
	for i := range d {
		mean += d[min(max(i, g), n-g-1)] / float64(n)
	}
	for i := range d {
		x := d[min(max(i, g), n-g-1)] - mean
		square += x * x / float64(n-1)
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(len(inner) - 1)}.Quantile(confidence)
	return mid, mid + t*math.Sqrt(square*float64(n))/float64(len(inner))
}
