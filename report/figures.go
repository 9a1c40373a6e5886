package report

import (
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
)

// Figures returns a report's plots in order of display: each series' MFU and time, gains, comparisons of
// kernels and of cards, and the machine state of each device.
func Figures(in Input) []*Figure {
	machine := machineName(in.Meta)
	var figures []*Figure
	curves := newCurves(in.Series, in.Audit)
	remedies := map[results.SeriesKey][]remedy.Row{}
	if in.Splits != nil {
		for _, r := range allRemedies(in.Splits) {
			remedies[r.Series] = append(remedies[r.Series], r)
		}
	}
	for i, s := range in.Series {
		c := curves[i]
		if len(c.Rows) == 0 {
			continue
		}
		var boundaries []Boundary
		if in.Boundaries != nil {
			boundaries = in.Boundaries(s.Key)
		}
		figures = append(figures, PlotMFU(c, machine))
		if from, to := c.batches(); len(c.Rows) >= manyRows && batchAxis(c.Key.Subject, from, to, false).log {
			linear := c
			linear.Linear = true
			figures = append(figures, PlotMFU(linear, machine))
		}
		figures = append(figures, PlotTime(c, machine, boundaries))
		if own := remedies[s.Key]; len(own) > 0 {
			figures = append(figures, PlotGain(s.Key, own, machine))
		}
	}
	for _, group := range comparable(curves) {
		figures = append(figures, comparisons(group, machine)...)
	}
	if in.Audit != nil && in.Audit.Cards != nil {
		for _, group := range acrossCards(curves) {
			figures = append(figures, comparisons(group, machine)...)
		}
	}
	if len(in.Sentinels) > 1 {
		figures = append(figures, PlotDrift(in.Sentinels, in.Cases, machine, in.DriftBound))
	}
	figures = append(figures, clockFigures(in, machine)...)
	uniqueNames(figures)
	return figures
}

// comparisons overlays curves. If there are more curves than colors, it makes several figures, each with the
// first curve as the reference.
func comparisons(group []Curve, machine string) []*Figure {
	var figures []*Figure
	for others := range slices.Chunk(group[1:], len(curveColours)-1) {
		figures = append(figures, PlotComparison(append([]Curve{group[0]}, others...), machine))
	}
	return figures
}

func clockFigures(in Input, machine string) []*Figure {
	var devices []string
	samples := map[string][]results.Sample{}
	for _, s := range in.Series {
		id := s.Key.Device
		if _, seen := samples[id]; !seen {
			devices, samples[id] = append(devices, id), []results.Sample{}
		}
		for _, r := range s.Rows {
			samples[id] = append(samples[id], r.Samples...)
		}
	}
	if len(devices) < 2 {
		var all []results.Sample
		for _, id := range devices {
			all = samples[id]
		}
		if f := PlotClocks(append(slices.Clone(in.Sentinels), all...), machine); f != nil {
			return []*Figure{f}
		}
		return nil
	}
	for _, s := range in.Sentinels {
		id := in.Cases[s.CaseID].Device
		samples[id] = append(samples[id], s)
	}
	var out []*Figure
	for _, id := range devices {
		if f := PlotClocks(samples[id], machine); f != nil {
			f.Name, f.Title = fileName("clocks "+id), f.Title+" on "+id
			out = append(out, f)
		}
	}
	return out
}

func acrossCards(curves []Curve) [][]Curve {
	return grouped(curves, func(key results.SeriesKey) results.SeriesKey {
		key.Device = ""
		return key
	})
}

func comparable(curves []Curve) [][]Curve {
	return grouped(curves, func(key results.SeriesKey) results.SeriesKey {
		group := results.SeriesKey{Device: key.Device, Subject: key.Subject}
		if key.Kernel == kernels.Overlapping {
			group.Kernel = key.Kernel // others are no peers of it
		}
		return group
	})
}

// grouped returns the groups of at least two curves with equal reduced keys, in order of appearance.
func grouped(curves []Curve, reduce func(results.SeriesKey) results.SeriesKey) [][]Curve {
	groups := map[results.SeriesKey][]Curve{}
	var order []results.SeriesKey
	for _, c := range curves {
		if len(c.Rows) == 0 {
			continue
		}
		key := reduce(c.Key)
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], c)
	}
	var out [][]Curve
	for _, key := range order {
		if len(groups[key]) > 1 {
			out = append(out, groups[key])
		}
	}
	return out
}

func uniqueNames(figures []*Figure) {
	seen := map[string]int{}
	for _, f := range figures {
		seen[f.Name]++
		if n := seen[f.Name]; n > 1 {
			f.Name = fmt.Sprintf("%s-%d", f.Name, n)
			seen[f.Name]++
		}
	}
}
