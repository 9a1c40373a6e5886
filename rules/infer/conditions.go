package infer

import (
	"maps"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

const (
	// orderRows is the least number of rows in a round for checking its order. orderLimit is the least
	// correlation between M and time of measurement, in all rounds alike, that counts as sorted.
	orderRows  = 16
	orderLimit = 0.5
)

// blockTimes are the lengths of all blocks of a device in microseconds, ascending.
func blockTimes(series []results.Series, device string) []float64 {
	blocks := make([]float64, 0, samplesOf(series, device))
	eachSample(series, device, func(x *results.Sample) {
		if x.Usable() {
			blocks = append(blocks, x.US*float64(max(x.Launches, 1)))
		}
	})
	slices.Sort(blocks)
	return blocks
}

// timerStep is the resolution of a timer in microseconds, from ascending block times: the largest step that
// divides nearly all of them, or 0.
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

// Ordered reports whether most rounds measured the rows of a series in ascending or descending M: then drift
// can't be separated from the effect of M. correlation is the mean over rounds of the rank correlation of M
// and time of measurement.
func Ordered(s results.Series) (correlation float64, is bool) {
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
	for _, round := range slices.Sorted(maps.Keys(rounds)) { // sums of floats depend on their order
		of := rounds[round]
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

// Round makes verdicts undecided if the times of rows lie within one step of their device's timer. A row that
// scatters by less than the step rounds to the same value every time, so more samples don't help. For a row
// that scatters by more, rounding is just additional noise.
func (p *Estimates) Round(timers map[string]Timer) {
	for _, c := range p.Curves {
		step := timers[c.Series.Key.Device].Step
		if step == 0 {
			continue
		}
		var blocks []float64
		for i := range c.Points {
			pt := &c.Points[i]
			if pt.Inferred {
				continue
			}
			blocks = blocks[:0]
			for j := range c.Series.Rows[pt.Row].Samples {
				if s := &c.Series.Rows[pt.Row].Samples[j]; s.Usable() {
					blocks = append(blocks, s.US*float64(max(s.Launches, 1)))
				}
			}
			mean, squares := stats.Mean(blocks), 0.0
			for _, b := range blocks {
				squares += (b - mean) * (b - mean)
			}
			// Scatter estimated from few samples may be too large by a third.
			sigma := 0.7 * math.Sqrt(squares/float64(max(1, len(blocks)-1))) / step
			open := step / 2 / mean * math.Exp(-2*math.Pi*math.Pi*sigma*sigma)
			pt.US.Open, pt.Seen.Open = pt.US.Open+open, pt.Seen.Open+open
		}
	}
}

// Conditions are properties of the measurement that limit verdicts.
type Conditions struct {
	// Correlation of M and the time of measurement by series, 0 if the order was random.
	Correlation []float64
	Timers      map[string]Timer
}

// Timer is the step of a device's timer, or 0, and the median length of its blocks, both in microseconds.
type Timer struct{ Step, Usual float64 }

// ReadConditions reads the conditions off the samples of a run.
func ReadConditions(series []results.Series) Conditions {
	found := Conditions{Correlation: make([]float64, len(series)), Timers: map[string]Timer{}}
	for i, s := range series {
		if correlation, is := Ordered(s); is {
			found.Correlation[i] = correlation
		}
		id := s.Key.Device
		if _, seen := found.Timers[id]; seen {
			continue
		}
		blocks := blockTimes(series, id)
		t := Timer{Step: timerStep(blocks)}
		if t.Step > 0 {
			t.Usual = blocks[len(blocks)/2]
		}
		found.Timers[id] = t
	}
	return found
}
