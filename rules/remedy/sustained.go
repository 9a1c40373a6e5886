package remedy

import (
	"cmp"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// AddSustained is [rules.Audit.AddSustained] for remedies.
func (r *Result) AddSustained(data infer.Data, cfg rules.Config) {
	times := rules.NewSustainedTimes(data.Sustained)
	bound := rules.MarginLoss(cfg.Remedy.Margin)
	add := func(key results.SeriesKey, r *rules.Remedy) {
		direct := results.Case{SeriesKey: key, M: r.M}
		if r.Sustained = times.Pair(direct, r.Case(direct), 1); r.Sustained != nil {
			pays := r.Pays || !r.Executed && 1-r.PredictedUS/r.DirectUS > bound
			r.Sustained.SeenIn = rules.Seen(pays, r.Sustained.Loss > bound)
		}
	}
	for _, rows := range [][]Row{r.Splits, r.Rejected} {
		for i := range rows {
			add(rows[i].Series, &rows[i].Remedy)
		}
	}
	for _, s := range r.Stretches {
		for i := range s.Proofs {
			add(s.Series, &s.Proofs[i])
		}
	}
}

// ToSustain lists the cases worth running alone, the largest time at stake first: the worst row of each
// confirmed finding and its reference, and each direct product and its remedy that pays. Cases of one element
// belong together; elements are unique. Either argument may be nil.
func ToSustain(a *rules.Audit, r *Result) [][]results.Case {
	type entry struct {
		cases []results.Case
		stake float64
	}
	var all []entry
	if a != nil {
		for _, f := range a.Findings {
			if f.Status != rules.Confirmed || f.Cause == cause.MeasurementError {
				continue
			}
			e := entry{[]results.Case{f.Worst().Real()}, f.StakeUS}
			if f.Against != nil {
				e.cases = append(e.cases, f.Against.Real())
			} else if f.Rule != rules.Roofline {
				continue
			}
			all = append(all, e)
		}
	}
	if r != nil {
		add := func(key results.SeriesKey, r rules.Remedy) {
			if r.Pays {
				direct := results.Case{SeriesKey: key, M: r.M}
				all = append(all, entry{[]results.Case{direct.Real(), r.Case(direct).Real()}, r.StakeUS})
			}
		}
		for _, row := range r.Splits {
			add(row.Series, row.Remedy)
		}
		for _, s := range r.Stretches {
			for _, proof := range s.Proofs {
				add(s.Series, proof)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b entry) int { return cmp.Compare(b.stake, a.stake) })
	var out [][]results.Case
	seen := map[[2]results.CaseKey]bool{}
	for _, e := range all {
		var key [2]results.CaseKey // a row, with its reference if it has one
		for i, c := range e.cases {
			key[i] = c.Key()
		}
		if !seen[key] {
			seen[key], out = true, append(out, e.cases)
		}
	}
	return out
}
