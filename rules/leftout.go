package rules

import "slices"

// VerdictCounts counts rows by their verdict.
type VerdictCounts struct {
	Anomalous int `json:"anomalous"`
	Clean     int `json:"clean"`
	Marginal  int `json:"marginal"`
	Undecided int `json:"undecided"`
	Unjudged  int `json:"unjudged"`
}

// add counts a row.
func (c *VerdictCounts) add(v Verdict) {
	switch v {
	case Anomalous:
		c.Anomalous++
	case Clean:
		c.Clean++
	case Marginal:
		c.Marginal++
	case Undecided:
		c.Undecided++
	case Unjudged:
		c.Unjudged++
	}
}

// RowCounts counts the rows of a series of which not every one had to be measured, those that
// were left out too.
type RowCounts struct {
	Measured VerdictCounts `json:"measured"`
	Inferred VerdictCounts `json:"inferred"`
	// LeftOut is how many rows do not stand in the list: inferred ones that are clean.
	LeftOut int `json:"left_out"`
}

// WithoutClean returns the audit without rows that were inferred and are clean, which are most
// of a long sweep's, and counts what each such series has. Rows that were measured stay, and so
// does a; what is returned shares all else with it.
func (a *Audit) WithoutClean() *Audit {
	out := *a
	out.Series = slices.Clone(a.Series)
	for i := range out.Series {
		s := &out.Series[i]
		if s.Inference == nil {
			continue
		}
		counts := &RowCounts{}
		var kept []RowVerdict
		for _, r := range s.Rows {
			if !r.Inferred {
				counts.Measured.add(r.Verdict)
			} else if counts.Inferred.add(r.Verdict); r.Verdict == Clean {
				counts.LeftOut++
				continue
			}
			kept = append(kept, r)
		}
		s.Rows, s.Counts = kept, counts
	}
	return &out
}
