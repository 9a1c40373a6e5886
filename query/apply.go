package query

import "github.com/gemmaudit/gemmaudit/rules"

// Ordered says that all records have to be known before the first can be listed: they are sorted, or
// only some of them are taken.
func (q *Query) Ordered() bool { return q != nil && (len(q.order) > 0 || q.top > 0) }

// Selection says how many records of how many are listed, and why; nil where all are.
func (q *Query) Selection(shown, of int) *rules.Selection {
	if q.All() {
		return nil
	}
	return &rules.Selection{Where: q.where, Sort: q.sort, Top: q.top, Shown: shown, Of: of}
}

// Audit returns an audit that lists the selected findings. What it says of all of them, and what a gate
// looks at, is that of a, which is not changed.
func (q *Query) Audit(a *rules.Audit) (*rules.Audit, error) {
	if q.All() {
		return a, nil
	}
	findings, err := Select(q, a.Findings, OfFindings(a))
	if err != nil {
		return nil, err
	}
	return a.Showing(findings, q.Selection(len(findings), len(a.Findings))), nil
}

// Splits returns remedies of which the selected are listed; --top counts those that are kept, those
// that were rejected, and intervals of M each by themselves. s is not changed.
func (q *Query) Splits(s *rules.SplitsResult) (*rules.SplitsResult, error) {
	if q.All() {
		return s, nil
	}
	kept, err := Select(q, s.Splits, OfRemedy)
	if err != nil {
		return nil, err
	}
	rejected, err := Select(q, s.Rejected, OfRemedy)
	if err != nil {
		return nil, err
	}
	stretches, err := Select(q, s.Stretches, ofStretch)
	if err != nil {
		return nil, err
	}
	return s.Showing(kept, rejected, stretches, q.Selection(len(kept)+len(rejected), len(s.Splits)+len(s.Rejected))), nil
}

// Diff returns a comparison of which the selected cases and findings are listed; --top counts
// either by itself. d is not changed.
func (q *Query) Diff(d *rules.DiffResult) (*rules.DiffResult, error) {
	if q.All() {
		return d, nil
	}
	cases, err := Select(q, d.Cases, OfCase)
	if err != nil {
		return nil, err
	}
	findings, err := Select(q, d.Findings, OfFindingDiff)
	if err != nil {
		return nil, err
	}
	return d.Showing(cases, findings, q.Selection(len(cases)+len(findings), len(d.Cases)+len(d.Findings))), nil
}
