package rules

import (
	"cmp"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// wideLoss is the width of the interval around the loss of an anomalous row, as a
// share of the loss, above which more samples are worth their time. It also
// keeps a row that got past the bound by luck from being left at that.
const wideLoss = 0.5

// OpenRows chooses the cases of a sweep for which further rounds would help; it
// is what package sweep calls a chooser. Open are
//
//   - rows that no verdict could be reached on, by any of the rules but split,
//     whose prices come from rows that the others judge;
//   - anomalous rows whose loss is known too loosely: the interval is wider than
//     half of it;
//   - what those rows are held against, so that both sides get better known, and of
//     smaller M the rows that contend for the reference;
//   - the control rows, by which the audit tells a slow round from slow rows:
//     forty of a device, and at most a quarter of its rows.
//
// When the first three are empty nothing is open, and a sweep is done.
type OpenRows struct {
	Config Config
	// Ceilings are the devices' by id. Where there are none the rules that need a
	// peak have no say.
	Ceilings map[string]kernels.Ceilings
	// Looks is how many looks the sweep may take in all (see [LooksAt]); 0 is one. The
	// level is spent over them from the first on, as the audit will.
	Looks int
	// Clocks tells the devices' reference clocks in MHz as the sweep has stored them so far; nil
	// takes them from the samples.
	Clocks func() map[string]float64
	// Asked are the Ms of series of which not every one has to be measured, Choices what would
	// run at them, Devices what is known of the devices and Seed that of the plan: rows
	// that were not measured are inferred and judged as in the audit.
	Asked   map[results.SeriesKey][]int
	Choices map[results.SeriesKey]results.Choices
	Devices []kernels.Spec
	Seed    uint64
	// Launched tells the cases of the run as it has stored them so far, with the kernels that ran;
	// nil takes the cases as they are given.
	Launched func() ([]results.Case, error)
}

// Open returns the ids of the open ones of cases, in their order. It depends on
// nothing but its arguments, not even on the order of samples. The error is that
// of a Config that is out of range.
func (o OpenRows) Open(cases []results.Case, samples []results.Sample) ([]int64, error) {
	cfg := o.Config
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Method = MethodInterval // the article's knows no open verdict
	if cfg.Rules.Monotonic.Enabled {
		cfg.Rules.Split.Enabled = false
	}
	cases, err := o.launched(cases)
	if err != nil {
		return nil, err
	}
	series := o.series(cases, samples)
	data := Data{Series: series, Asked: o.Asked, Choices: o.Choices}
	data.Meta.Seed, data.Meta.Fingerprint.Devices = o.Seed, o.Devices
	if o.Clocks != nil {
		data.Meta.ReferenceClock = o.Clocks()
	}
	p := prepare(data, cfg)
	p.looks, p.planned = o.Looks, o.Looks
	open := map[int64]bool{}
	for _, c := range p.curves {
		if len(c.points) < len(c.series.Rows) {
			// Without any sample: package sweep knows which of them have failed.
			for _, r := range c.series.Rows {
				if len(r.Samples) == 0 {
					open[r.Case.ID] = true
				}
			}
		}
	}
	for _, pn := range judge(p, cfg) {
		for _, rows := range pn.rows {
			contended := map[int]bool{} // references whose contenders are open already
			for i := range rows {
				j := &rows[i]
				if !j.open() {
					continue
				}
				open[j.id(j.point)] = true
				j.openReference(open)
				if pn.rule == Monotonic && j.tested && !contended[j.base[0]] {
					contended[j.base[0]] = true
					j.openContenders(open, cfg, p.q)
				}
			}
		}
	}
	if len(open) == 0 {
		return nil, nil
	}
	for _, c := range p.curves {
		for i, is := range c.control {
			if is {
				open[c.series.Rows[i].Case.ID] = true
			}
		}
	}
	var out []int64
	for _, c := range cases {
		if open[c.ID] {
			out = append(out, c.ID)
		}
	}
	return out, nil
}

// launched are the cases with the kernels that ran, as far as those are known.
func (o OpenRows) launched(cases []results.Case) ([]results.Case, error) {
	if o.Launched == nil {
		return cases, nil
	}
	stored, err := o.Launched()
	if err != nil {
		return nil, err
	}
	by := make(map[int64]*results.Case, len(stored))
	for i := range stored {
		by[stored[i].ID] = &stored[i]
	}
	out := slices.Clone(cases)
	for i := range out {
		if s := by[out[i].ID]; s != nil {
			out[i].Label, out[i].Launch = s.Label, s.Launch
		}
	}
	return out, nil
}

// series arranges cases and samples as curves, as a run file would give them.
func (o OpenRows) series(cases []results.Case, samples []results.Sample) []results.Series {
	type place struct{ series, row int }
	var out []results.Series
	at := map[results.SeriesKey]int{}
	for _, c := range cases {
		if len(c.Parts) > 0 || c.PadTo > 0 {
			continue
		}
		i, ok := at[c.SeriesKey]
		if !ok {
			i = len(out)
			at[c.SeriesKey] = i
			ceilings := o.Ceilings[c.Device]
			peak, _ := ceilings.Roof(c.Subject)
			out = append(out, results.Series{Key: c.SeriesKey, Peak: peak, Bandwidth: ceilings.Bandwidth(c.Operation)})
		}
		out[i].Rows = append(out[i].Rows, results.Row{Case: c})
	}
	rows := map[int64]place{}
	for i := range out {
		slices.SortStableFunc(out[i].Rows, func(a, b results.Row) int { return cmp.Compare(a.Case.M, b.Case.M) })
		for j, r := range out[i].Rows {
			rows[r.Case.ID] = place{i, j}
		}
	}
	count := make(map[int64]int, len(rows))
	for i := range samples {
		count[samples[i].CaseID]++
	}
	for _, s := range samples {
		if p, ok := rows[s.CaseID]; ok {
			r := &out[p.series].Rows[p.row]
			if r.Samples == nil {
				r.Samples = make([]results.Sample, 0, count[s.CaseID])
			}
			r.Samples = append(r.Samples, s)
		}
	}
	for i := range out {
		for j := range out[i].Rows {
			slices.SortStableFunc(out[i].Rows[j].Samples, func(a, b results.Sample) int { return cmp.Compare(a.Seq, b.Seq) })
		}
	}
	return out
}

// open says whether more samples of a row would help its verdict.
func (j *judgement) open() bool {
	switch j.verdict {
	case Undecided:
		return true
	case Anomalous:
		return j.loss.Hi-j.loss.Lo > wideLoss*math.Abs(j.loss.Mid)
	}
	return false
}

// mostContenders is how many rows that may be the reference as well are better known for an
// open row.
const mostContenders = 4

// openContenders adds the rows that contend for the reference.
func (j *judgement) openContenders(open map[int64]bool, cfg Config, q quantiles) {
	for _, i := range j.contenders(cfg, q) {
		open[j.id(i)] = true
	}
}

// contenders are the rows of smaller M that may well be faster than the reference: the largest
// of what noise leaves possible.
func (j *judgement) contenders(cfg Config, q quantiles) (points []int) {
	reference := j.curve.points[j.point].flops - j.enough
	type row struct {
		point int
		most  float64
	}
	var rows []row
	for i, p := range j.curve.points[:j.point] {
		if p.serves(cfg.MinSamples) {
			if most := p.rate() + q.upper((1-cfg.Confidence)/2, p.us.df)*p.us.se; most > reference {
				rows = append(rows, row{i, most})
			}
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(b.most, a.most) })
	for _, r := range rows[:min(mostContenders, len(rows))] {
		points = append(points, r.point)
	}
	return points
}

// id is the case of a point of the judged curve.
func (j *judgement) id(point int) int64 {
	return j.curve.caseOf(point).ID
}

// openReference adds what the row is held against.
func (j *judgement) openReference(open map[int64]bool) {
	if !j.tested {
		return
	}
	for _, i := range j.base {
		open[j.id(i)] = true
	}
	if to := j.against.PadTo; to > 0 {
		if i, ok := j.curve.at(to); ok {
			open[j.id(i)] = true
		}
	}
	for _, m := range j.against.Parts {
		if i, ok := j.curve.at(m); ok {
			open[j.id(i)] = true
		}
	}
	if j.against.M > 0 && j.against.PadTo == 0 && len(j.against.Parts) == 0 {
		open[j.against.ID] = true
	}
}
