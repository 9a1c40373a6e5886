package rules

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"gonum.org/v1/gonum/mathext"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// estimate is what a row's samples say of one quantity: the centre of its log
// (see [centre]), with the standard error and degrees of freedom of
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
	row   int // index into Series.Rows; -1 for an inferred row
	m     int
	label string
	// launch is how the kernel runs, as far as that is known.
	launch results.Launch
	n      int     // usable samples
	flops  float64 // log of the product's FLOPs
	// us is log of microseconds at the common clock, seen the same as it was
	// observed.
	us, seen estimate
	// elastic is how the row's time follows the clock; clock is the median of its
	// samples' in MHz, 0 where unknown.
	elastic elasticity
	clock   float64
	// away is true when all samples were taken too far from the common clock.
	away bool
	// modes are the two levels of a row whose samples fall into two groups, in logs;
	// nil for others.
	modes *modes
	// without[k] is the centre of the samples that fold k leaves, of[k] that of its
	// own; empty for rows with too few samples. See [crossFit].
	without, of [folds]float64
	folded      bool
	// inferred is true of a row that was not measured: its estimates are what the line of
	// its family says.
	inferred bool
}

// judged says whether the point has enough samples for a verdict.
func (p point) judged(least int) bool { return (p.n >= least || p.inferred) && !p.away }

// serves says whether other rows may be held against the point: one with two
// levels has no time of its own.
func (p point) serves(least int) bool { return p.judged(least) && p.modes == nil }

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
	// clocked is true when every sample tells its clock; reference is the clock that
	// times are brought to, in MHz.
	clocked   bool
	reference float64
	// control marks the rows of the series that are measured in every round.
	control []bool
	// tiles remembers how the tile of a kernel lies, by label; see orient.
	tiles map[string][2]int
	// stairs remembers the steps in the times, by octave of M, and least the least times; see
	// stairsOf and envelope.
	stairs map[int]*stairs
	least  []float64
	// choices are the curves of the same library's other choices at the same
	// products; unjudged is true for one that is not judged itself. See linkChoices.
	choices  []*curve
	unjudged bool
	// inference is how rows that were not measured are inferred, nil where none are; made are the
	// cases of such rows, by point.
	inference *inference
	made      map[int]*results.Case
	// fitted are the families of a curve of which every row was measured; see lines.
	fitted []*fitted
	// floor is that of the host; nil where rows lie on none.
	floor *HostFloor
	// flips are the two levels that many rows have in common; nil where few have two.
	flips *modes
	// weights are those of traffic by M; nil where nothing is known of it.
	weights map[int]float64
}

// mfuOf is the MFU that an estimated time of a point stands for, with bounds.
func (c *curve) mfuOf(i int, us estimate, confidence float64, q quantiles) Interval {
	t := us.interval(confidence, q)
	top := math.Exp(c.points[i].flops - c.peak)
	return Interval{top / t.Hi, top / t.Mid, top / t.Lo}
}

// mfuAtClock is the MFU of a point relative to the peak at the common clock; zero
// where that can't be told.
func (c *curve) mfuAtClock(i int, confidence float64, q quantiles) Interval {
	perClock := c.series.Peak.At(1)
	if !c.clocked || perClock <= 0 {
		return Interval{}
	}
	p := c.points[i]
	t := p.us.interval(confidence, q)
	top := math.Exp(p.flops) / (perClock / 1e6 * c.reference)
	return Interval{top / t.Hi, top / t.Mid, top / t.Lo}
}

// at finds the point of an M.
func (c *curve) at(m int) (int, bool) {
	// Points are large: a search with a comparison of them would copy each.
	lo, hi := 0, len(c.points)
	for lo < hi {
		if middle := (lo + hi) / 2; c.points[middle].m < m {
			lo = middle + 1
		} else {
			hi = middle
		}
	}
	return lo, lo < len(c.points) && c.points[lo].m == m
}

// prepared is a run made ready for the rules.
type prepared struct {
	curves []*curve
	drift  drifts
	// clocks are the devices' reference clocks in MHz, and paced the devices whose times were
	// adjusted by the pace of the blocks nearest in time.
	clocks map[string]float64
	paced  map[string]bool
	// scatter is how the devices' samples scatter.
	scatter map[string]Scatter
	// looks is the least number of looks at the samples that verdicts pay for.
	looks int
	// planned is how many looks the sweep's plan allows, 0 where that is not known.
	planned int
	q       quantiles
}

// prepare turns samples into estimates: of the time at the common clock, by which
// rows are judged, and of the time as it was observed.
func prepare(data Data, cfg Config) *prepared {
	p := prepareAt(data, referenceClocks(data, cfg))
	p.planned = data.Looks
	p.inferRows(data, cfg)
	for _, c := range p.curves {
		c.weigh(data.Traffic)
	}
	return p
}

// prepareAt is prepare with the clocks, in MHz, that the devices' times are brought to.
func prepareAt(data Data, clocks map[string]float64) *prepared {
	return prepareBy(data, clocks, tellScatter)
}

// prepareCentred is prepareAt with the centre as the location of every row, however samples scatter.
func prepareCentred(data Data, clocks map[string]float64) *prepared {
	return prepareBy(data, clocks, func([]float64) Scatter { return Scatter{Location: LocationCentre} })
}

// prepareBy is prepareAt with the test of how residuals scatter.
func prepareBy(data Data, clocks map[string]float64, scatter func(residuals []float64) Scatter) *prepared {
	device, specs := data.devices(), data.specs()
	p := &prepared{clocks: clocks, paced: map[string]bool{}, scatter: map[string]Scatter{}, q: quantiles{}}
	total := rowsByDevice(data.Series)
	var order []string
	curves := map[string][]*curve{}
	p.curves = make([]*curve, len(data.Series))
	each(len(data.Series), func(k int) {
		s := data.Series[k]
		c := &curve{series: s, spec: specs(s.Key.Device), points: make([]point, 0, len(s.Rows)),
			control: controls(s, total[s.Key.Device]), reference: p.clocks[s.Key.Device], clocked: true}
		for i := range s.Rows {
			row := &s.Rows[i]
			pt := point{row: i, m: row.Case.M, label: row.Case.Label, launch: row.Case.Launch, flops: math.Log(row.Case.FLOPs())}
			for j := range row.Samples {
				if x := &row.Samples[j]; usable(x) {
					pt.n++
					c.clocked = c.clocked && clocked(x)
				}
			}
			if pt.n > 0 {
				c.points = append(c.points, pt)
			}
		}
		c.clocked = c.clocked && len(c.points) > 0 && c.reference > 0
		p.curves[k] = c
	})
	for _, c := range p.curves {
		id := c.series.Key.Device
		if curves[id] == nil {
			order = append(order, id)
		}
		curves[id] = append(curves[id], c)
	}
	linkChoices(p.curves, furtherChoices(data.Series))
	sentinels := byDevice(slices.DeleteFunc(slices.Clone(data.Sentinels), func(s results.Sample) bool { return !usable(&s) }), device)
	for _, id := range order {
		p.scatter[id], p.paced[id] = estimateDevice(curves[id], sentinels[id], scatter)
	}
	p.drift = fitDrifts(data.Sentinels, device, p.scatter)
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

// read reads the samples of a curve's points into out: log-times, and the log of their
// clocks over the reference where every sample of the curve tells its clock.
func (c *curve) read(out []track) {
	total := 0
	for i := range c.points {
		total += c.points[i].n
	}
	all := track{y: make([]float64, total), x: make([]float64, total), lost: make([]float64, total), seq: make([]int64, total), round: make([]int, total)}
	from := 0
	for i := range c.points {
		pt := &c.points[i]
		to := from + pt.n
		t := track{y: all.y[from:from:to], x: all.x[from:from:to], lost: all.lost[from:from:to], seq: all.seq[from:from:to], round: all.round[from:from:to]}
		from = to
		samples := c.series.Rows[pt.row].Samples
		for j := range samples {
			s := &samples[j]
			if !usable(s) {
				continue
			}
			x := 0.0
			if c.clocked {
				x = math.Log(s.ClockMHz / c.reference)
			}
			t.y, t.x, t.seq, t.round = append(t.y, math.Log(s.US)), append(t.x, x), append(t.seq, s.Seq), append(t.round, s.Round)
			t.lost = append(t.lost, waited(s))
		}
		out[i] = t
	}
}

// estimateDevice fills in the estimates of one device's curves and says how their samples
// scatter, and whether times were adjusted by the pace of the machine. Devices take their rounds side
// by side, each at its own pace, and are adjusted each by itself.
func estimateDevice(curves []*curve, sentinels []results.Sample, scatter func([]float64) Scatter) (s Scatter, paced bool) {
	total := 0
	for _, c := range curves {
		total += len(c.points)
	}
	rows, control := make([]track, total), make([]bool, 0, total)
	tracks := make([][]track, len(curves)) // the rows by curve
	for k, c := range curves {
		from := len(control)
		for i := range c.points {
			control = append(control, c.control[c.points[i].row])
		}
		tracks[k] = rows[from:len(control):len(control)]
	}
	each(len(curves), func(k int) {
		c := curves[k]
		c.read(tracks[k])
		y := func(i int) []float64 { return tracks[k][i].y }
		seen := func(p *point) *estimate { return &p.seen }
		if scatter(residuals(tracks[k])).low() {
			locate(c.points, y, false, seen)
		} else {
			var scratch []float64
			for i := range c.points {
				c.points[i].seen.y, scratch = centre(tracks[k][i].y, scratch)
			}
			pool(c.points, y, seen)
		}
		for i, t := range tracks[k] {
			c.points[i].us.se = t.subtractLost()
		}
		if !c.clocked {
			return
		}
		betas := elasticities(tracks[k])
		var scratch []float64
		for i, t := range tracks[k] {
			pt := &c.points[i]
			pt.elastic, pt.away = betas[i], away(t.x)
			scratch = append(scratch[:0], t.x...)
			pt.clock = c.reference * math.Exp(spoiledMedian(scratch))
			pt.us.se = math.Hypot(pt.us.se, math.Abs(meanOf(t.x))*betas[i].se)
			t.adjust(betas[i])
		}
	})
	// What is left that blocks near in time have in common is the machine's too: a clock
	// that nobody tells, memory that slows down, neighbours.
	for i := range rows {
		clear(rows[i].x)
	}
	s = scatter(residuals(rows))
	blocks := sentinelBlocks(sentinels, s)
	p := newPace(rows, control, blocks, s)
	if paced = p.follow(rows); paced {
		each(len(curves), func(k int) {
			for i, e := range elasticities(tracks[k]) {
				pt := &curves[k].points[i]
				pt.us.se = math.Hypot(pt.us.se, math.Abs(meanOf(tracks[k][i].x))*e.se)
				tracks[k][i].adjust(e)
			}
		})
	}
	unexplained := leftOver(blocks, p, paced, s)
	each(len(curves), func(k int) {
		c := curves[k]
		y := func(i int) []float64 { return tracks[k][i].y }
		for i := range c.points {
			pt := &c.points[i]
			pt.us.se = math.Hypot(pt.us.se, unexplained.over(pt.n))
		}
		if s.low() {
			// A block that was delayed is no second level.
			locate(c.points, y, true, func(p *point) *estimate { return &p.us })
			// Delays look like levels only where they are all as long.
			trial := slices.Clone(c.points)
			tellModes(trial, pool(trial, y, func(p *point) *estimate { return &p.us }), y)
			c.flips = flipsOf(trial)
			return
		}
		var f folder
		for i := range c.points {
			c.points[i].us.y = f.fold(&c.points[i], y(i))
		}
		scales := pool(c.points, y, func(p *point) *estimate { return &p.us })
		tellModes(c.points, scales, y)
		c.flips = flipsOf(c.points)
	})
	return s, paced
}

// each runs f for 0 to n−1 on all processors.
func each(n int, f func(int)) {
	workers := min(runtime.GOMAXPROCS(0), n)
	var next atomic.Int64
	var wait sync.WaitGroup
	for range workers {
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wait.Wait()
}

// pool fills in how far the centres of a series' points are to be trusted, from their
// log-times, and returns the rows' own standard deviations. A standard error that stands in a
// target beforehand is that of the adjustment, and adds.
//
// Five to thirty samples can't tell both where their median lies and how far to
// trust it: order-statistic intervals of five samples don't reach 95 %, and a
// scale from five samples is off by a third. Rows of a series run on the same
// machine for about the same time, so the noise of a row is a weighted mean of
// its own and that of its poolRows neighbours (an empirical-Bayes variance, as
// used for gene expression): the weight of the pool, in degrees of freedom,
// follows from how much more the rows' scales differ than chance would make
// them. The result is compared with Student's t.
func pool(points []point, y func(int) []float64, target func(*point) *estimate) (scales []float64) {
	scales = make([]float64, len(points))
	own := make([]float64, len(points)) // log of a row's own variance
	var scratch, logs []float64
	for i := range points {
		scratch = appendDifferences(scratch[:0], y(i))
		scales[i] = shamosFactor * selectMedian(scratch)
		own[i] = 2 * math.Log(math.Max(scales[i], scaleFloor/8))
	}
	for from := 0; from < len(points); from += poolRows {
		to := min(from+poolRows, len(points))
		if to < len(points) && len(points)-to < poolRows/2 {
			to = len(points) // a short tail joins its neighbours
		}
		// The pool's scale is the median over all differences of its rows.
		scratch = scratch[:0]
		var samples, rows float64
		logs = logs[:0]
		for i := from; i < to; i++ {
			v := y(i)
			scratch = appendDifferences(scratch, v)
			if len(v) >= 3 {
				logs = append(logs, own[i])
				samples += float64(len(v))
				rows++
			}
		}
		single := len(scratch) == 0 // one sample a row: nothing is known of the noise
		common := math.Max(shamosFactor*selectMedian(scratch), scaleFloor)
		prior := 0.0
		if rows > 0 {
			prior = priorDF(logs, shamosDF*(samples/rows-1))
		}
		for i := from; i < to; i++ {
			v := y(i)
			n := float64(len(v))
			e := target(&points[i])
			d := shamosDF * (n - 1)
			variance := common * common
			if d > 0 {
				variance = (prior*variance + d*math.Exp(own[i])) / (prior + d)
			}
			e.se = math.Hypot(e.se, centreFactor*math.Max(math.Sqrt(variance), scaleFloor)/math.Sqrt(n))
			if single {
				e.se = 0
			}
			e.df = math.Max(1, math.Min(prior+d, tailIndex*(n+1)))
		}
		if to == len(points) {
			break
		}
	}
	return scales
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
