package rules

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
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
	x, y := mostAlike(a.Series, b.Series)
	if x < 0 {
		return ""
	}
	kx, ky := a.Series[x].Key, b.Series[y].Key
	fx, fy := identityOf(kx), identityOf(ky)
	var words []string
	for i, name := range identityNames {
		if fx[i] != fy[i] {
			words = append(words, fmt.Sprintf("%s (%s, %s)", name, fx[i], fy[i]))
		}
	}
	if len(words) == 0 {
		return fmt.Sprintf(": %v is in both, with no M in common", kx)
	}
	return fmt.Sprintf(": the nearest series, %v and %v, differ in %s", kx, ky, strings.Join(words, ", "))
}

// identityNames are the facts in which two series can differ; identity is their values.
var identityNames = [...]string{"device", "kernel", "dtype", "operation", "size", "layout", "weights", "regime", "threads", "packing inside"}

type identity [len(identityNames)]string

func identityOf(k results.SeriesKey) identity {
	return identity{k.Device, k.Kernel, string(k.DType), k.Operation.String(), k.Size(), k.Layout.String(), k.Subject.Weights.String(),
		string(k.Regime), strconv.Itoa(k.Threads), strconv.FormatBool(k.PackInside)}
}

// mostAlike finds the pair of series that differ in the fewest facts, the first of equals; -1 when there is none. It leaves out
// one set of facts after another, small sets first, and looks for series that are equal in the others: to compare every pair would
// take the square of the number of series.
func mostAlike(a, b []results.Series) (x, y int) {
	as, bs := make([]identity, len(a)), make([]identity, len(b))
	for i := range a {
		as[i] = identityOf(a[i].Key)
	}
	for i := range b {
		bs[i] = identityOf(b[i].Key)
	}
	if len(a) == 0 || len(b) == 0 {
		return -1, -1
	}
	sets := make([]uint, 1<<len(identityNames))
	for i := range sets {
		sets[i] = uint(i)
	}
	slices.SortStableFunc(sets, func(s, t uint) int { return bits.OnesCount(s) - bits.OnesCount(t) })
	x, y = -1, -1
	found := 0
	for _, set := range sets {
		if x >= 0 && bits.OnesCount(set) > found {
			break
		}
		without := func(f identity) identity {
			for i := range f {
				if set>>i&1 == 1 {
					f[i] = ""
				}
			}
			return f
		}
		first := make(map[identity]int, len(bs))
		for i := len(bs) - 1; i >= 0; i-- {
			first[without(bs[i])] = i
		}
		for i := range as {
			if j, ok := first[without(as[i])]; ok {
				if x < 0 || i < x || i == x && j < y {
					x, y, found = i, j, bits.OnesCount(set)
				}
				break
			}
		}
	}
	return x, y
}
