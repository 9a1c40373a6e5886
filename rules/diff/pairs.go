package diff

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

func (d *Result) fingerprints(a, b results.Meta) {
	if x, y := a.Fingerprint.Devices, b.Fingerprint.Devices; len(x) == 1 && len(y) == 1 {
		// If each run has one device, their ids may differ.
		renamed := y[0]
		renamed.ID = x[0].ID
		b.Fingerprint.Devices = []kernels.Spec{renamed}
	}
	d.Factors = append(d.Factors, a.Fingerprint.Diff(b.Fingerprint)...)
	add := func(name, x, y string) {
		if x != y {
			d.Factors = append(d.Factors, results.FactorDiff{Name: name, A: x, B: y})
		}
	}
	for _, key := range a.Labels.Differing(b.Labels) {
		d.Factors = append(d.Factors, results.FactorDiff{Name: "label " + key, A: a.Labels[key], B: b.Labels[key], Identity: true})
	}
	add("regime", string(a.Regime), string(b.Regime))
	add("distribution", string(a.Distribution), string(b.Distribution))
}

// threads adds the number of threads to the factors if paired series ran on different numbers. It fits
// pairs that [matchCurves] found on one device of each run.
func (d *Result) threads(pairs []curvePair) {
	for _, p := range pairs {
		f := results.FactorDiff{Name: "threads", A: threadCount(p.a.Series.Key), B: threadCount(p.b.Series.Key)}
		if f.A == f.B {
			continue
		}
		d.Factors = append(d.Factors, f)
		d.Warnings = append(d.Warnings,
			rules.Warning{Subject: "threads", Text: fmt.Sprintf("%s in A, %s in B: times may differ for this reason alone", f.A, f.B)})
		return
	}
}

func threadCount(k results.SeriesKey) string {
	if k.Threads == 0 {
		return "all"
	}
	return strconv.Itoa(k.Threads)
}

// confound sets Confounded if several factors differ.
func (d *Result) confound() {
	var differing []string
	machine, seen := false, map[string]bool{}
	for _, f := range d.Factors {
		if f.Identity {
			continue
		}
		name, line := f.Name, f.Name
		if f.Device != "" {
			line = cmp.Or(followers[f.Line], f.Line)
			name = f.Device + " " + line
			// The same difference on all cards of a host is one factor.
			if seen[line] {
				continue
			}
			seen[line] = true
			if a, b := kernels.IsFileVersion(f.A), kernels.IsFileVersion(f.B); a || b {
				// Kernels of one file are one factor, and a kernel of one run is compared with nothing.
				file := f.A + " " + f.B
				if seen[file] || a != b {
					continue
				}
				seen[file] = true
			}
		}
		if slices.Contains(machineFactors, line) {
			machine = true
			continue
		}
		differing = append(differing, name)
	}
	if machine {
		differing = append([]string{"machine"}, differing...)
	}
	if len(differing) > 1 {
		d.Confounded = fmt.Sprintf("%d factors differ (%s), so no change can be attributed to one of them", len(differing),
			strings.Join(differing, ", "))
	}
}

type curvePair struct{ a, b *infer.Curve }

// byRounds returns the ratios of the rows of two kernels of one run, by the point of b.
func (c curvePair) byRounds(scatter infer.Scatter) map[int]infer.PairedRatio {
	var points [][2]*infer.Point
	var at []int
	for j := range c.b.Points {
		if i, ok := c.a.At(c.b.Points[j].M); ok {
			points, at = append(points, [2]*infer.Point{&c.a.Points[i], &c.b.Points[j]}), append(at, j)
		}
	}
	out := make(map[int]infer.PairedRatio, len(at))
	for k, ratio := range infer.PairRounds(points, scatter) {
		out[at[k]] = ratio
	}
	return out
}

// matchCurves joins series with equal keys. If no key is equal and each run has one device, it ignores the
// device and its thread count: two machines are compared.
func matchCurves(a, b []*infer.Curve) []curvePair {
	match := func(reduce func(results.SeriesKey) results.SeriesKey) []curvePair {
		byKey := map[results.SeriesKey]*infer.Curve{}
		for _, c := range a {
			byKey[reduce(c.Series.Key)] = c
		}
		var out []curvePair
		for _, c := range b {
			if other := byKey[reduce(c.Series.Key)]; other != nil {
				out = append(out, curvePair{other, c})
			}
		}
		return out
	}
	if out := match(func(k results.SeriesKey) results.SeriesKey { return k }); len(out) > 0 {
		return out
	}
	one := func(curves []*infer.Curve) bool {
		for _, c := range curves {
			if c.Series.Key.Device != curves[0].Series.Key.Device {
				return false
			}
		}
		return true
	}
	if !one(a) || !one(b) {
		return nil
	}
	return match(func(k results.SeriesKey) results.SeriesKey {
		k.Device, k.Threads = "", 0
		return k
	})
}
