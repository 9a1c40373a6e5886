package rules

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// estimate is what a row's samples say of one quantity: the centre of its log
// (see [pseudoMedian]), with the standard error and degrees of freedom of
// Student's t around it.
type estimate struct {
	y, se, df float64
}

// interval returns exp of the estimate with bounds that hold with the given
// confidence.
func (e estimate) interval(confidence float64, q quantiles) Interval {
	half := q.upper((1-confidence)/2, e.df) * e.se
	return Interval{e.y - half, e.y, e.y + half}.exp()
}

// point is a row of a series, made ready for the rules.
type point struct {
	row   int // index into Series.Rows
	m     int
	label string
	n     int     // usable samples
	flops float64 // log of the product's FLOPs
	// us is log of microseconds, corrected for drift; cycles the same with the
	// clock multiplied in, valid where clock, the median in MHz, is not 0.
	us, cycles estimate
	clock      float64
}

// judged says whether the point has enough samples for a verdict.
func (p point) judged(least int) bool { return p.n >= least }

// rate is the log of FLOP per microsecond.
func (p point) rate() float64 { return p.flops - p.us.y }

// curve is a series made ready for the rules. Rows that failed or have no
// usable sample are not among its points.
type curve struct {
	series results.Series
	spec   kernels.Spec
	points []point
	// peak is log of FLOP per microsecond at which MFU is 1.
	peak float64
	// clocked is true when every row tells its clock.
	clocked bool
	// control marks the rows of the series that are measured in every round.
	control []bool
	// tiles remembers how the tile of a kernel lies, by label; see orient.
	tiles map[string][2]int
	// stairs remembers the steps in the times; see stairsOf.
	stairs *stairs
	// choices are the curves of the same library's other choices at the same
	// products; witness is true for one that is not judged itself. See linkChoices.
	choices []*curve
	witness bool
}

// mfu returns the MFU of a point with bounds.
func (c *curve) mfu(i int, confidence float64, q quantiles) Interval {
	p := c.points[i]
	t := p.us.interval(confidence, q)
	top := math.Exp(p.flops - c.peak)
	return Interval{top / t.Hi, top / t.Mid, top / t.Lo}
}

// mfuAtClock is the MFU of a point relative to the peak at the clock that the point
// was measured at; zero where that can't be told.
func (c *curve) mfuAtClock(i int, confidence float64, q quantiles) Interval {
	perClock := c.series.Peak.At(1)
	if !c.clocked || perClock <= 0 {
		return Interval{}
	}
	p := c.points[i]
	t := p.cycles.interval(confidence, q) // in cycles: MHz × µs
	top := math.Exp(p.flops) / (perClock / 1e6)
	return Interval{top / t.Hi, top / t.Mid, top / t.Lo}
}

// at finds the point of an M.
func (c *curve) at(m int) (int, bool) {
	return slices.BinarySearchFunc(c.points, m, func(p point, m int) int { return cmp.Compare(p.m, m) })
}

// prepared is a run made ready for the rules.
type prepared struct {
	curves []*curve
	drift  drifts
	// corrected says whether times were divided by the drift.
	corrected bool
	q         quantiles
}

// quantity reads the log of what is judged from a sample; ok is false when the
// sample does not tell it.
type quantity func(results.Sample) (y float64, ok bool)

func logTime(s results.Sample) (float64, bool) { return math.Log(s.US), usable(s) }

func logCycles(s results.Sample) (float64, bool) {
	return math.Log(s.US) + math.Log(s.ClockMHz), usable(s) && s.ClockMHz > 0
}

// prepare turns samples into estimates, in time and, where every sample of a
// series tells its clock, in cycles. Samples are corrected first for the drift
// of the sentinels in the same quantity, where it stands out of their noise and
// that is not too large, and then for what all rows have in common in a round.
func prepare(data Data) *prepared {
	device := data.devices()
	p := &prepared{drift: fitDrifts(data.Sentinels, device, logTime), q: quantiles{}}
	p.corrected = p.drift.corrects()
	total := rowsByDevice(data.Series)
	for _, s := range data.Series {
		c := &curve{series: s, spec: data.spec(s.Key.Device), points: make([]point, 0, len(s.Rows)), control: controls(s, total[s.Key.Device])}
		for i, row := range s.Rows {
			pt := point{row: i, m: row.Case.M, label: row.Case.Label, flops: math.Log(row.Case.Shape().FLOPs())}
			var clocks []float64
			for _, x := range row.Samples {
				if usable(x) {
					pt.n++
					if x.ClockMHz > 0 {
						clocks = append(clocks, x.ClockMHz)
					}
				}
			}
			if pt.n == 0 {
				continue
			}
			if len(clocks) == pt.n {
				pt.clock = median(clocks)
			}
			c.points = append(c.points, pt)
		}
		c.clocked = len(c.points) > 0 && !slices.ContainsFunc(c.points, func(pt point) bool { return pt.clock == 0 })
		p.curves = append(p.curves, c)
	}
	linkChoices(p.curves, witnesses(data.Series))
	p.estimate(p.curves, logTime, p.drift, func(pt *point) *estimate { return &pt.us })
	var clocked []*curve
	for _, c := range p.curves {
		if c.clocked {
			clocked = append(clocked, c)
		}
	}
	if len(clocked) > 0 {
		p.estimate(clocked, logCycles, fitDrifts(data.Sentinels, device, logCycles), func(pt *point) *estimate { return &pt.cycles })
	}
	for _, c := range p.curves {
		if c.peak = math.Log(c.series.Peak.FLOPS / 1e6); c.series.Peak.FLOPS <= 0 {
			c.peak = math.Inf(-1)
			for _, pt := range c.points {
				c.peak = math.Max(c.peak, pt.rate())
			}
		}
	}
	return p
}

// estimate fills in one quantity of all points of the curves. Devices take their
// rounds side by side, each at its own pace, and are corrected each by itself.
func (p *prepared) estimate(curves []*curve, what quantity, d drifts, target func(*point) *estimate) {
	for len(curves) > 0 {
		device, of, rest := curves[0].series.Key.Device, []*curve(nil), []*curve(nil)
		for _, c := range curves {
			if c.series.Key.Device == device {
				of = append(of, c)
			} else {
				rest = append(rest, c)
			}
		}
		estimateDevice(of, what, d[device], target)
		curves = rest
	}
}

// estimateDevice is estimate for the curves of one device.
func estimateDevice(curves []*curve, what quantity, d *drift, target func(*point) *estimate) {
	var y [][]float64
	var rounds [][]int
	var control []bool
	for _, c := range curves {
		for _, pt := range c.points {
			values, at := make([]float64, 0, pt.n), make([]int, 0, pt.n)
			for _, x := range c.series.Rows[pt.row].Samples {
				v, ok := what(x)
				if !ok {
					continue
				}
				if d.corrects() {
					v -= d.at(x.Seq)
				}
				values, at = append(values, v), append(at, x.Round)
			}
			y, rounds = append(y, values), append(rounds, at)
			control = append(control, c.control[pt.row])
		}
	}
	offsets := roundOffsets(y, rounds, control)
	for i := range y {
		for j := range y[i] {
			y[i][j] -= offsets[rounds[i][j]]
		}
	}
	next := 0
	for _, c := range curves {
		pool(c.points, y[next:next+len(c.points)], target)
		next += len(c.points)
	}
}

// pool fills in the estimates of a series' points from their samples.
//
// Five to thirty samples can't tell both where their median lies and how far to
// trust it: order-statistic intervals of five samples don't reach 95 %, and a
// scale from five samples is off by a third. Rows of a series run on the same
// machine for about the same time, so the noise of a row is a weighted mean of
// its own and that of its poolRows neighbours (an empirical-Bayes variance, as
// used for gene expression): the weight of the pool, in degrees of freedom,
// follows from how much more the rows' scales differ than chance would make
// them. The result is compared with Student's t.
func pool(points []point, y [][]float64, target func(*point) *estimate) {
	own := make([]float64, len(points)) // log of a row's own variance
	var scratch []float64
	for i := range points {
		scratch = appendDifferences(scratch[:0], y[i])
		own[i] = 2 * math.Log(math.Max(shamosFactor*selectMedian(scratch), scaleFloor/8))
	}
	for from := 0; from < len(points); from += poolRows {
		to := min(from+poolRows, len(points))
		if to < len(points) && len(points)-to < poolRows/2 {
			to = len(points) // a short tail joins its neighbours
		}
		// The pool's scale is the median over all differences of its rows.
		scratch = scratch[:0]
		var samples, rows float64
		var logs []float64
		for i := from; i < to; i++ {
			scratch = appendDifferences(scratch, y[i])
			if len(y[i]) >= 3 {
				logs = append(logs, own[i])
				samples += float64(len(y[i]))
				rows++
			}
		}
		alone := len(scratch) == 0 // one sample a row: nothing is known of the noise
		common := math.Max(shamosFactor*selectMedian(scratch), scaleFloor)
		prior := 0.0
		if rows > 0 {
			prior = priorDF(logs, shamosDF*(samples/rows-1))
		}
		for i := from; i < to; i++ {
			n := float64(len(y[i]))
			e := target(&points[i])
			e.y, scratch = pseudoMedian(y[i], scratch)
			d := shamosDF * (n - 1)
			variance := common * common
			if d > 0 {
				variance = (prior*variance + d*math.Exp(own[i])) / (prior + d)
			}
			e.se = centreFactor * math.Max(math.Sqrt(variance), scaleFloor) / math.Sqrt(n)
			if alone {
				e.se = 0
			}
			e.df = math.Max(1, math.Min(prior+d, tailIndex*(n+1)))
		}
		if to == len(points) {
			break
		}
	}
}

// priorDF estimates how many degrees of freedom the pool is worth: the logs of
// rows' variances spread by trigamma(d/2) when all rows share one variance, and
// by trigamma(prior/2) more when each draws its own. The spread is a robust
// one, so that few odd rows do not take the pool from all the others.
func priorDF(logs []float64, d float64) float64 {
	if len(logs) < 8 || d <= 0 {
		return priorMax / 4
	}
	centre := median(logs)
	spread := make([]float64, len(logs))
	for i, v := range logs {
		spread[i] = math.Abs(v - centre)
	}
	sigma := 1.4826 * median(spread)
	excess := sigma*sigma - mathext.Zeta(2, d/2) // trigamma(x) = ζ(2, x)
	if excess <= 0 {
		return priorMax
	}
	lo, hi := 0.5, float64(priorMax)
	if mathext.Zeta(2, hi/2) >= excess {
		return hi
	}
	for range 40 { // trigamma falls: bisect
		mid := (lo + hi) / 2
		if mathext.Zeta(2, mid/2) > excess {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}
