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

// Add counts one row.
func (c *VerdictCounts) Add(v Verdict) {
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

// RowCounts counts the rows of a series that is measured only in part, including rows left out of the list.
type RowCounts struct {
	Measured VerdictCounts `json:"measured"`
	Inferred VerdictCounts `json:"inferred"`
	// LeftOut counts the rows missing from the list: inferred and clean.
	LeftOut int `json:"left_out"`
}

// WithoutClean returns a copy of the audit without inferred rows that are clean, which are most rows of a
// long sweep. It counts the rows of each such series. It keeps measured rows. The copy shares all other data
// with a, which does not change.
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
				counts.Measured.Add(r.Verdict)
			} else if counts.Inferred.Add(r.Verdict); r.Verdict == Clean {
				counts.LeftOut++
				continue
			}
			kept = append(kept, r)
		}
		s.Rows, s.Counts = kept, counts
	}
	return &out
}
