package choose

import (
	"maps"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Designer chooses the rows to measure in series that are measured only in part, for a sweep. It is
// deterministic, and never removes an M that was measured.
type Designer struct {
	Config rules.Config
	// Ceilings are the peaks by device id, Devices the specs.
	Ceilings map[string]kernels.Ceilings
	Devices  []kernels.Spec
	// Looks is the most looks that the sweep may take; see [OpenRows].
	Looks int
	// Clocks returns the devices' reference clocks in MHz as the sweep has stored them so far; nil takes them
	// from the samples.
	Clocks func() map[string]float64
	// Launched returns the cases of the run as stored so far; see [OpenRows].
	Launched func() ([]results.Case, error)
	// Seed is the plan's; check rows are drawn by it.
	Seed uint64
}

// Seeds returns the Ms of a series to measure first, and the check rows, both ascending. Of each kernel that
// would run it takes the ends and the least certain rows between them, by tiles and waves. It takes families
// of up to three rows whole.
//
// If the kernels are unknown, it takes every eighth M, or every 16th or 32nd of more than 1024 or 16 384. A
// change of kernel between two of them shows only in check rows. On cuBLAS on an H200, every eighth M of a
// grid of 8 is too few: a third of the inferred rows would be wrong. Half of the check rows fail, so such a
// series is measured row by row.
func (d Designer) Seeds(s results.PlannedSeries, choices results.Choices) (results.Ms, error) {
	return d.asking(s.SeriesKey, s.Ms, choices).Seeds(), nil
}

func (d Designer) asking(key results.SeriesKey, ms []int, choices results.Choices) infer.Asking {
	units := 0
	if i := slices.IndexFunc(d.Devices, func(s kernels.Spec) bool { return s.ID == key.Device }); i >= 0 {
		units = infer.Units(d.Devices[i])
	}
	return infer.Ask(key, ms, choices, d.Seed, units)
}

// More returns further cases to measure, given the measurements so far; the list is empty if every row is
// known well enough. cases and samples belong to the run. series are those measured only in part, and choices
// their kernels. inferred is how many rows are known without being measured. It adds
//
//   - rows whose predicted time is uncertain by more than 0.5 %, or if noise is large, clearly
//     less certain than measured rows;
//   - rows that decide a verdict: undecided ones, and the reference of rows that are not clean;
//   - all rows of a family whose check rows lie off its line;
//   - the middle between two measured rows that ran different kernels, if the kernels between are unknown.
func (d Designer) More(series []results.PlannedSeries, choices map[results.SeriesKey]results.Choices, cases []results.Case,
	samples []results.Sample) (more []results.Case, inferred int, err error) {
	more, known, err := d.look(results.Inferred(series), choices, cases, samples)
	return more, known.Inferred, err
}

func (d Designer) look(asked map[results.SeriesKey][]int, choices map[results.SeriesKey]results.Choices, cases []results.Case,
	samples []results.Sample) ([]results.Case, infer.Inference, error) {
	var known infer.Inference
	cfg := d.Config
	if err := cfg.Validate(); err != nil {
		return nil, known, err
	}
	cfg.Method = rules.MethodInterval
	cases, err := OpenRows{Launched: d.Launched}.launched(cases)
	if err != nil {
		return nil, known, err
	}
	p := infer.Prepare(d.data(asked, choices, cases, samples), cfg.Basis())
	p.Looks, p.Planned = d.Looks, d.Looks
	wanted := make([]map[int]bool, len(p.Curves))
	stats.Each(len(p.Curves), func(k int) { wanted[k] = p.Curves[k].Wanting(stats.Quantiles{}) })
	verdictHangs(p, cfg, wanted)
	var out []results.Case
	for k, c := range p.Curves {
		if c.Families != nil {
			known.Add(c.Families.Count)
		}
		has := map[int]bool{}
		for _, r := range c.Series.Rows {
			has[r.Case.M] = true
		}
		for _, m := range slices.Sorted(maps.Keys(wanted[k])) {
			if !has[m] {
				out = append(out, results.Case{SeriesKey: c.Series.Key, M: m})
			}
		}
	}
	return out, known, nil
}

// verdictHangs adds inferred rows that decide a verdict of the first rule that is on.
func verdictHangs(p *infer.Estimates, cfg rules.Config, wanted []map[int]bool) {
	on := cfg.On()
	if len(on) == 0 {
		return
	}
	f := rules.NewFacts(p, cfg)
	for k, rows := range f.PanelOf(on[0]).Rows {
		c := p.Curves[k]
		if c.Families == nil {
			continue
		}
		contended := map[int]bool{}
		for i := range rows {
			j := &rows[i]
			if !j.Tested || j.Verdict == rules.Clean {
				continue
			}
			if isOpen(j) && c.Points[i].Inferred {
				wanted[k][c.Points[i].M] = true
			}
			for _, b := range j.Base {
				if c.Points[b].Inferred {
					wanted[k][c.Points[b].M] = true
				}
			}
			if len(j.Base) > 0 && isOpen(j) && !contended[j.Base[0]] {
				contended[j.Base[0]] = true
				for _, i := range contenders(j, cfg, p.Quantiles) {
					if c.Points[i].Inferred {
						wanted[k][c.Points[i].M] = true
					}
				}
			}
		}
	}
}

func (d Designer) data(asked map[results.SeriesKey][]int, choices map[results.SeriesKey]results.Choices, cases []results.Case,
	samples []results.Sample) infer.Data {
	data := infer.Data{Series: OpenRows{Ceilings: d.Ceilings}.series(cases, samples), Asked: asked, Choices: choices}
	data.Meta.Seed, data.Meta.Fingerprint.Devices = d.Seed, d.Devices
	if d.Clocks != nil {
		data.Meta.ReferenceClock = d.Clocks()
	}
	return data
}
