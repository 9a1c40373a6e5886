package rules

import (
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

const (
	// seedRows is how many rows of a family are measured first; families of at most fewRows are measured
	// whole.
	seedRows, fewRows = 5, 3
	// seedWidth is the half-width, as a share of the time, that seeds are expected to leave.
	seedWidth = 0.002
	// leastAdded and growth limit the rows added to a family at one look; growth is a multiple of the rows
	// measured so far. The scatter around the family's line is unknown until some measured rows are near each
	// other.
	leastAdded, growth = 4, 2
)

const (
	// coarse is the largest step, in rows, between measured rows of a series whose kernels are unknown. It
	// doubles above coarseRows rows, and again above 16 times as many.
	coarse, coarseRows = 8, 1024
)

// Designer chooses the rows to measure in series that are measured only in part, for a sweep. It is
// deterministic, and never removes an M that was measured.
type Designer struct {
	Config Config
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
	ms := s.Ms
	a := d.asking(s.SeriesKey, ms, choices)
	wanted := map[int]bool{}
	if len(choices) == 0 {
		step := coarse
		for n := coarseRows; len(ms) > n && step < 4*coarse; n *= 16 {
			step *= 2
		}
		for i := 0; i < len(ms); i += step {
			wanted[ms[i]] = true
		}
		if len(ms) > 0 {
			wanted[ms[len(ms)-1]] = true
		}
		for _, m := range ms {
			if a.check(m) {
				wanted[m] = true
			}
		}
		return ascending(wanted), nil
	}
	families, unknown := a.families(nil)
	for _, m := range unknown {
		wanted[m] = true
	}
	for _, f := range families {
		for i, r := range f.rows {
			if r.check || len(f.rows) <= fewRows {
				wanted[f.rows[i].m] = true
			}
		}
		if len(f.rows) > fewRows {
			for _, m := range f.seeds() {
				wanted[m] = true
			}
		}
	}
	return ascending(wanted), nil
}

func ascending(set map[int]bool) []int {
	out := make([]int, 0, len(set))
	for m := range set {
		out = append(out, m)
	}
	slices.Sort(out)
	return out
}

func (d Designer) asking(key results.SeriesKey, ms []int, choices results.Choices) asking {
	units := 0
	if i := slices.IndexFunc(d.Devices, func(s kernels.Spec) bool { return s.ID == key.Device }); i >= 0 {
		units = unitsOf(d.Devices[i])
	}
	return asking{key: key, ms: ms, choices: choices, check: drawChecks(key, d.Seed, len(choices) > 0), units: units}
}

// beforehand is the prior uncertainty of each term, as a share of a row's time, before a family is measured.
var beforehand = [terms]float64{0.1, 0.3, 0.3, 0.3}

// seeds chooses the first rows of a family: the ends, then always the least certain row, assuming that the
// time is a sum of the terms.
func (f *family) seeds() []int {
	l := &line{family: f, layout: f.layouts()[0], scatter: usualScatter, df: usualDF}
	all := make([]told, len(f.rows))
	var top [terms]float64
	for i, r := range f.rows {
		all[i] = told{m: r.m, logM: math.Log(float64(r.m)), x: f.terms(r, l.layout), se: leastScatter}
		for j, v := range all[i].x {
			top[j] = math.Max(top[j], v)
		}
	}
	for i := range all {
		// Assumes that the waves take most of the time.
		share := 0.1
		for j, part := range [terms]float64{0, 0.5, 0.2, 0.2} {
			if top[j] > 0 {
				share += part * all[i].x[j] / top[j]
			}
		}
		for j := range terms {
			if top[j] > 0 {
				all[i].h[j] = beforehand[j] * all[i].x[j] / top[j] / share
			}
		}
	}
	chosen := []int{0, len(all) - 1}
	for len(chosen) < seedRows {
		slices.Sort(chosen)
		l.rows = l.rows[:0]
		for _, i := range chosen {
			l.rows = append(l.rows, all[i])
		}
		from := make([]int, len(l.rows))
		for i := range from {
			from[i] = i
		}
		s := l.system(from)
		worst, at := seedWidth, -1
		for i := range all {
			if f.rows[i].check || slices.Contains(chosen, i) {
				continue
			}
			if p := l.foretell(s, &all[i]); p.SE > worst {
				worst, at = p.SE, i
			}
		}
		if at < 0 {
			break
		}
		chosen = append(chosen, at)
	}
	out := make([]int, len(chosen))
	for i, at := range chosen {
		out[i] = f.rows[at].m
	}
	return out
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
	samples []results.Sample) ([]results.Case, Inference, error) {
	var known Inference
	cfg := d.Config
	if err := cfg.Validate(); err != nil {
		return nil, known, err
	}
	cfg.Method = MethodInterval
	cases, err := OpenRows{Launched: d.Launched}.launched(cases)
	if err != nil {
		return nil, known, err
	}
	p := prepare(d.data(asked, choices, cases, samples), cfg.Basis())
	p.looks, p.planned = d.Looks, d.Looks
	wanted := make([]map[int]bool, len(p.curves))
	each(len(p.curves), func(k int) { wanted[k] = p.curves[k].wanting(stats.Quantiles{}) })
	verdictHangs(p, cfg, wanted)
	var out []results.Case
	for k, c := range p.curves {
		if c.inference != nil {
			known.add(c.inference.count)
		}
		has := map[int]bool{}
		for _, r := range c.series.Rows {
			has[r.Case.M] = true
		}
		for _, m := range ascending(wanted[k]) {
			if !has[m] {
				out = append(out, results.Case{SeriesKey: c.series.Key, M: m})
			}
		}
	}
	return out, known, nil
}

func (c *curve) wanting(q stats.Quantiles) map[int]bool {
	out := map[int]bool{}
	if c.inference == nil {
		return out
	}
	c.halve(c.inference.unknown, out)
	for _, f := range c.inference.families {
		switch {
		case f.line == nil, f.failed:
			for _, r := range f.rows {
				if r.point < 0 {
					out[r.m] = true
				}
			}
		default:
			f.refine(q, out)
		}
	}
	return out
}

func (c *curve) halve(unknown []int, out map[int]bool) {
	for i := 0; i < len(unknown); {
		// A measured point ends a stretch.
		end := i + 1
		at, _ := c.at(unknown[i])
		for end < len(unknown) && (at >= len(c.points) || unknown[end] < c.points[at].m) {
			end++
		}
		out[unknown[i+(end-i)/2]] = true
		i = end
	}
}

// refine adds the least certain row until each is known well enough. The certainty does not depend on the
// values to be measured.
func (f *fitted) refine(q stats.Quantiles, out map[int]bool) {
	l := *f.line
	l.rows = slices.Clone(l.rows)
	own := make([]float64, len(l.rows))
	for i, r := range l.rows {
		own[i] = r.se
	}
	noise := stats.Median(own)
	var open []familyRow
	for _, r := range f.rows {
		if r.point < 0 {
			open = append(open, r)
		}
	}
	// half[i] is the half-width of open row i, valid while no row is added near it.
	half := make([]float64, len(open))
	estimate := func(from, to int) {
		caster := l.forecaster()
		for i := from; i < to; i++ {
			if half[i] >= 0 {
				p := caster.predict(open[i])
				half[i] = q.Upper(outside, p.DF) * p.SE
			}
		}
	}
	estimate(0, len(open))
	for range leastAdded + growth*len(f.line.rows) {
		at := -1
		for i, h := range half {
			if h > f.wide && (at < 0 || h > half[at]) {
				at = i
			}
		}
		if at < 0 {
			return
		}
		half[at] = -1
		r := l.row(open[at])
		r.y, r.se = r.line, noise
		out[r.m] = true
		place, _ := slices.BinarySearchFunc(l.rows, r.m, func(t told, m int) int { return t.m - m })
		l.rows = slices.Insert(l.rows, place, r)
		below, above := l.rows[max(0, place-2)].m, l.rows[min(len(l.rows)-1, place+2)].m
		from, _ := slices.BinarySearchFunc(open, below, func(r familyRow, m int) int { return r.m - m })
		to, _ := slices.BinarySearchFunc(open, above, func(r familyRow, m int) int { return r.m - m })
		estimate(from, to)
	}
}

// verdictHangs adds inferred rows that decide a verdict of the first rule that is on.
func verdictHangs(p *prepared, cfg Config, wanted []map[int]bool) {
	on := cfg.On()
	if len(on) == 0 {
		return
	}
	f := newEvidence(p, cfg)
	for k, rows := range f.panel(entryOf(on[0])).rows {
		c := p.curves[k]
		if c.inference == nil {
			continue
		}
		contended := map[int]bool{}
		for i := range rows {
			j := &rows[i]
			if !j.tested || j.verdict == Clean {
				continue
			}
			if j.open() && c.points[i].inferred {
				wanted[k][c.points[i].m] = true
			}
			for _, b := range j.base {
				if c.points[b].inferred {
					wanted[k][c.points[b].m] = true
				}
			}
			if len(j.base) > 0 && j.open() && !contended[j.base[0]] {
				contended[j.base[0]] = true
				for _, i := range j.contenders(cfg, p.q) {
					if c.points[i].inferred {
						wanted[k][c.points[i].m] = true
					}
				}
			}
		}
	}
}

func (d Designer) data(asked map[results.SeriesKey][]int, choices map[results.SeriesKey]results.Choices, cases []results.Case,
	samples []results.Sample) Data {
	data := Data{Series: OpenRows{Ceilings: d.Ceilings}.series(cases, samples), Asked: asked, Choices: choices}
	data.Meta.Seed, data.Meta.Fingerprint.Devices = d.Seed, d.Devices
	if d.Clocks != nil {
		data.Meta.ReferenceClock = d.Clocks()
	}
	return data
}
