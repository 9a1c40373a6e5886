package rules

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
)

const (
	// leastBetweenRuns is the least standard deviation from run to run that is
	// believed, as a share of the time: 0.11 % was measured on an H200 between processes.
	leastBetweenRuns = 0.001
	// leastCases is from how many cases on the scatter between runs is estimated.
	leastCases = 20
	// clockGap is how far apart two runs' clocks may lie, as a share, to be brought to
	// the one between them: each is then within clockReach.
	clockGap = 2 * clockReach
)

// stretchSizes are the numbers of neighbouring rows that are looked at together for a
// change that no row shows by itself.
var stretchSizes = [...]int{4, 16, 64}

// clocks are the clocks to which the devices' times in either run are brought: one
// for both, where both ran on the same model of device at clocks that allow it.
func (d *DiffResult) clocks(a, b Data, cfg Config) (of, in map[string]float64) {
	of, in = referenceClocks(a, cfg), referenceClocks(b, cfg)
	d.Clocks = in
	if cfg.ClockMHz > 0 {
		return of, in
	}
	for id, mhz := range in {
		partner := id
		if len(of) == 1 && len(in) == 1 {
			for only := range of {
				partner = only
			}
		}
		other := of[partner]
		if other <= 0 || a.spec(partner).Name != b.spec(id).Name && a.Meta.Source == "" && b.Meta.Source == "" {
			continue
		}
		if math.Abs(math.Log(mhz/other)) > math.Log1p(clockGap) {
			d.Warnings = append(d.Warnings, Warning{id, fmt.Sprintf("the runs were taken at %.0f and %.0f MHz, too far apart to be judged at one clock: each is judged at its own", other, mhz)})
			continue
		}
		one := roundClock(math.Sqrt(mhz * other))
		of[partner], in[id] = one, one
	}
	return of, in
}

// betweenRuns is how much cases differ from run to run beyond the errors of their
// estimates, as a standard deviation of logs: from the scatter of their log ratios about
// what all have in common, which a tenth of truly changed cases does not move.
func betweenRuns(ratios []estimate) float64 {
	if len(ratios) < leastCases {
		return leastBetweenRuns
	}
	y, errors := make([]float64, len(ratios)), make([]float64, len(ratios))
	for i, e := range ratios {
		y[i], errors[i] = e.y, e.se*e.se
	}
	middle := median(y)
	for i := range y {
		y[i] = math.Abs(y[i] - middle)
	}
	sd := 1.4826 * median(y)
	return math.Max(math.Sqrt(math.Max(sd*sd-median(errors), 0)), leastBetweenRuns)
}

// betweenLevels is the distance of the two levels of a row that has two in either run, in
// logs: from run to run it may show more of one or of the other, which is no change of
// either.
func betweenLevels(x, y point) (gap float64) {
	for _, p := range []point{x, y} {
		if p.modes != nil {
			gap = math.Max(gap, p.modes.slow-p.modes.fast)
		}
	}
	return gap
}

// within says on which side of a threshold a ratio surely lies.
func within(ratio Interval, threshold float64) Change {
	up, down := 1+threshold, 1/(1+threshold)
	switch {
	case ratio.Lo > up:
		return Slower
	case ratio.Hi < down:
		return Faster
	case ratio.Lo >= down && ratio.Hi <= up:
		return Same
	}
	return Open
}

// slowStretches finds neighbouring rows that are slower together by more than the
// threshold of stretches, beyond what their series has in common: windows of several sizes,
// each held to the level divided by their number in the whole comparison, joined
// where they overlap. Cases are ascending in M.
func slowStretches(cases []CaseDiff, ratios []estimate, cfg Config, family float64) []StretchDiff {
	level := 1 - 2*cfg.FDR/(family*float64(len(stretchSizes)))
	threshold := math.Log1p(cfg.Diff.Stretch)
	in := make([]bool, len(cases))
	for _, size := range stretchSizes {
		for from := 0; from+size <= len(cases); from += max(1, size/2) {
			window := ratios[from : from+size]
			if g := geomean(window, level); math.Log(g.Lo) <= threshold {
				continue
			}
			for k := range window {
				// A few very slow rows do not make their neighbours slow.
				if window[k].y > threshold {
					in[from+k] = true
				}
			}
		}
	}
	var out []StretchDiff
	for from := 0; from < len(cases); from++ {
		if !in[from] {
			continue
		}
		to := from
		for to+1 < len(cases) && in[to+1] {
			to++
		}
		if n := to - from + 1; n >= stretchSizes[0] {
			out = append(out, StretchDiff{FromM: cases[from].M, ToM: cases[to].M, Cases: n, Ratio: geomean(ratios[from:to+1], cfg.Confidence)})
		}
		from = to
	}
	return out
}

// nearest says, of runs without a case in common, in what the two series that are
// most alike differ; empty when a run has none.
func nearest(a, b Data) string {
	type field struct{ name, a, b string }
	fields := func(x, y results.Series) []field {
		all := []field{
			{"device", x.Key.Device, y.Key.Device}, {"kernel", x.Key.Kernel, y.Key.Kernel}, {"dtype", string(x.Key.DType), string(y.Key.DType)},
			{"operation", x.Key.Operation.String(), y.Key.Operation.String()}, {"size", x.Key.Size(), y.Key.Size()},
			{"layout", x.Key.Layout.String(), y.Key.Layout.String()}, {"weights", x.Key.Subject.Weights.String(), y.Key.Subject.Weights.String()},
			{"regime", string(x.Key.Regime), string(y.Key.Regime)}, {"threads", fmt.Sprint(x.Key.Threads), fmt.Sprint(y.Key.Threads)},
			{"packing inside", fmt.Sprint(x.Key.PackInside), fmt.Sprint(y.Key.PackInside)},
		}
		return slices.DeleteFunc(all, func(f field) bool { return f.a == f.b })
	}
	var best []field
	var pair [2]results.SeriesKey
	for _, x := range a.Series {
		for _, y := range b.Series {
			if f := fields(x, y); pair[0].Kernel == "" || len(f) < len(best) {
				best, pair = f, [2]results.SeriesKey{x.Key, y.Key}
			}
		}
	}
	switch {
	case pair[0].Kernel == "":
		return ""
	case len(best) == 0:
		return fmt.Sprintf(": %v is in both, with no M in common", pair[0])
	}
	words := make([]string, len(best))
	for i, f := range best {
		words[i] = fmt.Sprintf("%s (%s, %s)", f.name, f.a, f.b)
	}
	return fmt.Sprintf(": the nearest series, %v and %v, differ in %s", pair[0], pair[1], strings.Join(words, ", "))
}
