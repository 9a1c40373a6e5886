package query

import (
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/diff"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
)

// Ordered reports whether all records are needed before the first can be listed, because of sorting or a
// limit.
func (q *Query) Ordered() bool { return q != nil && (len(q.order) > 0 || q.top > 0) }

// Selection describes how many of the records are listed, and why; nil if all are.
func (q *Query) Selection(shown, of int) *rules.Selection {
	if q.All() {
		return nil
	}
	return &rules.Selection{Where: q.where, Sort: q.sort, Top: q.top, Shown: shown, Of: of}
}

// Audit returns an audit that lists the selected findings. Its totals and gate still cover all findings. a is
// not changed.
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

// Splits returns a result that lists the selected remedies. --top limits accepted remedies, rejected ones and
// intervals separately. s is not changed.
func (q *Query) Splits(s *remedy.Result) (*remedy.Result, error) {
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

// Diff returns a comparison that lists the selected cases and findings. --top limits each separately. d is
// not changed.
func (q *Query) Diff(d *diff.Result) (*diff.Result, error) {
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
