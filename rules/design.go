package rules

import (
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

const (
	// seedRows is how many rows of a family are measured before anything is known of it;
	// families of fewRows and fewer are measured whole.
	seedRows, fewRows = 5, 3
	// seedWidth is the half-width, as a share of the time, that seeds are thought to leave.
	seedWidth = 0.002
	// leastAdded and growth bound the rows that are added to a family at one look, the latter as a
	// multiple of those that were measured: how far rows scatter around its line is not known
	// before some lie near each other.
	leastAdded, growth = 4, 2
	// coarse is the largest number of rows from one measured to the next in series of which nothing
	// is told; it doubles in series of more than coarseRows, and again of 16 times as many.
	coarse, coarseRows = 8, 1024
)

// Designer chooses the rows of series of which not every one has to be measured, for a sweep. It
// answers equal questions equally. An M that is measured is never given back.
type Designer struct {
	Config Config
	// Ceilings are the devices' by id, Devices what is known of them.
	Ceilings map[string]kernels.Ceilings
	Devices  []kernels.Spec
	// Looks is how many looks the sweep may take in all; see [OpenRows].
	Looks int
	// Clocks tells the devices' reference clocks in MHz as the sweep has stored them so far; nil
	// takes them from the samples.
	Clocks func() map[string]float64
	// Launched tells the cases of the run as it has stored them so far; see [OpenRows].
	Launched func() ([]results.Case, error)
	// Seed is that of the plan, by which check rows are drawn.
	Seed uint64
}

// Seeds returns the Ms of a series, of those that were asked, that are measured first: of each
// kernel that would run the ends, and between them where least is known, as far as that follows from tiles and
// waves; families of three rows whole; and the check rows. Both lists ascend.
//
// Where nothing was told every eighth M is measured, and every 16th or 32nd of more than 1024
// or 16 384: what begins and ends between two of them is found by check rows alone. Of cuBLAS
// on an H200, every eighth M of a grid of 8, a third of what would be inferred is wrong for
// that, and half of the check rows say so: such a series is measured row by row.
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

// beforehand is by how much of a row's time each term is doubted before anything of a family
// was measured.
var beforehand = [terms]float64{0.1, 0.3, 0.3, 0.3}

// seeds chooses the first rows of a family: the ends, then always the row that is known least,
// given that the time is made up of the terms.
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
		// As if the waves took most of the time.
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
			if p := l.foretell(s, &all[i]); p.se > worst {
				worst, at = p.se, i
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

// More returns further cases to measure, given what was measured so far; none when every row is
// known well enough. cases and samples are those of the run, series those of which not every M has
// to be measured, choices what was told of them; inferred is how many rows are known without being
// measured. Wanted are
//
//   - rows whose time their family's line does not foretell to 0.5 %, or where noise is large hardly
//     worse than it is known of measured rows;
//   - rows on which a verdict hangs: undecided ones, and the reference of rows that are not clean;
//   - all rows of a family whose check rows lie off its line;
//   - the middle between two measured rows that ran different kernels, where nothing was told.
func (d Designer) More(series []results.PlannedSeries, choices map[results.SeriesKey]results.Choices, cases []results.Case, samples []results.Sample) (more []results.Case, inferred int, err error) {
	more, known, err := d.look(results.Inferred(series), choices, cases, samples)
	return more, known.Inferred, err
}

// look is [Designer.More], and says what is known of the rows so far.
func (d Designer) look(asked map[results.SeriesKey][]int, choices map[results.SeriesKey]results.Choices, cases []results.Case, samples []results.Sample) ([]results.Case, Inference, error) {
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
	p := prepare(d.data(asked, choices, cases, samples), cfg)
	p.looks, p.planned = d.Looks, d.Looks
	wanted := make([]map[int]bool, len(p.curves))
	each(len(p.curves), func(k int) { wanted[k] = p.curves[k].wanting(quantiles{}) })
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

// wanting lists the Ms of a curve that are foretold too loosely, by what was measured.
func (c *curve) wanting(q quantiles) map[int]bool {
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

// halve adds the middle of every stretch of rows of which no kernel is known.
func (c *curve) halve(unknown []int, out map[int]bool) {
	for i := 0; i < len(unknown); {
		// A stretch ends where a point lies between.
		end := i + 1
		at, _ := c.at(unknown[i])
		for end < len(unknown) && (at >= len(c.points) || unknown[end] < c.points[at].m) {
			end++
		}
		out[unknown[i+(end-i)/2]] = true
		i = end
	}
}

// refine adds rows, always the one that is known least, until each is known well enough: how
// well does not depend on what will be measured.
func (f *fitted) refine(q quantiles, out map[int]bool) {
	l := *f.line
	l.rows = slices.Clone(l.rows)
	own := make([]float64, len(l.rows))
	for i, r := range l.rows {
		own[i] = r.se
	}
	noise := median(own)
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
				half[i] = q.upper(outside, p.df) * p.se
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

// verdictHangs adds inferred rows on which a verdict of the first rule that is on hangs.
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

// data is what was measured so far, as a run would give it.
func (d Designer) data(asked map[results.SeriesKey][]int, choices map[results.SeriesKey]results.Choices, cases []results.Case, samples []results.Sample) Data {
	data := Data{Series: OpenRows{Ceilings: d.Ceilings}.series(cases, samples), Asked: asked, Choices: choices}
	data.Meta.Seed, data.Meta.Fingerprint.Devices = d.Seed, d.Devices
	if d.Clocks != nil {
		data.Meta.ReferenceClock = d.Clocks()
	}
	return data
}
