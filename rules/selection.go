package rules

import "github.com/gemmaudit/gemmaudit/results"

// Selection marks a result that lists only the items the user asked for. Its counts, verdict and gate cover
// all items.
type Selection struct {
	Where string `json:"where,omitempty"`
	Sort  string `json:"sort,omitempty"`
	Top   int    `json:"top,omitempty"`
	// Shown is how many findings, remedies, or cases and findings of a comparison are listed, Of
	// how many there are.
	Shown int `json:"shown"`
	Of    int `json:"of"`
}

// Showing returns an audit that lists the given findings of a and shares all other data with it.
func (a *Audit) Showing(findings []Finding, s *Selection) *Audit {
	out := *a
	out.Findings, out.Selection, out.whole = findings, s, a.Whole()
	return &out
}

// Whole is the audit with all of its findings: a itself, unless it lists a selection.
func (a *Audit) Whole() *Audit {
	if a.whole != nil {
		return a.whole
	}
	return a
}

// FindingsBySeries groups findings by series, in their order. The result shares their memory.
func FindingsBySeries(findings []Finding) map[results.SeriesKey][]*Finding {
	out := map[results.SeriesKey][]*Finding{}
	for i := range findings {
		f := &findings[i]
		out[f.Series] = append(out[f.Series], f)
	}
	return out
}
