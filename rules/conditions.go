package rules

import (
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
)

const (
	// coarseStep is the share of a block's time that a timer's step may be before
	// what rows differ by could be the timer's doing: a tenth of a marginal row's reach.
	coarseStep = marginalReach / 10
	// orderRows is from how many rows of a round on its order is looked at, and
	// orderLimit the correlation of M and time of measurement in all rounds
	// alike from which on it is called ordered.
	orderRows  = 16
	orderLimit = 0.5
)

// blockTimes are the lengths of all blocks of a device in microseconds, ascending.
func blockTimes(series []results.Series, device string) []float64 {
	blocks := make([]float64, 0, samplesOf(series, device))
	eachSample(series, device, func(x *results.Sample) {
		if usable(x) {
			blocks = append(blocks, x.US*float64(max(x.Launches, 1)))
		}
	})
	slices.Sort(blocks)
	return blocks
}

// timerStep is the step of a timer that shows in ascending block times: the largest that
// divides nearly all of them, in microseconds; 0 when there is none.
func timerStep(blocks []float64) float64 {
	if len(blocks) < orderRows {
		return 0
	}
	step := math.Inf(1)
	distinct := 1
	for i := 1; i < len(blocks); i++ {
		if d := blocks[i] - blocks[i-1]; d > 1e-9*blocks[i] {
			step = math.Min(step, d)
			distinct++
		}
	}
	if distinct == 1 {
		return 0
	}
	whole := 0
	for _, b := range blocks {
		if n := b / step; math.Abs(n-math.Round(n)) < 0.02 {
			whole++
		}
	}
	if float64(whole) < 0.95*float64(len(blocks)) || float64(distinct) > 0.9*float64(len(blocks)) && len(blocks) < 1000 {
		return 0
	}
	return step
}

// ordered says whether the rows of a series were measured in the order of M, or against
// it, in most rounds: then a drift is not told from what M does. correlation is that of
// M's rank and the time of measurement, the mean over rounds.
func ordered(s results.Series) (correlation float64, is bool) {
	type sums struct{ n, m, seq, mm, ss, ms float64 }
	rounds := map[int]*sums{}
	for i, r := range s.Rows {
		for j := range r.Samples {
			x := &r.Samples[j]
			of := rounds[x.Round]
			if of == nil {
				of = &sums{}
				rounds[x.Round] = of
			}
			m, seq := float64(i), float64(x.Seq)
			of.n, of.m, of.seq = of.n+1, of.m+m, of.seq+seq
			of.mm, of.ss, of.ms = of.mm+m*m, of.ss+seq*seq, of.ms+m*seq
		}
	}
	var sum, n float64
	for _, of := range rounds {
		variance := (of.mm - of.m*of.m/of.n) * (of.ss - of.seq*of.seq/of.n)
		if of.n < orderRows || variance <= 0 {
			continue
		}
		sum += (of.ms - of.m*of.seq/of.n) / math.Sqrt(variance)
		n++
	}
	if n == 0 {
		return 0, false
	}
	return sum / n, math.Abs(sum/n) > orderLimit
}

// conditions are what the samples themselves show of how they were taken.
type conditions struct {
	// correlation is that of M and the time of measurement by series, 0 for one whose order
	// was random.
	correlation []float64
	// timers are by device.
	timers map[string]timer
}

// timer is the step of a device's timer and the median length of its blocks, in
// microseconds; the step is 0 where none shows.
type timer struct{ step, usual float64 }

// lookAtConditions finds the conditions of a run. It takes long where samples are many.
func lookAtConditions(series []results.Series) conditions {
	found := conditions{correlation: make([]float64, len(series)), timers: map[string]timer{}}
	for i, s := range series {
		if correlation, is := ordered(s); is {
			found.correlation[i] = correlation
		}
		id := s.Key.Device
		if _, seen := found.timers[id]; seen {
			continue
		}
		blocks := blockTimes(series, id)
		t := timer{step: timerStep(blocks)}
		if t.step > 0 {
			t.usual = blocks[len(blocks)/2]
		}
		found.timers[id] = t
	}
	return found
}

// warnConditions tells of what in the samples themselves limits what can be said.
func (a *Audit) warnConditions(p *prepared, found conditions) {
	seen := map[string]bool{}
	for i, c := range p.curves {
		id := c.series.Key.Device
		if correlation := found.correlation[i]; correlation != 0 {
			a.warn(c.series.Key.String(), "the order was not random: M and the time of measurement go together (rank correlation %.2f), so drift can't be separated from the effect of M", correlation)
		}
		if !seen[id] {
			seen[id] = true
			if t := found.timers[id]; t.step > 0 && t.step > coarseStep*t.usual {
				a.warn(id, "the timer is coarse: times are multiples of %s us, %.2g %% of the median block of %s us; longer blocks (--block) would help", figure(t.step), 100*t.step/t.usual, figure(t.usual))
			}
		}
		bimodal, far := 0, 0
		for i := range c.points {
			pt := &c.points[i]
			if pt.modes != nil {
				bimodal++
			}
			if pt.away {
				far++
			}
		}
		if bimodal > 0 {
			a.warn(c.series.Key.String(), "%s with two levels of time each: judged anomalous only where the faster level is, clean only where the slower one is", plural(bimodal, "row"))
		}
		if far > 0 {
			a.warn(c.series.Key.String(), "undecided: %s whose clock stayed more than %.0f %% away from %.0f MHz", plural(far, "row"), 100*clockReach, c.reference)
		}
	}
}
