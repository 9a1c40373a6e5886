package diff

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

const (
	// leastBetweenRuns is the least standard deviation between runs, as a share of the time: an H200 showed
	// 0.11 % between processes.
	leastBetweenRuns = 0.001
	// leastCases is the least number of cases for estimating the scatter between runs.
	leastCases = 20
)

// stretchSizes are the numbers of neighboring rows that are tested together for a change that single rows
// don't show.
var stretchSizes = [...]int{4, 16, 64}

// clocks are the common clocks of the devices in either run: one for both if both ran on the same model of
// device at near enough clocks.
func (d *Result) clocks(a, b infer.Data, cfg rules.Config) (of, in map[string]float64) {
	of, in = infer.ReferenceClocks(a, cfg.Basis()), infer.ReferenceClocks(b, cfg.Basis())
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
		if other <= 0 || a.Spec(partner).Name != b.Spec(id).Name && a.Meta.Source == "" && b.Meta.Source == "" {
			continue
		}
		if math.Abs(math.Log(mhz/other)) > math.Log1p(infer.ClockGap) {
			d.Warnings = append(d.Warnings,
				rules.Warning{Subject: id,
					Text: fmt.Sprintf("the runs have clocks of %.0f and %.0f MHz, too different to compare at one clock: each is judged "+
						"at its own", other, mhz)})
			continue
		}
		one := infer.RoundClock(math.Sqrt(mhz * other))
		of[partner], in[id] = one, one
	}
	return of, in
}

// betweenRuns is the standard deviation of logs between runs beyond the errors of the estimates. It is a
// robust scatter of the log ratios about their median, so a tenth of truly changed cases does not move it.
func betweenRuns(ratios []stats.Estimate) float64 {
	if len(ratios) < leastCases {
		return leastBetweenRuns
	}
	y, errors := make([]float64, len(ratios)), make([]float64, len(ratios))
	for i, e := range ratios {
		y[i], errors[i] = e.Y, e.SE*e.SE
	}
	middle := stats.Median(y)
	for i := range y {
		y[i] = math.Abs(y[i] - middle)
	}
	sd := stats.MADFactor * stats.Median(y)
	return math.Max(math.Sqrt(math.Max(sd*sd-stats.Median(errors), 0)), leastBetweenRuns)
}

// betweenLevels is the log distance of the two levels of a row that is bimodal in either run. A run may show
// more of one level by chance, which is not a change.
func betweenLevels(x, y infer.Point) (gap float64) {
	for _, p := range []infer.Point{x, y} {
		if p.Modes != nil {
			gap = math.Max(gap, p.Modes.Slow-p.Modes.Fast)
		}
	}
	return gap
}

// levelsBetween is betweenLevels of rows i and j of two curves. If both curves move between levels, a row
// that shows both levels is compared by the faster one and has no such uncertainty.
func (c curvePair) levelsBetween(i, j int) float64 {
	x, y := c.a.Points[i], c.b.Points[j]
	if x.Like == nil || y.Like == nil {
		return betweenLevels(x, y)
	}
	return math.Max(c.a.Hidden(x), c.b.Hidden(y))
}

// compareLevels compares rows by their faster levels if both curves move between levels.
func (c curvePair) compareLevels() {
	if c.a.Flips != nil && c.b.Flips != nil {
		c.a.CompareLevels()
		c.b.CompareLevels()
	}
}

// slowStretches finds neighboring rows that together are slower than their series by more than the threshold
// of stretches. It tests windows of several sizes, each at the level divided by their number in the whole
// comparison, and joins overlapping ones. Cases are ascending in M.
func slowStretches(cases []Case, ratios []stats.Estimate, common stats.Estimate, cfg rules.Config, family float64) []Stretch {
	level := 1 - 2*cfg.FDR/(family*float64(len(stretchSizes)))
	threshold := math.Log1p(cfg.Diff.Stretch)
	in := make([]bool, len(cases))
	for _, size := range stretchSizes {
		for from := 0; from+size <= len(cases); from += max(1, size/2) {
			window := ratios[from : from+size]
			if g := stats.GeometricMeanSharing(window, common, level); math.Log(g.Lo) <= threshold {
				continue
			}
			for k := range window {
				// A few very slow rows do not make their neighbors slow.
				if window[k].Y > threshold {
					in[from+k] = true
				}
			}
		}
	}
	var out []Stretch
	for from := 0; from < len(cases); from++ {
		if !in[from] {
			continue
		}
		to := from
		for to+1 < len(cases) && in[to+1] {
			to++
		}
		if n := to - from + 1; n >= stretchSizes[0] {
			out = append(out, Stretch{FromM: cases[from].M, ToM: cases[to].M, Cases: n,
				Ratio: stats.GeometricMeanSharing(ratios[from:to+1], common, cfg.Confidence)})
		}
		from = to
	}
	return out
}

func nearest(a, b infer.Data) string {
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
		return fmt.Sprintf(": both have %v, but no M in common", kx)
	}
	return fmt.Sprintf(": the nearest series, %v and %v, differ in %s", kx, ky, strings.Join(words, ", "))
}

var identityNames = [...]string{"device", "kernel", "dtype", "operation", "size", "layout", "weights", "regime", "threads",
	"packing in the time"}

type identity [len(identityNames)]string

func identityOf(k results.SeriesKey) identity {
	return identity{k.Device, k.Kernel, string(k.DType), k.Operation.String(), k.Size(), k.Layout.String(), k.Subject.Weights.String(),
		string(k.Regime), strconv.Itoa(k.Threads), strconv.FormatBool(k.PackInside)}
}

// mostAlike finds the pair of series that differ in the fewest facts, the first among equals, or -1. It
// ignores one set of facts after another, small sets first, and looks for series equal in the rest: comparing
// every pair would be quadratic.
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
