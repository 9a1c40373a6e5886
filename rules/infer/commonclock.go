package infer

import (
	"math"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Rows are judged by their time at a common clock: log t + β·log(clock ÷ reference). Under a power limit the
// clock varies by some percent within a round, and the effect differs from row to row: β is 1 if arithmetic
// fills the multiprocessors, near 0 if the kernel reads from memory. β is fitted to a row's own samples and
// shrunk towards the β of rows near it in M.
const (
	// clockStep is the rounding of a reference clock in MHz, so two runs of one card usually get the same
	// one.
	clockStep = 50
	// ClockReach is the largest distance, as a share, of a row's samples from the reference clock. The time of a
	// row with all its samples farther away is an extrapolation: its interval covers every β from 0 to 1.
	ClockReach     = 0.05
	elasticityRows = 16
	// elasticitySpread is the lower limit of β's standard deviation between neighbors: even tiles of one
	// kernel depend on memory to different degrees.
	elasticitySpread = 0.02
	// elasticityOwn is by how many standard errors a row's own β may differ from its neighbors' before the
	// neighbors are ignored: the row runs another kernel.
	elasticityOwn = 3
)

// unknownElasticity is the prior of β: uniform from 0 to 1.
var unknownElasticity = Elasticity{0.5, math.Sqrt(1.0 / 12)}

// Elasticity is the share of a clock's change by which a time changes, in logs, with its standard error: 0 if
// memory binds, 1 if the multiprocessors bind.
type Elasticity struct {
	Beta, SE float64
}

// track holds the samples of one row during adjustment, in the order of measurement: y is the log of the time
// in microseconds, x the log of clock ÷ reference, or of the machine's pace.
type track struct {
	y, x  []float64
	lost  []float64 // share of y known to be lost to other processes; see waited
	seq   []int64
	round []int
}

// adjust brings the log times to x = 0.
func (t track) adjust(e Elasticity) {
	for i := range t.y {
		t.y[i] += e.Beta * t.x[i]
	}
}

// subtractLost subtracts lost time from the log times and returns the standard error that this adds to their
// location.
func (t track) subtractLost() (se float64) {
	for i, v := range t.lost {
		t.y[i] -= v
		se += lostDoubt * lostDoubt * v * v
	}
	return math.Sqrt(se) / math.Max(float64(len(t.lost)), 1)
}

// RoundClock rounds a clock in MHz to a multiple of 50.
func RoundClock(mhz float64) float64 { return math.Round(mhz/clockStep) * clockStep }

// ReferenceClocks are the clocks in MHz that the samples of each device are adjusted to. It takes the first
// of: the configuration's, the one that the sweep stored, the sentinels' median, the median of all samples.
// Devices without known clocks are absent.
func ReferenceClocks(data Data, cfg Basis) map[string]float64 {
	return clocksToJudgeAt(data, cfg, func(device string) []float64 { return sweepClocks(data.Series, device) })
}

// clocksToJudgeAt is ReferenceClocks of data whose series may lack samples; swept are the clocks of a device's samples.
func clocksToJudgeAt(data Data, cfg Basis, swept func(device string) []float64) map[string]float64 {
	out := map[string]float64{}
	var sentinels map[string][]float64
	collect := func() {
		sentinels = map[string][]float64{}
		for id, of := range byDevice(data.Sentinels, data.devices()) {
			for _, x := range of {
				if clocked(&x) {
					sentinels[id] = append(sentinels[id], x.ClockMHz)
				}
			}
		}
	}
	asked := map[string]bool{} // ask once, even for a device without a clock
	for _, s := range data.Series {
		id := s.Key.Device
		if asked[id] {
			continue
		}
		asked[id] = true
		switch {
		case cfg.ClockMHz > 0:
			out[id] = cfg.ClockMHz
		case data.Meta.ReferenceClock[id] > 0:
			out[id] = data.Meta.ReferenceClock[id]
		default:
			if sentinels == nil {
				collect()
			}
			clocks := sentinels[id]
			if len(clocks) < knotLeast {
				clocks = swept(id)
			}
			if len(clocks) > 0 {
				out[id] = RoundClock(stats.UpperMedianInPlace(clocks))
			}
		}
	}
	return out
}

// sweepClocks are the clocks in MHz of a device's samples.
func sweepClocks(series []results.Series, device string) []float64 {
	clocks := make([]float64, 0, samplesOf(series, device))
	eachSample(series, device, func(x *results.Sample) {
		if clocked(x) {
			clocks = append(clocks, x.ClockMHz)
		}
	})
	return clocks
}

func eachSample(series []results.Series, device string, each func(*results.Sample)) {
	for _, s := range series {
		if s.Key.Device != device {
			continue
		}
		for _, r := range s.Rows {
			for i := range r.Samples {
				each(&r.Samples[i])
			}
		}
	}
}

func samplesOf(series []results.Series, device string) int {
	n := 0
	for _, s := range series {
		if s.Key.Device != device {
			continue
		}
		for i := range s.Rows {
			n += len(s.Rows[i].Samples)
		}
	}
	return n
}

// elasticities fits β to the rows of one curve, in order of M.
//
// A row's own slope has the error σ/√Sxx. Neighbors in M usually run the same kernel and share its β. So a
// row's slope is shrunk to their median, by its error relative to the spread between them (an empirical-Bayes
// mean). A row keeps its own slope if it is off by more than elasticityOwn errors: it runs another kernel.
func elasticities(rows []track) []Elasticity {
	n := len(rows)
	own, se, known := make([]float64, n), make([]float64, n), make([]bool, n)
	noise := make([]float64, n)
	spread := make([]float64, n)
	var scratch []float64
	var pairs []stats.SlopePair
	for i, t := range rows {
		if own[i], spread[i], known[i] = stats.TheilSen(t.y, t.x, &pairs); !known[i] {
			continue
		}
		scratch = scratch[:0]
		for lag := 1; lag <= min(stats.PairLags, len(t.y)/2); lag++ {
			for j := 0; j+lag < len(t.y); j++ {
				scratch = append(scratch, math.Abs(t.y[j+lag]-t.y[j]+own[i]*(t.x[j+lag]-t.x[j])))
			}
		}
		// Two fitted numbers take two degrees of freedom, differences account for one.
		m := float64(len(t.y))
		noise[i] = stats.ShamosFactor * stats.UpperMedianInPlace(scratch) * math.Sqrt((m-1)/math.Max(m-2, 1))
	}
	out := make([]Elasticity, n)
	var slopes, scales, between, errors []float64
	for i := range rows {
		slopes, scales = slopes[:0], scales[:0]
		lo, hi := max(0, i-elasticityRows), min(n-1, i+elasticityRows)
		for j := lo; j <= hi; j++ {
			if known[j] {
				slopes, scales = append(slopes, own[j]), append(scales, noise[j])
			}
		}
		if len(slopes) == 0 {
			out[i] = unknownElasticity
			continue
		}
		// The scale from a row's few samples is imprecise, so its neighbors' counts as much.
		common := math.Max(stats.UpperMedianInPlace(scales), ScaleFloor)
		near := stats.MedianInPlace(slopes)
		between, errors = between[:0], errors[:0]
		for j := lo; j <= hi; j++ {
			if known[j] {
				between = append(between, math.Abs(own[j]-near))
				errors = append(errors, common*common/spread[j])
			}
		}
		sd := stats.MADFactor * stats.UpperMedianInPlace(between)
		tau := math.Max(math.Sqrt(math.Max(sd*sd-stats.UpperMedianInPlace(errors), 0)), elasticitySpread)
		tau = math.Hypot(tau, stats.MedianFactor*math.Max(sd, elasticitySpread)/math.Sqrt(float64(len(slopes))))
		if !known[i] {
			out[i] = Elasticity{clamp(near), math.Min(tau, unknownElasticity.SE)}
			continue
		}
		scale := math.Max(math.Sqrt((noise[i]*noise[i]+common*common)/2), ScaleFloor)
		se[i] = stats.MedianFactor * scale / math.Sqrt(spread[i])
		if math.Abs(own[i]-near) > elasticityOwn*math.Hypot(tau, se[i]) {
			out[i] = Elasticity{clamp(own[i]), math.Min(se[i], unknownElasticity.SE)}
			continue
		}
		weight := tau * tau / (tau*tau + se[i]*se[i])
		out[i] = Elasticity{clamp(near + weight*(own[i]-near)), math.Min(math.Sqrt(weight)*se[i], unknownElasticity.SE)}
	}
	return out
}

// clamp keeps β in its physical range: time does not rise with the clock, and does not fall faster than the
// clock rises.
func clamp(beta float64) float64 { return math.Max(0, math.Min(1, beta)) }

// away reports whether all clocks of a row are too far from the reference; x is the log of clock ÷ reference.
func away(x []float64) bool {
	limit := math.Log1p(ClockReach)
	for _, v := range x {
		if math.Abs(v) <= limit {
			return false
		}
	}
	return len(x) > 0
}

// AtClock is the log of one sample's time at the reference clock.
func AtClock(s results.Sample, beta, reference float64) float64 {
	y := RanFor(&s)
	if clocked(&s) && reference > 0 {
		y += beta * math.Log(s.ClockMHz/reference)
	}
	return y
}
