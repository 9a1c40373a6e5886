package problem

import (
	"maps"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

func (f *finder) problem(g *group) *Problem {
	p := &Problem{Place: g.items[0].place, FromM: g.from, ToM: g.to, Status: rules.Suspected}
	kernelsOf, devices, byRule := map[string]bool{}, map[string]bool{}, map[rules.Rule]bool{}
	p.slow = map[int]bool{}
	var worst *rules.Finding
	var best *rules.Remedy
	var bestOf results.SeriesKey
	saved := map[results.SeriesKey]float64{} // by series, since libraries that launch the same kernel are one
	lost := map[int]float64{}                // by part
	for _, it := range g.items {
		kernelsOf[it.series.Kernel], devices[it.series.Device] = true, true
		slow := f.between(it.series, it.from, it.to)
		if it.finding != nil {
			slow = it.finding.Among(slow)
		}
		for _, m := range slow {
			p.slow[m] = true
		}
		if d := it.finding; d != nil {
			byRule[d.Rule] = true
			p.Findings = append(p.Findings, d.ID)
			p.Status = stronger(p.Status, d.Status)
			p.Baseline = newer(p.Baseline, d.Baseline)
			lost[it.part] = max(lost[it.part], d.StakeUS)
			if worst == nil || outweighs(d, worst) {
				worst = d
			}
			if r := f.predicted(d); r != nil && better(r, best) {
				best, bestOf = r, it.series
			}
			elsewhere := d.Rule == rules.Alternative || d.Rule == rules.Fusion
			if against := d.Against; against != nil && elsewhere && !f.engine(it.series.Device, against.Kernel) {
				p.Possible = against.Kernel
			}
			continue
		}
		saved[it.series] += it.stake
		p.Status = rules.Confirmed
		for i := range it.remedies {
			if r := &it.remedies[i]; better(r, best) {
				best, bestOf = r, it.series
			}
		}
	}
	p.Kernels, p.Devices, p.Sizes = sorted(kernelsOf), sorted(devices), len(p.slow)
	for _, r := range rules.AllRules() {
		if byRule[r] {
			p.Rules = append(p.Rules, r)
		}
	}
	p.Own = f.own(g.items[0].series)
	if worst != nil {
		p.Series, p.M, p.Cause, p.Explanation = worst.Series, worst.WorstM, worst.Cause, worst.Explanation
		p.US = f.times[worst.Series][worst.WorstM]
		for _, us := range slices.Sorted(maps.Values(lost)) { // sums of floats depend on their order
			p.WorthUS += us
		}
		if loss := worst.Loss; best == nil && loss.Lo > 0 && loss.Mid < 1 && !p.Impossible() {
			p.ExpectedUS = p.US * (1 - loss.Mid)
		}
	}
	if worst != nil && best == nil && !p.OnlyPossible() && !p.OnlyCeiling() {
		p.Tried = f.tried(row{worst.Series, worst.WorstM})
	}
	if best != nil {
		f.remedied(p, best, bestOf)
		for _, it := range g.items { // a known cause of that row
			if d := it.finding; d != nil && d.Cause != "" && d.Cause != cause.Unknown && d.Series == p.Series && d.WorstM == p.M {
				p.Cause, p.Explanation = d.Cause, d.Explanation
				break
			}
		}
	}
	if p.Groups > 0 {
		p.Others = othersOf(g.items, p.Series)
	}
	if p.Proven() {
		p.Status = rules.Confirmed
		p.WorthUS = p.Remedy.StakeUS
		for _, us := range saved {
			p.WorthUS = max(p.WorthUS, us)
		}
	}
	return p
}

// tried is the remedy of a row that was run and gains, if nothing but the number of rounds is against it.
func (f *finder) tried(at row) *rules.Remedy {
	r, ok := f.rejected[at]
	if !ok || r.Unsteady || r.Gain.Lo <= 1 || r.AdjustedP <= f.fdr {
		return nil
	}
	return &r
}

// othersOf lists the kernels that were proven faster than a series, by M.
func othersOf(items []*item, of results.SeriesKey) []Other {
	var out []Other
	for _, it := range items {
		if it.series != of || len(it.remedies) == 0 || it.remedies[0].Kind != rules.RemedyOther {
			continue
		}
		kernel := it.remedies[0].Kernel // of all rows of a stretch
		if last := len(out) - 1; last >= 0 && out[last].Kernel == kernel {
			out[last].ToM = max(out[last].ToM, it.to)
			continue
		}
		out = append(out, Other{kernel, it.from, it.to})
	}
	return out
}

// predicted is nil if no engine can apply the remedy, or it was executed and does not pay.
func (f *finder) predicted(d *rules.Finding) *rules.Remedy {
	at := row{d.Series, d.WorstM}
	tried := f.rejected[at]
	if d.Against == nil || d.Loss.Lo <= 0 || d.Loss.Mid >= 1 || tried.M != 0 && !tried.Unsteady {
		return nil
	}
	r := rules.Remedy{M: d.WorstM, DirectUS: f.times[d.Series][d.WorstM]}
	switch d.Rule {
	case rules.SplitRule:
		r.Kind, r.Parts = rules.RemedySplit, d.Against.Parts
	case rules.Pad:
		r.Kind, r.PadTo, r.Pad = remedy.PadsAlong(d.Series.Subject), max(d.Against.PadTo, d.ReferenceM), table.InPlace
	case rules.Alternative, rules.Fusion:
		r.Kind, r.Kernel = rules.RemedyOther, d.Against.Kernel
	default:
		return nil
	}
	if r.Kind == rules.RemedySplit && len(r.Parts) == 0 || r.Kind == "" || r.Kind.Pads() && r.PadTo <= r.M ||
		!f.applies(d.Series.Device, r.Kind, r.Kernel) {
		return nil
	}
	if paid, ok := f.paid[at]; ok && paid.Kind == r.Kind {
		return &paid
	}
	r.Unsteady, r.ExtraBytes = tried.M != 0, r.PaddingBytes(d.Series.Subject)
	r.PredictedUS = r.DirectUS * (1 - d.Loss.Mid)
	r.StakeUS = d.StakeUS
	return &r
}

func (f *finder) remedied(p *Problem, r *rules.Remedy, of results.SeriesKey) {
	p.Remedy, p.Series, p.M, p.US = r, of, r.M, r.DirectUS
	if r.Executed {
		p.BetterUS, p.Gain = r.ExecutedUS.Mid, r.Gain
		return
	}
	gain := r.DirectUS / r.PredictedUS
	p.BetterUS, p.Gain = r.PredictedUS, stats.Interval{Lo: gain, Mid: gain, Hi: gain}
}

// better compares two remedies by gain; a prediction counts half.
func better(r, than *rules.Remedy) bool {
	gain := func(r *rules.Remedy) float64 {
		switch {
		case r.Pays:
			return r.Gain.Mid - 1
		case r.PredictedUS > 0:
			return (r.DirectUS/r.PredictedUS - 1) / 2
		}
		return 0
	}
	return than == nil || gain(r) > gain(than)
}

// outweighs reports whether d represents a problem rather than than.
func outweighs(d, than *rules.Finding) bool {
	if a, b := rank(d.Status), rank(than.Status); a != b {
		return a < b
	}
	// Another product's or kernel's time is within reach; a ceiling may not be.
	if (d.Against != nil) != (than.Against != nil) {
		return d.Against != nil
	}
	return d.Loss.Lo > than.Loss.Lo
}

var byAge = []rules.BaselineState{rules.BaselineNew, rules.BaselineGrown, rules.BaselineKnown}

func newer(a, b rules.BaselineState) rules.BaselineState {
	for _, s := range byAge {
		if a == s || b == s {
			return s
		}
	}
	return ""
}

func rank(s rules.Status) int {
	return slices.Index([]rules.Status{rules.Confirmed, rules.Unconfirmed, rules.Suspected}, s)
}

func stronger(a, b rules.Status) rules.Status {
	if rank(b) < rank(a) {
		return b
	}
	return a
}

func sorted(set map[string]bool) []string {
	out := make([]string, 0, len(set))
	for k := range set {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
