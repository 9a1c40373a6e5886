package infer

import (
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Estimates are the curves of a run with estimated times, and what the estimates rest on.
type Estimates struct {
	Curves []*Curve
	// Drift is by device.
	Drift Drifts
	// Clocks are the devices' reference clocks in MHz; Paced are the devices whose times were adjusted by the
	// pace of the blocks nearest in time.
	Clocks map[string]float64
	Paced  map[string]bool
	// levels are the uncertainties of the devices' usual moments.
	levels  map[string]stats.Estimate
	Scatter map[string]Scatter
	// Looks is the least number of looks at the samples that verdicts pay for.
	Looks int
	// Planned is how many looks the sweep's plan allows, 0 if unknown.
	Planned   int
	Quantiles stats.Quantiles
}

// Prepare turns samples into two estimates: the time at the common clock, for judging, and the observed time.
func Prepare(data Data, cfg Basis) *Estimates {
	p := PrepareAt(data, ReferenceClocks(data, cfg))
	p.Planned = data.Looks
	for _, c := range p.Curves {
		c.CompareLevels()
		if len(data.Sentinels) == 0 {
			c.place(cfg.MinSamples)
		}
	}
	p.inferRows(data, cfg)
	for _, c := range p.Curves {
		c.weigh(data)
	}
	return p
}

// PrepareAt estimates times at the given clocks, by device id, in MHz. No row is inferred.
func PrepareAt(data Data, clocks map[string]float64) *Estimates {
	return prepareBy(data, clocks, tellScatter, false)
}

// PreparePairs is [PrepareAt], and keeps the samples of each point for [PairRounds].
func PreparePairs(data Data, clocks map[string]float64) *Estimates {
	return prepareBy(data, clocks, tellScatter, true)
}

// PrepareCentred is [PrepareAt] with the center of a row's samples as its time, even if noise only delays.
func PrepareCentred(data Data, clocks map[string]float64) *Estimates {
	return prepareBy(data, clocks, func([]float64) Scatter { return Scatter{Location: LocationCentre} }, false)
}

func prepareBy(data Data, clocks map[string]float64, scatter func(residuals []float64) Scatter, keep bool) *Estimates {
	device, specs := data.devices(), data.Specs()
	p := &Estimates{Clocks: clocks, Paced: map[string]bool{}, levels: map[string]stats.Estimate{}, Scatter: map[string]Scatter{},
		Quantiles: stats.Quantiles{}}
	total := RowsByDevice(data.Series)
	var order []string
	curves := map[string][]*Curve{}
	p.Curves = make([]*Curve, len(data.Series))
	stats.Each(len(data.Series), func(k int) {
		s := data.Series[k]
		c := &Curve{Series: s, Spec: specs(s.Key.Device), Command: data.Meta.Command, Points: make([]Point, 0, len(s.Rows)),
			Control: Controls(s, total[s.Key.Device]), Reference: p.Clocks[s.Key.Device], Clocked: true}
		for i := range s.Rows {
			row := &s.Rows[i]
			pt := Point{Row: i, M: row.Case.M, Label: row.Case.Label, Launch: row.Case.Launch, Flops: math.Log(row.Case.FLOPs())}
			for j := range row.Samples {
				if x := &row.Samples[j]; x.Usable() {
					pt.N++
					c.Clocked = c.Clocked && clocked(x)
				}
			}
			if pt.N > 0 {
				c.Points = append(c.Points, pt)
			}
		}
		c.Clocked = c.Clocked && len(c.Points) > 0 && c.Reference > 0
		p.Curves[k] = c
	})
	for _, c := range p.Curves {
		id := c.Series.Key.Device
		if curves[id] == nil {
			order = append(order, id)
		}
		curves[id] = append(curves[id], c)
	}
	linkChoices(p.Curves, FurtherChoices(data.Series))
	sentinels := byDevice(slices.DeleteFunc(slices.Clone(data.Sentinels), func(s results.Sample) bool { return !s.Usable() }), device)
	for _, id := range order {
		var level stats.Estimate
		if p.Scatter[id], level, p.Paced[id] = estimateDevice(curves[id], sentinels[id], scatter, keep); p.Paced[id] {
			p.levels[id] = level
		}
	}
	p.Drift = fitDrifts(data.Sentinels, device, p.Scatter)
	for _, c := range p.Curves {
		if c.Peak = math.Log(c.Series.Peak.FLOPS / 1e6); c.Series.Peak.FLOPS <= 0 {
			c.Peak = math.Inf(-1)
			for _, pt := range c.Points {
				c.Peak = math.Max(c.Peak, pt.Rate())
			}
		}
	}
	return p
}

func (c *Curve) read(out []track) {
	total := 0
	for i := range c.Points {
		total += c.Points[i].N
	}
	all := track{y: make([]float64, total), x: make([]float64, total), lost: make([]float64, total), seq: make([]int64, total),
		round: make([]int, total)}
	from := 0
	for i := range c.Points {
		pt := &c.Points[i]
		to := from + pt.N
		t := track{y: all.y[from:from:to], x: all.x[from:from:to], lost: all.lost[from:from:to], seq: all.seq[from:from:to],
			round: all.round[from:from:to]}
		from = to
		samples := c.Series.Rows[pt.Row].Samples
		for j := range samples {
			s := &samples[j]
			if !s.Usable() {
				continue
			}
			x := 0.0
			if c.Clocked {
				x = math.Log(s.ClockMHz / c.Reference)
			}
			t.y, t.x, t.seq, t.round = append(t.y, math.Log(s.US)), append(t.x, x), append(t.seq, s.Seq), append(t.round, s.Round)
			t.lost = append(t.lost, waited(s))
		}
		out[i] = t
	}
}

// estimateDevice fills in the estimates of one device's curves. It returns how their samples scatter, the
// uncertainty of the device's usual moment, and whether times were adjusted by the pace. Devices run their
// rounds in parallel, each at its own pace, so each is adjusted separately. With keep, points keep their samples.
func estimateDevice(curves []*Curve, sentinels []results.Sample, scatter func([]float64) Scatter,
	keep bool) (s Scatter, level stats.Estimate, paced bool) {
	total := 0
	for _, c := range curves {
		total += len(c.Points)
	}
	rows, control := make([]track, total), make([]bool, 0, total)
	tracks := make([][]track, len(curves)) // the rows by curve
	for k, c := range curves {
		from := len(control)
		for i := range c.Points {
			control = append(control, c.Control[c.Points[i].Row])
		}
		tracks[k] = rows[from:len(control):len(control)]
	}
	stats.Each(len(curves), func(k int) {
		c := curves[k]
		c.read(tracks[k])
		y := func(i int) []float64 { return tracks[k][i].y }
		seen := func(p *Point) *stats.Estimate { return &p.Seen }
		if scatter(residuals(tracks[k])).Low() {
			locate(c.Points, y, false, seen)
		} else {
			var scratch []float64
			for i := range c.Points {
				c.Points[i].Seen.Y, scratch = stats.Centre(tracks[k][i].y, scratch)
			}
			pool(c.Points, y, seen)
		}
		for i, t := range tracks[k] {
			c.Points[i].US.SE = t.subtractLost()
			if keep {
				c.Points[i].taken = &taken{track: t, clock: slices.Clone(t.x), clocked: c.Clocked}
			}
		}
		if !c.Clocked {
			return
		}
		betas := elasticities(tracks[k])
		var scratch []float64
		for i, t := range tracks[k] {
			pt := &c.Points[i]
			pt.Elastic, pt.Away = betas[i], away(t.x)
			scratch = append(scratch[:0], t.x...)
			pt.Clock = c.Reference * math.Exp(stats.MedianInPlace(scratch))
			distance := math.Abs(stats.Mean(t.x))
			pt.US.SE = math.Hypot(pt.US.SE, distance*betas[i].SE)
			if pt.Away {
				// Neither end of β's physical range is ruled out by samples this far away.
				pt.US.Open += distance * math.Max(betas[i].Beta, 1-betas[i].Beta)
			}
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
		stats.Each(len(curves), func(k int) {
			for i, e := range elasticities(tracks[k]) {
				pt := &curves[k].Points[i]
				pt.US.SE = math.Hypot(pt.US.SE, math.Abs(stats.Mean(tracks[k][i].x))*e.SE)
				tracks[k][i].adjust(e)
				if keep {
					pt.taken.pace = e
				}
			}
		})
	}
	unexplained := leftOver(blocks, p, paced, s)
	stats.Each(len(curves), func(k int) {
		c := curves[k]
		y := func(i int) []float64 { return tracks[k][i].y }
		adjusted := make([]float64, len(c.Points)) // the errors of the adjustments
		for i := range c.Points {
			pt := &c.Points[i]
			pt.US.SE = math.Hypot(pt.US.SE, unexplained.over(pt.N))
			adjusted[i] = pt.US.SE
		}
		if s.Low() {
			// A delayed block is not a second level.
			locate(c.Points, y, true, func(p *Point) *stats.Estimate { return &p.US })
			// Delays look like levels only if they are all equally long.
			if levels != nil && levels[k] > 0 {
				c.tellLevels(levels[k], adjusted, y)
				return
			}
			trial := slices.Clone(c.Points)
			tellModes(trial, pool(trial, y, func(p *Point) *stats.Estimate { return &p.US }), y)
			c.Flips = flipsOf(trial)
			return
		}
		var f folder
		for i := range c.Points {
			c.Points[i].US.Y = f.fold(&c.Points[i], y(i))
		}
		scales := pool(c.Points, y, func(p *Point) *stats.Estimate { return &p.US })
		if levels != nil && levels[k] > 0 {
			c.tellLevels(levels[k], adjusted, y)
			return
		}
		tellModes(c.Points, scales, y)
		c.Flips = flipsOf(c.Points)
		tellFloors(c.Points, scales, y)
	})
	return s, level, paced
}
