package rules

import (
	"slices"
	"strconv"

	"github.com/gemmaudit/gemmaudit/results"
)

// Proof is the result of measuring a run again, kept in the run for audits without a device: rule by rule,
// before any waiver.
type Proof struct {
	Rules []RuleProof `json:"rules"`
}

// RuleProof is the proof of one rule with everything that it rests on.
type RuleProof struct {
	Rule Rule `json:"rule"`
	// Settings are the values of the keys that affect this rule's verdicts, Samples the number of samples of
	// the sweep.
	Settings map[string]string `json:"settings"`
	Samples  int               `json:"samples"`
	Findings []Finding         `json:"findings"`
	// Rows are those whose verdict differs from the sweep's.
	Rows []SeriesProof `json:"rows,omitempty"`
	// Warnings are the audit's.
	Warnings []Warning `json:"warnings,omitempty"`
}

// SeriesProof is the rows of one series whose verdict changed.
type SeriesProof struct {
	Series results.SeriesKey `json:"series"`
	Rows   []RowProof        `json:"rows"`
}

// RowProof is the verdict of a row after it, or a row that represents it, was measured again.
type RowProof struct {
	M         int     `json:"m"`
	Verdict   Verdict `json:"verdict"`
	AdjustedP float64 `json:"p_adjusted"`
}

func verdictsOf(panels []Panel) [][][]RowProof {
	out := make([][][]RowProof, len(panels))
	for i, pn := range panels {
		out[i] = make([][]RowProof, len(pn.Rows))
		for k, rows := range pn.Rows {
			out[i][k] = make([]RowProof, len(rows))
			for at := range rows {
				out[i][k][at] = RowProof{rows[at].M(), rows[at].Verdict, rows[at].adjusted}
			}
		}
	}
	return out
}

func retested(panels []Panel, noted [][][]RowProof) map[Rule][]SeriesProof {
	out := map[Rule][]SeriesProof{}
	for i, pn := range panels {
		for k, rows := range pn.Rows {
			var changed []RowProof
			for at := range rows {
				if is := (RowProof{rows[at].M(), rows[at].Verdict, rows[at].adjusted}); is != noted[i][k][at] {
					changed = append(changed, is)
				}
			}
			if len(changed) > 0 {
				out[pn.Rule] = append(out[pn.Rule], SeriesProof{rows[0].Curve.Series.Key, changed})
			}
		}
	}
	return out
}

// NewProof extracts the proof to keep from an audit that used the device, by cfg and without waivers. samples
// is the number of samples of the sweep (see [infer.Data.Samples]).
func NewProof(a *Audit, cfg Config, samples int) *Proof {
	p := &Proof{Rules: []RuleProof{}}
	for _, rule := range cfg.On() {
		r := RuleProof{Rule: rule, Settings: settingsOf(rule, cfg), Samples: samples, Findings: []Finding{}, Rows: a.retested[rule],
			Warnings: a.Warnings}
		for _, f := range a.Findings {
			if f.Rule == rule {
				f.Sustained = nil // recomputed from samples, which may be added later
				r.Findings = append(r.Findings, f)
			}
		}
		p.Rules = append(p.Rules, r)
	}
	return p
}

// Renew replaces the proof of the rules in newer; other rules keep theirs.
func (p *Proof) Renew(newer *Proof) {
	for _, r := range newer.Rules {
		i := slices.IndexFunc(p.Rules, func(old RuleProof) bool { return old.Rule == r.Rule })
		if i < 0 {
			p.Rules = append(p.Rules, r)
		} else {
			p.Rules[i] = r
		}
	}
}

// Accept replaces the sweep's verdicts by kept proof, for every rule that is on and whose proof is valid
// under cfg for that number of samples. a is an audit by cfg without a device and without waivers. It returns
// the reasons why proof of rules that are on is invalid, one per key.
func (a *Audit) Accept(p *Proof, cfg Config, samples int) []Undone {
	var undone []Undone
	var warnings []Warning
	note := func(rule Rule, keys []Undone) {
		for _, u := range keys {
			i := slices.IndexFunc(undone, func(o Undone) bool { return o.Key == u.Key && o.Old == u.Old && o.New == u.New })
			if i < 0 {
				i, undone = len(undone), append(undone, u)
			}
			undone[i].Rules = append(undone[i].Rules, rule)
		}
	}
	for _, rule := range cfg.On() {
		i := slices.IndexFunc(p.Rules, func(r RuleProof) bool { return r.Rule == rule })
		if i < 0 {
			continue
		}
		r := p.Rules[i]
		why := Changed(r.Settings, settingsOf(rule, cfg))
		if r.Samples != samples {
			why = append(why, Undone{Key: "samples", Old: strconv.Itoa(r.Samples), New: strconv.Itoa(samples)})
		}
		if len(why) > 0 {
			note(rule, why)
			continue
		}
		a.Findings = append(slices.DeleteFunc(a.Findings, func(f Finding) bool { return f.Rule == rule }), r.Findings...)
		if a.RowRule == rule {
			a.acceptRows(r)
		}
		if rule == Fusion {
			a.settleFusing(r.Rows)
		}
		warnings = append(warnings, r.Warnings...)
	}
	warnings = append(warnings, a.Warnings...)
	a.Warnings = nil
	told := make(map[Warning]bool, len(warnings))
	for _, w := range warnings {
		if !told[w] {
			told[w] = true
			a.Warnings = append(a.Warnings, w)
		}
	}
	sortFindings(a.Findings)
	return undone
}

func (a *Audit) acceptRows(r RuleProof) {
	a.Undecided, a.Marginal = 0, 0
	type place struct {
		series results.SeriesKey
		m      int
	}
	proven := map[place]RowProof{}
	for _, p := range r.Rows {
		for _, row := range p.Rows {
			proven[place{p.Series, row.M}] = row
		}
	}
	findings := FindingsBySeries(r.Findings)
	for i := range a.Series {
		s := &a.Series[i]
		own := findings[s.Key]
		s.Flagged = []int{}
		for k := range s.Rows {
			row := &s.Rows[k]
			if p, ok := proven[place{s.Key, row.M}]; ok {
				row.Verdict, row.AdjustedP, row.Cause = p.Verdict, p.AdjustedP, ""
			}
			switch row.Verdict {
			case Anomalous:
				s.Flagged = append(s.Flagged, row.M)
				if i := slices.IndexFunc(own, func(f *Finding) bool { return f.FromM <= row.M && row.M <= f.ToM }); i >= 0 {
					row.Cause = own[i].Cause
				}
			case Undecided:
				a.Undecided++
			case Marginal:
				a.Marginal++
			}
		}
	}
	if len(a.Series) == 1 {
		a.Flagged = a.Series[0].Flagged
	}
}
