package choose

import (
	"cmp"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// wideLoss is the width of the interval around an anomalous row's loss, as a share of the loss, above which
// the row gets more samples. It also keeps measuring a row that passed the threshold by luck.
const wideLoss = 0.5

// OpenRows chooses the cases of a sweep that need further rounds; package sweep calls it a chooser. These
// rows are open:
//
//   - undecided rows, by any rule but split, whose times come from rows that
//     the other rules judge;
//   - anomalous rows whose loss has an interval wider than half of it;
//   - the references of those rows, and the rows of smaller M that may be the
//     reference;
//   - the control rows, which separate a slow round from slow rows:
//     forty per device, and at most a quarter of its rows.
//
// If the first three are empty, the sweep is done.
type OpenRows struct {
	Config rules.Config
	// Ceilings are the peaks by device id. A device without ceilings skips the rules that need a peak.
	Ceilings map[string]kernels.Ceilings
	// Looks is the most looks that the sweep may take (see [infer.LooksAt]); 0 means one. The significance level is
	// spent over them from the first, as in the audit.
	Looks int
	// Clocks returns the devices' reference clocks in MHz as the sweep has stored them so far; nil takes them
	// from the samples.
	Clocks func() map[string]float64
	// Asked are the Ms of series that are measured only in part, and Choices the kernels that would run at
	// them. Devices are the specs of the devices, and Seed is the plan's. Rows not measured are inferred and
	// judged as in the audit.
	Asked   map[results.SeriesKey][]int
	Choices map[results.SeriesKey]results.Choices
	Devices []kernels.Spec
	Seed    uint64
	// Launched returns the cases of the run as stored so far, with the kernels that ran; nil uses the cases
	// as given.
	Launched func() ([]results.Case, error)
}

// Open returns the ids of the open cases, in the order of cases. The result depends only on the arguments,
// not on the order of samples. It returns an error if the Config is out of range.
func (o OpenRows) Open(cases []results.Case, samples []results.Sample) ([]int64, error) {
	cfg := o.Config
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Method = rules.MethodInterval // the article's method has no undecided verdict
	if cfg.Rules.Monotonic.Enabled {
		cfg.Rules.Split.Enabled = false
	}
	cases, err := o.launched(cases)
	if err != nil {
		return nil, err
	}
	series := o.series(cases, samples)
	data := infer.Data{Series: series, Asked: o.Asked, Choices: o.Choices}
	data.Meta.Seed, data.Meta.Fingerprint.Devices = o.Seed, o.Devices
	if o.Clocks != nil {
		data.Meta.ReferenceClock = o.Clocks()
	}
	p := infer.Prepare(data, cfg.Basis())
	p.Looks, p.Planned = o.Looks, o.Looks
	open := map[int64]bool{}
	for _, c := range p.Curves {
		if len(c.Points) < len(c.Series.Rows) {
			// Rows without samples: package sweep knows which of them have failed.
			for _, r := range c.Series.Rows {
				if len(r.Samples) == 0 {
					open[r.Case.ID] = true
				}
			}
		}
	}
	for _, pn := range rules.Judge(p, cfg) {
		for _, rows := range pn.Rows {
			contended := map[int]bool{} // references whose contenders are open already
			for i := range rows {
				j := &rows[i]
				if !isOpen(j) {
					continue
				}
				open[idOf(j, j.Point)] = true
				openReference(j, open)
				if pn.Rule == rules.Monotonic && j.Tested && !contended[j.Base[0]] {
					contended[j.Base[0]] = true
					openContenders(j, open, cfg, p.Quantiles)
				}
			}
		}
	}
	if len(open) == 0 {
		return nil, nil
	}
	for _, c := range p.Curves {
		for i, is := range c.Control {
			if is {
				open[c.Series.Rows[i].Case.ID] = true
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

func isOpen(j *rules.Judgement) bool {
	switch j.Verdict {
	case rules.Undecided:
		return true
	case rules.Anomalous:
		return j.Loss.Hi-j.Loss.Lo > wideLoss*math.Abs(j.Loss.Mid)
	}
	return false
}

const mostContenders = 4

func openContenders(j *rules.Judgement, open map[int64]bool, cfg rules.Config, q stats.Quantiles) {
	for _, i := range contenders(j, cfg, q) {
		open[idOf(j, i)] = true
	}
}

// contenders are the rows of smaller M that may be faster than the reference within noise, the largest first.
func contenders(j *rules.Judgement, cfg rules.Config, q stats.Quantiles) (points []int) {
	reference := j.Curve.Points[j.Point].Flops - j.Enough
	type row struct {
		point int
		most  float64
	}
	var rows []row
	for i, p := range j.Curve.Points[:j.Point] {
		if p.Serves(cfg.MinSamples) {
			if most := p.Rate() + q.Upper((1-cfg.Confidence)/2, p.US.DF)*p.US.SE; most > reference {
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

func idOf(j *rules.Judgement, point int) int64 {
	return j.Curve.CaseOf(point).ID
}

func openReference(j *rules.Judgement, open map[int64]bool) {
	if !j.Tested {
		return
	}
	for _, i := range j.Base {
		open[idOf(j, i)] = true
	}
	if to := j.Against.PadTo; to > 0 {
		if i, ok := j.Curve.At(to); ok {
			open[idOf(j, i)] = true
		}
	}
	for _, m := range j.Against.Parts {
		if i, ok := j.Curve.At(m); ok {
			open[idOf(j, i)] = true
		}
	}
	if j.Against.M > 0 && j.Against.PadTo == 0 && len(j.Against.Parts) == 0 {
		open[j.Against.ID] = true
	}
}
