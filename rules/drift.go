package rules

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
)

const (
	// knotsMost and knotLeast shape the drift curve: few knots, each the median
	// of enough sentinels that the curve shows the machine and not the noise.
	knotsMost = 12
	knotLeast = 5
	// lowKnotLeast is the same for a low quantile, of which a group of five tells little.
	lowKnotLeast = 12
	// driftSigmas is how far, in standard errors of its ends, a drift must stand
	// out before a run is refused.
	driftSigmas = 4
)

// drift is how the whole machine sped up or slowed down over a run, as log of
// time at the common clock, from samples of cases that recur.
type drift struct {
	// span is the largest offset minus the smallest, as a share of the time, and
	// noise the standard error of that.
	span, noise float64
	// sd is the standard deviation of the knots beyond their noise, knots how many there are.
	sd    float64
	knots int
}

// over is what a drift adds to the standard error of a row of n samples, which lie in as many
// stretches of the run as they can.
func (d drift) over(n int) float64 {
	if d.knots == 0 || n == 0 {
		return 0
	}
	return d.sd / math.Sqrt(float64(min(n, d.knots)))
}

// clockFit is how the log-times of recurring cases are brought to the median clock of
// each: by a β of its own, where all its samples tell their clock.
func clockFit(samples []results.Sample) func(results.Sample) float64 {
	type fit struct{ beta, clock float64 }
	byCase := map[int64][]results.Sample{}
	for _, s := range samples {
		byCase[s.CaseID] = append(byCase[s.CaseID], s)
	}
	fits := map[int64]fit{}
	var pairs []slopePair
	for id, of := range byCase {
		y, x := make([]float64, len(of)), make([]float64, len(of))
		known := true
		for i, s := range of {
			known = known && clocked(&s)
			y[i], x[i] = ranFor(&s), math.Log(s.ClockMHz)
		}
		if !known {
			continue
		}
		if beta, _, ok := slope(y, x, &pairs); ok {
			fits[id] = fit{clamp(beta), math.Exp(median(x))}
		}
	}
	return func(s results.Sample) float64 { return atClock(s, fits[s.CaseID].beta, fits[s.CaseID].clock) }
}

// fitDrift draws a curve through the sentinels: log-times at the common clock, relative to
// each case's own location, in order of Seq, the location of each group a knot. nil when
// there are too few to tell.
func fitDrift(sentinels []results.Sample, s Scatter) *drift {
	return driftOf(sentinelBlocks(slices.DeleteFunc(slices.Clone(sentinels), func(s results.Sample) bool { return !usable(&s) }), s), s)
}

// driftOf is fitDrift of what the sentinels came out above their locations.
func driftOf(blocks []block, s Scatter) *drift {
	least := knotLeast
	if s.low() {
		least = lowKnotLeast
	}
	if len(blocks) < 2*least {
		return nil
	}
	blocks = slices.Clone(blocks)
	slices.SortStableFunc(blocks, func(a, b block) int { return cmp.Compare(a.seq, b.seq) })
	d := &drift{knots: min(knotsMost, len(blocks)/least)}
	var differences, offsets, scratch, y []float64
	w, variance := lowWeights{}, 0.0
	for k := range d.knots {
		y = y[:0]
		for _, b := range blocks[k*len(blocks)/d.knots : (k+1)*len(blocks)/d.knots] {
			y = append(y, b.off)
		}
		if !s.low() {
			offsets, differences = append(offsets, median(y)), appendDifferences(differences, y)
			continue
		}
		var at, se float64
		at, se, scratch = w.unsorted(y, scratch)
		offsets, variance = append(offsets, at), variance+se*se/float64(d.knots)
	}
	noise := medianFactor * math.Max(shamosFactor*selectMedian(differences), scaleFloor) / math.Sqrt(float64(len(blocks)/d.knots))
	if s.low() {
		noise = math.Max(math.Sqrt(variance), scaleFloor)
	}
	d.span, d.noise = math.Expm1(slices.Max(offsets)-slices.Min(offsets)), noise*math.Sqrt2
	mean := meanOf(offsets)
	for _, v := range offsets {
		d.sd += (v - mean) * (v - mean) / float64(len(offsets)-1)
	}
	d.sd = math.Sqrt(math.Max(d.sd-noise*noise, 0))
	return d
}

// leftOver is what the sentinels drift by beside the pace of the machine, by which times are adjusted; nothing
// where that can't be told from noise.
func leftOver(sentinels []block, p *pace, paced bool, s Scatter) drift {
	rest := slices.Clone(sentinels)
	if paced {
		for i := range rest {
			rest[i].off -= p.at(rest[i].seq)
		}
	}
	if d := driftOf(rest, s); d.significant() {
		return *d
	}
	return drift{}
}

// drifts are the drifts of a run's devices, which are machines of their own: one
// card gets hot while its neighbour does not. A device of which too little is
// known is not among them.
type drifts map[string]*drift

// byDevice deals sentinels to their devices. device maps cases to devices; where the
// run has but one, all sentinels are its.
func byDevice(sentinels []results.Sample, device map[int64]string) map[string][]results.Sample {
	ids := map[string]bool{}
	for _, id := range device {
		ids[id] = true
	}
	by := map[string][]results.Sample{}
	for _, s := range sentinels {
		id := device[s.CaseID]
		if len(ids) == 1 {
			for only := range ids {
				id = only
			}
		}
		by[id] = append(by[id], s)
	}
	return by
}

// fitDrifts fits a drift to the sentinels of each device.
func fitDrifts(sentinels []results.Sample, device map[int64]string, scatter map[string]Scatter) drifts {
	out := drifts{}
	for id, samples := range byDevice(sentinels, device) {
		if d := fitDrift(samples, scatter[id]); d != nil {
			out[id] = d
		}
	}
	return out
}

// most is the largest span of all devices.
func (d drifts) most() (span float64) {
	for _, one := range d {
		span = math.Max(span, one.span)
	}
	return span
}

// invalid is why a run of these drifts can't be judged, empty when it can. Of
// several devices the one is named.
func (d drifts) invalid(bound float64) string {
	for _, id := range slices.Sorted(maps.Keys(d)) {
		if why := d[id].invalid(bound); why != "" && len(d) > 1 {
			return id + ": " + why
		} else if why != "" {
			return why
		}
	}
	return ""
}

// DriftPast says in words why the drift of a run's sentinels makes the run invalid: empty
// while the drift, as a share of the time, is within the bound, can't be told from noise, or
// the samples are too few to tell. device names the devices of the cases; each is looked at
// by itself.
func DriftPast(sentinels []results.Sample, device map[int64]string, bound float64) (invalid string) {
	return fitDrifts(sentinels, device, nil).invalid(bound)
}

// invalid is why a run of that drift can't be judged, empty when it can.
func (d *drift) invalid(bound float64) string {
	if d.noise > bound/2 {
		// A scatter that hides the drift is no excuse for it.
		return fmt.Sprintf("the sentinels scatter so much that a drift of %.1f %% can't be distinguished from none: the machine was too unsteady", 100*bound)
	}
	if !d.past(bound) {
		return ""
	}
	return fmt.Sprintf("the sentinels drifted by %.1f %%, more than the bound of %.1f %%: the machine did not keep its speed",
		100*d.span, 100*bound)
}

// significant is false when the span is what noise alone would show.
func (d *drift) significant() bool { return d != nil && d.span > driftSigmas*d.noise }

// past says whether the drift is surely beyond a bound.
func (d *drift) past(bound float64) bool {
	return d.significant() && d.span-d.noise > bound
}
