package rules

import (
	"cmp"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
)

// Time at the common clock is what is judged everywhere: log t + β·log(clock ÷
// reference). Under a power limit the clock wanders by some per cent within a round,
// and time follows it by a factor that differs from row to row: with arithmetic that
// fills the multiprocessors β is 1, with reading from memory it is near 0. β is fitted to a
// row's own samples and drawn towards what the rows near it in M show.
const (
	// clockStep is what a reference clock is rounded to, in MHz: two runs of one card
	// mostly get the same one.
	clockStep = 50
	// clockReach is how far from the reference clock, as a share of it, all samples of
	// a row may lie for the row still to be judged: beyond, it rests on extrapolation.
	clockReach = 0.05
	// elasticityRows is how many neighbours in M on either side tell a row's β in
	// advance.
	elasticityRows = 16
	// elasticitySpread is the least standard deviation of β between neighbours that is
	// believed: even one kernel's tiles do not all wait for memory alike.
	elasticitySpread = 0.02
	// elasticityOwn is how many standard errors a row's own β may lie off its
	// neighbours' before the neighbours have no say: it runs another kernel.
	elasticityOwn = 3
	// slopePairs bounds the pairs of samples whose slopes are looked at for one row.
	slopePairs = 300
)

// unknownElasticity is the β of which nothing is known: anything from 0 to 1.
var unknownElasticity = elasticity{0.5, math.Sqrt(1.0 / 12)}

// elasticity is a row's β with its standard error.
type elasticity struct {
	beta, se float64
}

// track is the samples of one row as they are adjusted: y is the log of the time in
// microseconds, x the log of what it follows (clock ÷ reference, or the pace of the
// machine), parallel in the order in which they were taken.
type track struct {
	y, x  []float64
	lost  []float64 // how much of y is known to be lost to others; see waited
	seq   []int64
	round []int
}

// adjust brings the log-times to x = 0.
func (t track) adjust(e elasticity) {
	for i := range t.y {
		t.y[i] += e.beta * t.x[i]
	}
}

// subtractLost takes lost time from the log-times and returns the standard error that this brings to
// their location.
func (t track) subtractLost() (se float64) {
	for i, v := range t.lost {
		t.y[i] -= v
		se += lostDoubt * lostDoubt * v * v
	}
	return math.Sqrt(se) / math.Max(float64(len(t.lost)), 1)
}

// roundClock rounds a clock to what references are rounded to.
func roundClock(mhz float64) float64 { return math.Round(mhz/clockStep) * clockStep }

// referenceClocks are the clocks that the samples of each device are brought to, in MHz;
// devices without known clocks are left out. In order: what the configuration says, what the
// sweep stored, the sentinels' median, the median of all samples.
func referenceClocks(data Data, cfg Config) map[string]float64 {
	return clocksToJudgeAt(data, cfg, func(device string) []float64 { return sweepClocks(data.Series, device) })
}

// clocksToJudgeAt is referenceClocks of data whose series may lack samples; swept are the clocks of a device's samples.
func clocksToJudgeAt(data Data, cfg Config, swept func(device string) []float64) map[string]float64 {
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
	asked := map[string]bool{} // of a device that tells no clock once is enough too
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
				out[id] = roundClock(selectMedian(clocks))
			}
		}
	}
	return out
}

// sweepClocks are the clocks in MHz that the samples of a device tell.
func sweepClocks(series []results.Series, device string) []float64 {
	clocks := make([]float64, 0, samplesOf(series, device))
	eachSample(series, device, func(x *results.Sample) {
		if clocked(x) {
			clocks = append(clocks, x.ClockMHz)
		}
	})
	return clocks
}

// eachSample gives every sample of a device to each.
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

// samplesOf counts the samples of a device.
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

// slope is the robust slope of y over −x: the median of the slopes of pairs of
// samples (Theil and Sen), each weighted by how far its xs lie apart. spread is the sum of
// squares of x about its mean, on which the slope's error rests. ok is false
// where x does not vary. The list of pairs is used again.
func slope(y, x []float64, pairs *[]slopePair) (beta, spread float64, ok bool) {
	n := len(x)
	mean := 0.0
	for _, v := range x {
		mean += v / float64(n)
	}
	for _, v := range x {
		spread += (v - mean) * (v - mean)
	}
	if n < 3 || spread < 1e-9 {
		return 0, 0, false
	}
	of := (*pairs)[:0]
	total := 0.0
	for lag := 1; lag < n && len(of) < slopePairs; lag++ {
		for i := 0; i+lag < n; i++ {
			dx := x[i+lag] - x[i]
			if w := math.Abs(dx); w > 1e-9 {
				of = append(of, slopePair{-(y[i+lag] - y[i]) / dx, w})
				total += w
			}
		}
	}
	*pairs = of
	slices.SortFunc(of, func(a, b slopePair) int { return cmp.Compare(a.slope, b.slope) })
	half := 0.0
	for _, p := range of {
		if half += p.weight; half >= total/2 {
			return p.slope, spread, true
		}
	}
	return 0, 0, false
}

// slopePair is the slope that two samples show, and how much it counts.
type slopePair struct{ slope, weight float64 }

// elasticities fits β to the rows of one curve, in order of M.
//
// A row's own slope has the error σ/√Sxx. Neighbours in M mostly run the same kernel
// and share its β, so a row's slope is drawn to their median, by as much as its
// error outweighs the spread between them (an empirical-Bayes mean). A row whose own slope is
// off by more than elasticityOwn errors keeps its own: it runs something else.
func elasticities(rows []track) []elasticity {
	n := len(rows)
	own, se, known := make([]float64, n), make([]float64, n), make([]bool, n)
	noise := make([]float64, n)
	spread := make([]float64, n)
	var scratch []float64
	var pairs []slopePair
	for i, t := range rows {
		if own[i], spread[i], known[i] = slope(t.y, t.x, &pairs); !known[i] {
			continue
		}
		scratch = scratch[:0]
		for lag := 1; lag <= min(pairLags, len(t.y)/2); lag++ {
			for j := 0; j+lag < len(t.y); j++ {
				scratch = append(scratch, math.Abs(t.y[j+lag]-t.y[j]+own[i]*(t.x[j+lag]-t.x[j])))
			}
		}
		// Two fitted numbers take two degrees of freedom, differences account for one.
		m := float64(len(t.y))
		noise[i] = shamosFactor * selectMedian(scratch) * math.Sqrt((m-1)/math.Max(m-2, 1))
	}
	out := make([]elasticity, n)
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
		// A row's scale from its own few samples is loose: its neighbours' counts as much.
		common := math.Max(selectMedian(scales), scaleFloor)
		near := spoiledMedian(slopes)
		between, errors = between[:0], errors[:0]
		for j := lo; j <= hi; j++ {
			if known[j] {
				between = append(between, math.Abs(own[j]-near))
				errors = append(errors, common*common/spread[j])
			}
		}
		sd := 1.4826 * selectMedian(between)
		tau := math.Max(math.Sqrt(math.Max(sd*sd-selectMedian(errors), 0)), elasticitySpread)
		tau = math.Hypot(tau, medianFactor*math.Max(sd, elasticitySpread)/math.Sqrt(float64(len(slopes))))
		if !known[i] {
			out[i] = elasticity{clamp(near), math.Min(tau, unknownElasticity.se)}
			continue
		}
		scale := math.Max(math.Sqrt((noise[i]*noise[i]+common*common)/2), scaleFloor)
		se[i] = medianFactor * scale / math.Sqrt(spread[i])
		if math.Abs(own[i]-near) > elasticityOwn*math.Hypot(tau, se[i]) {
			out[i] = elasticity{clamp(own[i]), math.Min(se[i], unknownElasticity.se)}
			continue
		}
		weight := tau * tau / (tau*tau + se[i]*se[i])
		out[i] = elasticity{clamp(near + weight*(own[i]-near)), math.Min(math.Sqrt(weight)*se[i], unknownElasticity.se)}
	}
	return out
}

// clamp keeps β where physics has it: time neither rises with the clock nor falls
// faster than the clock rises.
func clamp(beta float64) float64 { return math.Max(0, math.Min(1, beta)) }

// meanOf is the plain mean; 0 for none.
func meanOf(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / math.Max(float64(len(v)), 1)
}

// away says whether all clocks of a row lie too far from the reference; x is the
// log of clock ÷ reference.
func away(x []float64) bool {
	limit := math.Log1p(clockReach)
	for _, v := range x {
		if math.Abs(v) <= limit {
			return false
		}
	}
	return len(x) > 0
}

// atClock brings one sample to the reference clock: the log of its time there.
func atClock(s results.Sample, beta, reference float64) float64 {
	y := ranFor(&s)
	if clocked(&s) && reference > 0 {
		y += beta * math.Log(s.ClockMHz/reference)
	}
	return y
}
