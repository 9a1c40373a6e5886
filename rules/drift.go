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
	// driftSigmas is how far, in standard errors of its ends, a drift must stand
	// out before times are corrected for it, or a run refused.
	driftSigmas = 4
	// driftNoise is the standard error past which a drift is not corrected for: dividing
	// by a curve that is known no better would put more into the times than it takes out,
	// up to rates that no machine has.
	driftNoise = 0.15
)

// drift is how the whole machine sped up or slowed down over a run, as log of
// time, from samples of cases that recur.
type drift struct {
	seq, offset []float64
	// span is the largest offset minus the smallest, as a share of the time, and
	// noise the standard error of that.
	span, noise float64
}

// fitDrift draws a curve through the sentinels: log-times relative to each
// case's own median, in order of Seq, the median of each group a knot. nil when
// there are too few to tell.
func fitDrift(sentinels []results.Sample, what quantity) *drift {
	samples := slices.DeleteFunc(slices.Clone(sentinels), func(s results.Sample) bool {
		_, ok := what(s)
		return !ok
	})
	slices.SortStableFunc(samples, func(a, b results.Sample) int { return cmp.Compare(a.Seq, b.Seq) })
	if len(samples) < 2*knotLeast {
		return nil
	}
	byCase := map[int64][]float64{}
	for _, s := range samples {
		v, _ := what(s)
		byCase[s.CaseID] = append(byCase[s.CaseID], v)
	}
	centre := map[int64]float64{}
	for id, v := range byCase {
		centre[id] = median(v)
	}
	knots := min(knotsMost, len(samples)/knotLeast)
	d := &drift{}
	var differences []float64
	for k := range knots {
		group := samples[k*len(samples)/knots : (k+1)*len(samples)/knots]
		var at float64
		y := make([]float64, len(group))
		for i, s := range group {
			at += float64(s.Seq) / float64(len(group))
			v, _ := what(s)
			y[i] = v - centre[s.CaseID]
		}
		d.seq, d.offset = append(d.seq, at), append(d.offset, median(y))
		differences = appendDifferences(differences, y)
	}
	sigma := math.Max(shamosFactor*selectMedian(differences), scaleFloor)
	d.noise = medianFactor * sigma / math.Sqrt(float64(len(samples)/knots)) * math.Sqrt2
	d.span = math.Expm1(slices.Max(d.offset) - slices.Min(d.offset))
	// Offsets are relative to the run's middle, so that corrected times stay
	// those of a usual moment.
	middle := median(d.offset)
	for i := range d.offset {
		d.offset[i] -= middle
	}
	return d
}

// drifts are the drifts of a run's devices, which are machines of their own: one
// card gets hot while its neighbour does not. A device of which too little is
// known is not among them.
type drifts map[string]*drift

// fitDrifts fits a drift to the sentinels of each device. device maps cases to
// devices; where the run has but one, all sentinels are its.
func fitDrifts(sentinels []results.Sample, device map[int64]string, what quantity) drifts {
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
	out := drifts{}
	for id, samples := range by {
		if d := fitDrift(samples, what); d != nil {
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

// corrects says whether any device's drift does.
func (d drifts) corrects() bool {
	for _, one := range d {
		if one.corrects() {
			return true
		}
	}
	return false
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

// DriftPast says how far a run's sentinels drifted, as a share of the time, and
// in words why that makes the run invalid: empty while the drift is within the
// bound, can't be told from noise, or the samples are too few to tell. device
// names the devices of the cases; each is looked at by itself.
func DriftPast(sentinels []results.Sample, device map[int64]string, bound float64) (span float64, invalid string) {
	d := fitDrifts(sentinels, device, logTime)
	return d.most(), d.invalid(bound)
}

// invalid is why a run of that drift can't be judged, empty when it can.
func (d *drift) invalid(bound float64) string {
	if d.noise > bound/2 {
		// A scatter that hides the drift is no excuse for it.
		return fmt.Sprintf("the sentinels scatter so much that a drift of %.1f %% can't be told from none: the machine was too unsteady", 100*bound)
	}
	if !d.past(bound) {
		return ""
	}
	return fmt.Sprintf("the sentinels drifted by %.1f %%, more than the bound of %.1f %%: the machine was not the same machine throughout",
		100*d.span, 100*bound)
}

// significant is false when the span is what noise alone would show.
func (d *drift) significant() bool { return d != nil && d.span > driftSigmas*d.noise }

// corrects says whether times are to be divided by the drift.
func (d *drift) corrects() bool { return d.significant() && d.noise <= driftNoise }

// past says whether the drift is surely beyond a bound.
func (d *drift) past(bound float64) bool {
	return d.significant() && d.span-d.noise > bound
}

// at is the offset of log-time at a moment of the run, level beyond the ends.
func (d *drift) at(seq int64) float64 {
	x := float64(seq)
	i, _ := slices.BinarySearch(d.seq, x)
	switch {
	case i == 0:
		return d.offset[0]
	case i == len(d.seq):
		return d.offset[i-1]
	}
	w := (x - d.seq[i-1]) / (d.seq[i] - d.seq[i-1])
	return d.offset[i-1] + w*(d.offset[i]-d.offset[i-1])
}
