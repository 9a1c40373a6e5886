package infer

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

const (
	// knotsMost and knotLeast shape the drift curve: few knots, each the median of enough sentinels to
	// average out noise.
	knotsMost = 12
	knotLeast = 5
	// lowKnotLeast replaces knotLeast for a low quantile, which needs more samples.
	lowKnotLeast = 12
	// driftSigmas is by how many standard errors of its ends a drift must stand out before a run is refused.
	driftSigmas = 4
)

// drift is the speed of the whole machine over a run, as log time at the common clock, from recurring cases.
type drift struct {
	// span is the largest offset minus the smallest, as a share of the time, and noise its standard error.
	span, noise float64
	// sd is the standard deviation of the knots beyond their noise, knots their number.
	sd    float64
	knots int
}

func (d drift) over(n int) float64 {
	if d.knots == 0 || n == 0 {
		return 0
	}
	return d.sd / math.Sqrt(float64(min(n, d.knots)))
}

// clockFit returns a function that adjusts log times of recurring cases to the median clock of each. It uses
// each case's own β if all its samples have a clock.
func clockFit(samples []results.Sample) func(results.Sample) float64 {
	type fit struct{ beta, clock float64 }
	byCase := map[int64][]results.Sample{}
	for _, s := range samples {
		byCase[s.CaseID] = append(byCase[s.CaseID], s)
	}
	fits := map[int64]fit{}
	var pairs []stats.SlopePair
	for id, of := range byCase {
		y, x := make([]float64, len(of)), make([]float64, len(of))
		known := true
		for i, s := range of {
			known = known && clocked(&s)
			y[i], x[i] = RanFor(&s), math.Log(s.ClockMHz)
		}
		if !known {
			continue
		}
		if beta, _, ok := stats.TheilSen(y, x, &pairs); ok {
			fits[id] = fit{clamp(beta), math.Exp(stats.Median(x))}
		}
	}
	return func(s results.Sample) float64 { return AtClock(s, fits[s.CaseID].beta, fits[s.CaseID].clock) }
}

// fitDrift fits a curve to the sentinels: log times at the common clock, relative to each case's own
// location, in order of Seq. Each knot is the location of a group. nil if samples are too few.
func fitDrift(sentinels []results.Sample, s Scatter) *drift {
	return driftOf(sentinelBlocks(slices.DeleteFunc(slices.Clone(sentinels), func(s results.Sample) bool { return !s.Usable() }), s), s)
}

func driftOf(blocks []block, s Scatter) *drift {
	least := knotLeast
	if s.Low() {
		least = lowKnotLeast
	}
	if len(blocks) < 2*least {
		return nil
	}
	blocks = slices.Clone(blocks)
	slices.SortStableFunc(blocks, func(a, b block) int { return cmp.Compare(a.seq, b.seq) })
	d := &drift{knots: min(knotsMost, len(blocks)/least)}
	var differences, offsets, scratch, y []float64
	w, variance := stats.LowQuantile{}, 0.0
	for k := range d.knots {
		y = y[:0]
		for _, b := range blocks[k*len(blocks)/d.knots : (k+1)*len(blocks)/d.knots] {
			y = append(y, b.off)
		}
		if !s.Low() {
			offsets, differences = append(offsets, stats.Median(y)), stats.AppendDifferences(differences, y)
			continue
		}
		var at, se float64
		at, se, scratch = w.Unsorted(y, scratch)
		offsets, variance = append(offsets, at), variance+se*se/float64(d.knots)
	}
	noise := stats.MedianFactor * math.Max(stats.ShamosFactor*stats.UpperMedianInPlace(differences), ScaleFloor) /
		math.Sqrt(float64(len(blocks)/d.knots))
	if s.Low() {
		noise = math.Max(math.Sqrt(variance), ScaleFloor)
	}
	d.span, d.noise = math.Expm1(slices.Max(offsets)-slices.Min(offsets)), noise*math.Sqrt2
	mean := stats.Mean(offsets)
	for _, v := range offsets {
		d.sd += (v - mean) * (v - mean) / float64(len(offsets)-1)
	}
	d.sd = math.Sqrt(math.Max(d.sd-noise*noise, 0))
	return d
}

// leftOver is the sentinels' drift that remains after adjustment by the pace; zero if it can't be separated
// from noise.
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

// Drifts are the drifts of a run's devices, each with its own, because one card can get hot while its
// neighbor does not. Devices with too few samples are absent.
type Drifts map[string]*drift

// byDevice groups sentinels by device. device maps cases to devices; if the run has one device, all sentinels
// belong to it.
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

func fitDrifts(sentinels []results.Sample, device map[int64]string, scatter map[string]Scatter) Drifts {
	out := Drifts{}
	for id, samples := range byDevice(sentinels, device) {
		if d := fitDrift(samples, scatter[id]); d != nil {
			out[id] = d
		}
	}
	return out
}

// Most is the largest span of the drift of any device, as a share of the time.
func (d Drifts) Most() (span float64) {
	for _, one := range d {
		span = math.Max(span, one.span)
	}
	return span
}

// Invalid is the reason why a run can't be judged, empty if it can. With several devices it names the device.
func (d Drifts) Invalid(bound float64) string {
	for _, id := range slices.Sorted(maps.Keys(d)) {
		if why := d[id].invalid(bound); why != "" && len(d) > 1 {
			return id + ": " + why
		} else if why != "" {
			return why
		}
	}
	return ""
}

// DriftPast returns the reason why the sentinels' drift makes the run invalid. It is empty if the drift, as a
// share of the time, is within the bound or within noise, or if samples are too few. device names the devices
// of the cases; each is checked separately.
func DriftPast(sentinels []results.Sample, device map[int64]string, bound float64) (invalid string) {
	return fitDrifts(sentinels, device, nil).Invalid(bound)
}

// invalid is the reason why a run can't be judged, empty if it can.
func (d *drift) invalid(bound float64) string {
	if d.noise > bound/2 {
		// Noise that can hide a drift makes the run invalid too.
		return fmt.Sprintf("timing noise is too high to detect a drift of %.0f %%: the machine was too unsteady", 100*bound)
	}
	if !d.past(bound) {
		return ""
	}
	return fmt.Sprintf("the sentinels drifted by %.1f %%, more than the bound of %.1f %%: the speed of the machine changed",
		100*d.span, 100*bound)
}

func (d *drift) significant() bool { return d != nil && d.span > driftSigmas*d.noise }

func (d *drift) past(bound float64) bool {
	return d.significant() && d.span-d.noise > bound
}
