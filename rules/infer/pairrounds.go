package infer

import (
	"math"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// PairedLeast is the least number of rounds with both rows of a pair for estimating their ratio by rounds.
const PairedLeast = 3

// taken are the samples of a point: y is the log time at the common clock and pace, x the log of the pace
// that it was adjusted by, and clock that of the clock ÷ reference.
type taken struct {
	track
	clock   []float64
	clocked bool
	pace    Elasticity
}

// PairedRatio is the log of one row's time over another's, from the rounds that measured both. Rounds is the
// number of these; if it is 0, the rows can't be paired.
type PairedRatio struct {
	stats.Estimate
	Rounds int
}

// PairRounds returns the log of b's time over a's for each pair {a, b} of one device's points, ascending in
// M, that [PreparePairs] estimated.
//
// Both rows of a pair ran in the same rounds with operands at the same place, so what a round does to both
// cancels. Their clocks differ by less than either from the reference, so the error of β, one for both rows,
// counts for little. The ratio holds for the clocks that the rows ran at. Rows that move between levels can
// be paired only if they move together. Delays hit single samples, so if noise only delays nothing is paired.
func PairRounds(pairs [][2]*Point, s Scatter) []PairedRatio {
	out := make([]PairedRatio, len(pairs))
	if s.Low() {
		return out
	}
	points, rounds := make([]Point, 0, len(pairs)), make([][]float64, 0, len(pairs))
	at := make([]int, 0, len(pairs)) // the pairs of points
	for k, pair := range pairs {
		a, b := pair[0], pair[1]
		if a.taken == nil || b.taken == nil || a.Inferred || b.Inferred || a.taken.clocked != b.taken.clocked {
			continue
		}
		if a.taken == b.taken { // a row is exactly as fast as itself
			out[k] = PairedRatio{stats.Estimate{DF: exactDF}, len(a.taken.y)}
			continue
		}
		d, se := pairRow(a, b)
		if len(d) < PairedLeast || !together(a, b, d) {
			continue
		}
		at, rounds = append(at, k), append(rounds, d)
		points = append(points, Point{N: len(d), US: stats.Estimate{SE: se}})
	}
	pool(points, func(i int) []float64 { return rounds[i] }, func(p *Point) *stats.Estimate { return &p.US })
	var scratch []float64
	for i, k := range at {
		e := points[i].US
		e.Y, scratch = stats.Centre(rounds[i], scratch)
		out[k] = PairedRatio{e, len(rounds[i])}
	}
	return out
}

// exactDF is the degrees of freedom of a value without error.
const exactDF = 1e6

// pairRow returns the log ratios of b to a by round, adjusted for the differences of clock and pace within
// the round, and the standard error that the adjustments add to their location. Rounds with several samples
// of a row are left out: their samples don't belong to one moment.
func pairRow(a, b *Point) (d []float64, se float64) {
	x, y := a.taken, b.taken
	of, many := make(map[int]int, len(x.round)), map[int]bool{}
	for i, round := range x.round {
		_, twice := of[round]
		of[round], many[round] = i, many[round] || twice
	}
	seen := make(map[int]bool, len(y.round))
	for _, round := range y.round {
		many[round] = many[round] || seen[round]
		seen[round] = true
	}
	beta, pace := commonElasticity(a.Elastic, b.Elastic), commonElasticity(x.pace, y.pace)
	var clocks, paces []float64
	lost := 0.0
	for j, round := range y.round {
		i, ok := of[round]
		if !ok || many[round] {
			continue
		}
		d = append(d, y.y[j]-x.y[i]+(beta.Beta-b.Elastic.Beta)*y.clock[j]-(beta.Beta-a.Elastic.Beta)*x.clock[i]+
			(pace.Beta-y.pace.Beta)*y.x[j]-(pace.Beta-x.pace.Beta)*x.x[i])
		clocks, paces = append(clocks, y.clock[j]-x.clock[i]), append(paces, y.x[j]-x.x[i])
		lost += lostDoubt * lostDoubt * (x.lost[i]*x.lost[i] + y.lost[j]*y.lost[j])
	}
	n := math.Max(float64(len(d)), 1)
	return d, math.Hypot(math.Sqrt(lost)/n, math.Hypot(steady(clocks)*beta.SE, steady(paces)*pace.SE))
}

// steady is the mean of v as far as chance does not explain it. What changes from round to round is already in
// the scatter of the ratios.
func steady(v []float64) float64 {
	n := float64(len(v))
	if n < 2 {
		return 0
	}
	mean, squares := stats.Mean(v), 0.0
	for _, x := range v {
		squares += (x - mean) * (x - mean)
	}
	return math.Sqrt(math.Max(mean*mean-squares/(n-1)/n, 0))
}

// commonElasticity is the elasticity of two rows by the precision of each. Rows that differ in it have no
// common one: then the ratio holds at a clock between theirs, whatever the weights.
func commonElasticity(a, b Elasticity) Elasticity {
	if a.SE == 0 || b.SE == 0 {
		return Elasticity{(a.Beta + b.Beta) / 2, math.Max(a.SE, b.SE) / 2}
	}
	wa, wb := 1/(a.SE*a.SE), 1/(b.SE*b.SE)
	return Elasticity{(wa*a.Beta + wb*b.Beta) / (wa + wb), 1 / math.Sqrt(wa+wb)}
}

// together reports whether a ratio has one level although its rows may have two.
func together(a, b *Point, d []float64) bool {
	gap := math.Inf(1)
	for _, p := range []*Point{a, b} {
		if p.Modes != nil {
			gap = math.Min(gap, p.Modes.Slow-p.Modes.Fast)
		}
	}
	middle := stats.Median(d)
	for _, v := range d {
		if math.Abs(v-middle) > gap/2 {
			return false
		}
	}
	return true
}
