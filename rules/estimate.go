package rules

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Constants of the noise of rows; see [pool].
const (
	// scaleFloor is the lower limit of noise, as a share of the time. Rows that repeat to the last digit were
	// rounded, not exact.
	scaleFloor = 0.0005
	poolRows   = 32
	// aloneLevel is the p-value below which a row's own noise is larger than its neighbors' and not pooled.
	aloneLevel = 0.001
	// tailIndex limits the degrees of freedom of a row's test to tailIndex·(n+1). With noise as heavy as
	// Student's t with 3 degrees of freedom, whose scale Shamos' estimator overestimates by a tenth, upper
	// tails down to 1e-4 are then no heavier than the test assumes. A test with simulated noise checks it.
	tailIndex = 3
	// shamosDF is the degrees of freedom of a row's own scale per sample after the first; it is below 1
	// because the scale is robust and noise isn't normal.
	shamosDF = 0.6
)

// point is a row of a series with its estimates.
type point struct {
	row    int // index into Series.Rows; -1 for an inferred row
	m      int
	label  string
	launch results.Launch
	n      int     // usable samples
	flops  float64 // log of the product's FLOPs
	// us is log of microseconds at the common clock, seen the same as observed.
	us, seen stats.Estimate
	// elastic is the elasticity of the row's time in the clock; clock is the median of its samples' in MHz, 0
	// if unknown.
	elastic elasticity
	clock   float64
	away    bool
	// modes are the two levels, in logs, of a bimodal row; nil for others.
	modes *modes
	// like is the time at the faster level, for rows of a curve that moves between two levels; nil for
	// others.
	like *likeTime
	// floor is the low quantile of a row that scatters more than others, if such rows scatter to one side;
	// nil for others.
	floor *stats.Estimate
	alone bool
	// without[k] is the center of the samples without fold k, of[k] of fold k alone; empty for rows with too
	// few samples. See [crossFit].
	without, of [stats.Folds]float64
	folded      bool
	// inferred is true for a row that was not measured: its estimates are predictions of its family's line.
	inferred bool
}

func (p point) judged(least int) bool { return (p.n >= least || p.inferred) && !p.away }

// serves reports whether the point can be a reference. A bimodal row can't, because it has no single time.
func (p point) serves(least int) bool { return p.judged(least) && (p.modes == nil || p.like != nil) }

// rate is the log of FLOP per microsecond.
func (p point) rate() float64 { return p.flops - p.us.Y }

// curve is a series with its estimates. Rows that failed or have no usable sample are not among its points.
type curve struct {
	series results.Series
	spec   kernels.Spec
	points []point
	// peak is log of FLOP per microsecond at MFU 1.
	peak float64
	// clocked is true if every sample has a clock; reference is the clock in MHz that times are adjusted to.
	clocked   bool
	reference float64
	control   []bool
	// tiles caches the orientation of a kernel's tile, by label; see orient.
	tiles map[string][2]int
	// stairs caches the steps in the times, by octave of M, and least the least times; see stairsOf and
	// envelope.
	stairs map[int]*stairs
	least  []float64
	// choices are the curves of the same library's other choices at the same products; unjudged is true for a
	// curve that is not judged itself. See linkChoices.
	choices  []*curve
	unjudged bool
	// inference describes the inferred rows, or nil; made are the cases of such rows, by point.
	inference *inference
	made      map[int]*results.Case
	fitted    []*fitted
	// floor is the host's floor; nil if no row lies on it.
	floor *HostFloor
	// flips are the two levels that many rows share; nil if few rows are bimodal.
	flips *modes
	// placed describes the effect of time on the curve's rows; nil if the order changed every round.
	placed  *placing
	weights map[int]float64
}

func (c *curve) mfuOf(i int, us stats.Estimate, confidence float64, q stats.Quantiles) stats.Interval {
	t := us.Interval(confidence, q)
	top := math.Exp(c.points[i].flops - c.peak)
	return stats.Interval{Lo: top / t.Hi, Mid: top / t.Mid, Hi: top / t.Lo}
}

// mfuAtClock is the MFU of a point relative to the peak at the common clock; zero if a clock is unknown.
func (c *curve) mfuAtClock(i int, confidence float64, q stats.Quantiles) stats.Interval {
	perClock := c.series.Peak.At(1)
	if !c.clocked || perClock <= 0 {
		return stats.Interval{}
	}
	p := c.points[i]
	t := p.us.Interval(confidence, q)
	top := math.Exp(p.flops) / (perClock / 1e6 * c.reference)
	return stats.Interval{Lo: top / t.Hi, Mid: top / t.Mid, Hi: top / t.Lo}
}

func (c *curve) at(m int) (int, bool) {
	// Points are large, so a search by comparing values would copy each one.
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

type prepared struct {
	curves []*curve
	drift  drifts
	// clocks are the devices' reference clocks in MHz; paced are the devices whose times were adjusted by the
	// pace of the blocks nearest in time.
	clocks map[string]float64
	paced  map[string]bool
	// levels are the uncertainties of the devices' usual moments.
	levels  map[string]stats.Estimate
	scatter map[string]Scatter
	// looks is the least number of looks at the samples that verdicts pay for.
	looks int
	// planned is how many looks the sweep's plan allows, 0 if unknown.
	planned int
	q       stats.Quantiles
}

// prepare turns samples into two estimates: the time at the common clock, for judging, and the observed time.
func prepare(data Data, cfg Basis) *prepared {
	p := prepareAt(data, referenceClocks(data, cfg))
	p.planned = data.Looks
	for _, c := range p.curves {
		c.compareLevels()
		if len(data.Sentinels) == 0 {
			c.place(cfg.MinSamples)
		}
	}
	p.inferRows(data, cfg)
	for _, c := range p.curves {
		c.weigh(data)
	}
	return p
}

func prepareAt(data Data, clocks map[string]float64) *prepared {
	return prepareBy(data, clocks, tellScatter)
}

func prepareCentred(data Data, clocks map[string]float64) *prepared {
	return prepareBy(data, clocks, func([]float64) Scatter { return Scatter{Location: LocationCentre} })
}

func prepareBy(data Data, clocks map[string]float64, scatter func(residuals []float64) Scatter) *prepared {
	device, specs := data.devices(), data.specs()
	p := &prepared{clocks: clocks, paced: map[string]bool{}, levels: map[string]stats.Estimate{}, scatter: map[string]Scatter{},
		q: stats.Quantiles{}}
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
	linkChoices(p.curves, FurtherChoices(data.Series))
	sentinels := byDevice(slices.DeleteFunc(slices.Clone(data.Sentinels), func(s results.Sample) bool { return !usable(&s) }), device)
	for _, id := range order {
		var level stats.Estimate
		if p.scatter[id], level, p.paced[id] = estimateDevice(curves[id], sentinels[id], scatter); p.paced[id] {
			p.levels[id] = level
		}
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

func (c *curve) read(out []track) {
	total := 0
	for i := range c.points {
		total += c.points[i].n
	}
	all := track{y: make([]float64, total), x: make([]float64, total), lost: make([]float64, total), seq: make([]int64, total),
		round: make([]int, total)}
	from := 0
	for i := range c.points {
		pt := &c.points[i]
		to := from + pt.n
		t := track{y: all.y[from:from:to], x: all.x[from:from:to], lost: all.lost[from:from:to], seq: all.seq[from:from:to],
			round: all.round[from:from:to]}
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

// estimateDevice fills in the estimates of one device's curves. It returns how their samples scatter, the
// uncertainty of the device's usual moment, and whether times were adjusted by the pace. Devices run their
// rounds in parallel, each at its own pace, so each is adjusted separately.
func estimateDevice(curves []*curve, sentinels []results.Sample,
	scatter func([]float64) Scatter) (s Scatter, level stats.Estimate, paced bool) {
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
		seen := func(p *point) *stats.Estimate { return &p.seen }
		if scatter(residuals(tracks[k])).low() {
			locate(c.points, y, false, seen)
		} else {
			var scratch []float64
			for i := range c.points {
				c.points[i].seen.Y, scratch = stats.Centre(tracks[k][i].y, scratch)
			}
			pool(c.points, y, seen)
		}
		for i, t := range tracks[k] {
			c.points[i].us.SE = t.subtractLost()
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
			pt.clock = c.reference * math.Exp(stats.MedianInPlace(scratch))
			pt.us.SE = math.Hypot(pt.us.SE, math.Abs(stats.Mean(t.x))*betas[i].se)
			t.adjust(betas[i])
		}
	})
	// Residuals shared by blocks near in time come from the machine too: an unreported clock, slower memory,
	// other processes.
	for i := range rows {
		clear(rows[i].x)
	}
	s = scatter(residuals(rows))
	blocks := sentinelBlocks(sentinels, s)
	p := newPace(rows, control, blocks, s)
	levels := levelScatters(curves, tracks)
	if levels == nil {
		level, paced = p.follow(rows)
	}
	if paced {
		each(len(curves), func(k int) {
			for i, e := range elasticities(tracks[k]) {
				pt := &curves[k].points[i]
				pt.us.SE = math.Hypot(pt.us.SE, math.Abs(stats.Mean(tracks[k][i].x))*e.se)
				tracks[k][i].adjust(e)
			}
		})
	}
	unexplained := leftOver(blocks, p, paced, s)
	each(len(curves), func(k int) {
		c := curves[k]
		y := func(i int) []float64 { return tracks[k][i].y }
		adjusted := make([]float64, len(c.points)) // the errors of the adjustments
		for i := range c.points {
			pt := &c.points[i]
			pt.us.SE = math.Hypot(pt.us.SE, unexplained.over(pt.n))
			adjusted[i] = pt.us.SE
		}
		if s.low() {
			// A delayed block is not a second level.
			locate(c.points, y, true, func(p *point) *stats.Estimate { return &p.us })
			// Delays look like levels only if they are all equally long.
			if levels != nil && levels[k] > 0 {
				c.tellLevels(levels[k], adjusted, y)
				return
			}
			trial := slices.Clone(c.points)
			tellModes(trial, pool(trial, y, func(p *point) *stats.Estimate { return &p.us }), y)
			c.flips = flipsOf(trial)
			return
		}
		var f folder
		for i := range c.points {
			c.points[i].us.Y = f.fold(&c.points[i], y(i))
		}
		scales := pool(c.points, y, func(p *point) *stats.Estimate { return &p.us })
		if levels != nil && levels[k] > 0 {
			c.tellLevels(levels[k], adjusted, y)
			return
		}
		tellModes(c.points, scales, y)
		c.flips = flipsOf(c.points)
		tellFloors(c.points, scales, y)
	})
	return s, level, paced
}

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

// pool fills in the errors of the centers of a series' points, from their log times, and returns the rows'
// own standard deviations. An error already in a target is the adjustment's, and adds.
//
// Five to thirty samples are too few for both a median and its error. Order-statistic intervals of five
// samples don't reach 95 %, and a scale from five samples is off by a third. Rows of a series run on the same
// machine for about the same time. So the noise of a row is a weighted mean of its own and that of its
// poolRows neighbors (an empirical-Bayes variance, as used for gene expression). The weight of the pool, in
// degrees of freedom, follows from how much more the rows' scales differ than by chance. The result is
// compared with Student's t. A row whose own noise is surely larger than the pool's, at aloneLevel, uses its
// own only.
func pool(points []point, y func(int) []float64, target func(*point) *stats.Estimate) (scales []float64) {
	scales = make([]float64, len(points))
	own := make([]float64, len(points)) // log of a row's own variance
	var scratch, logs []float64
	for i := range points {
		scratch = stats.AppendDifferences(scratch[:0], y(i))
		scales[i] = stats.ShamosFactor * stats.UpperMedianInPlace(scratch)
		own[i] = 2 * math.Log(math.Max(scales[i], scaleFloor/8))
	}
	for from := 0; from < len(points); from += poolRows {
		to := min(from+poolRows, len(points))
		if to < len(points) && len(points)-to < poolRows/2 {
			to = len(points) // a short tail joins its neighbors
		}
		// The pool's scale is the median over all differences of its rows.
		scratch = scratch[:0]
		var samples, rows float64
		logs = logs[:0]
		for i := from; i < to; i++ {
			v := y(i)
			scratch = stats.AppendDifferences(scratch, v)
			if len(v) >= 3 {
				logs = append(logs, own[i])
				samples += float64(len(v))
				rows++
			}
		}
		single := len(scratch) == 0 // one sample per row: the noise is unknown
		common := math.Max(stats.ShamosFactor*stats.UpperMedianInPlace(scratch), scaleFloor)
		prior := 0.0
		if rows > 0 {
			prior = stats.PriorDF(logs, shamosDF*(samples/rows-1))
		}
		var alone struct { // the least ratio of variances at which a row of n samples is judged by its own
			n     int
			ratio float64
		}
		for i := from; i < to; i++ {
			v := y(i)
			n := float64(len(v))
			e := target(&points[i])
			d := shamosDF * (n - 1)
			variance := common * common
			weight := prior
			if d > 0 {
				if prior > 0 && alone.n != len(v) {
					alone.n, alone.ratio = len(v), (distuv.F{D1: d, D2: prior}).Quantile(1-aloneLevel)
				}
				if prior > 0 && math.Exp(own[i]) > variance*alone.ratio && twoModes(slices.Sorted(slices.Values(v)), common) == nil {
					weight, points[i].alone = 0, true // its noise differs from its neighbors'
				}
				variance = (weight*variance + d*math.Exp(own[i])) / (weight + d)
			}
			e.SE = math.Hypot(e.SE, stats.CentreFactor*math.Max(math.Sqrt(variance), scaleFloor)/math.Sqrt(n))
			if single {
				e.SE = 0
			}
			e.DF = math.Max(1, math.Min(weight+d, tailIndex*(n+1)))
		}
		if to == len(points) {
			break
		}
	}
	return scales
}
