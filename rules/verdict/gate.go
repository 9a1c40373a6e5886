package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/change"
	"github.com/gemmaudit/gemmaudit/rules/outcome"
)

// The kinds of findings, or of slower times, that make a gate fail.
const (
	Confirmed = "confirmed"
	Any       = "any"
	Suspected = "suspected"
	None      = "none"
)

// Kinds lists the gates' kinds.
func Kinds() []string { return []string{Confirmed, Any, Suspected, None} }

// Gate decides which results make a command fail.
type Gate struct {
	Kind     string // Confirmed, Any, Suspected or None
	Marginal bool   // marginal rows or cases too
	Accept   outcome.Accept
}

// Validate rejects an unknown kind, and marginal results that can't fail.
func (g Gate) Validate() error {
	switch {
	case !slices.Contains(Kinds(), g.Kind):
		return fmt.Errorf("--gate: unknown gate %q: expected confirmed, any, suspected or none", g.Kind)
	case g.Kind == None && g.Marginal:
		return fmt.Errorf("--fail-marginal can't be combined with --gate none")
	}
	return nil
}

// Fails reports whether a finding makes the command fail. Findings in the baseline do not, nor does a time that is faster
// than the device can be: it is no loss, and leaves the outcome open.
func (g Gate) Fails(f rules.Finding) bool {
	if f.Baseline == rules.BaselineKnown || g.Kind == None || f.Cause == cause.MeasurementError {
		return false
	}
	switch f.Status {
	case rules.Confirmed:
		return true
	case rules.Unconfirmed:
		return g.Kind == Any || g.Kind == Suspected
	case rules.Suspected:
		return g.Kind == Suspected
	}
	return false
}

// FailsChange reports whether a change of a time between two runs makes the command fail.
func (g Gate) FailsChange(c change.Kind) bool {
	switch c {
	case change.Slower:
		return g.Kind != None
	case change.SuspectedSlower:
		return g.Kind == Suspected
	case change.AtThreshold:
		return g.Marginal
	}
	return false
}

// UnsteadyHint is advice for measurements that other load disturbed.
const UnsteadyHint = "`gemmaudit doctor` shows sources of noise on this machine; then measure again"

const orderHint = "measure all rows in rounds, each in a new random order, as `gemmaudit sweep` does"

// Audit is what decides the outcome of an audit. outdated describes stored proof that can't be used; named
// holds the rules requested by name.
func (g Gate) Audit(audit *rules.Audit, held outcome.Held, outdated []outcome.Ground, named []rules.Rule) outcome.Evidence {
	e := outcome.Evidence{Name: audit.Run, Held: []outcome.Held{held}, Accept: g.Accept, Ungated: g.Kind == None, MostUndecided: 0.5,
		UndecidedHint: "use more --rounds or reduce noise (`gemmaudit doctor`); findings with too few samples are listed as suspected"}
	failing := g.findings(audit, &e)
	if audit.Invalid == "" { // cards and rows are judged by the sweep's samples, which are unusable in an invalid run
		if c := audit.Cards; c != nil && len(c.Outliers) > 0 {
			e.Proven = append(e.Proven,
				fmt.Sprintf("%d of %d cards slower than the others: %s", len(c.Outliers), len(c.Cards), strings.Join(c.Outliers, ", ")))
		}
		if g.Marginal && audit.Marginal > 0 {
			e.Proven = append(e.Proven, count(audit.Marginal, "marginal row", "marginal rows"))
		}
	} else {
		hint := UnsteadyHint
		if audit.Invalid == audit.Order {
			hint = orderHint
		}
		e.Open = append(e.Open, outcome.Ground{Text: audit.Invalid, Hint: hint})
	}
	e.Open = append(append(e.Open, impossible(audit)...), outdated...)
	if !e.Ungated && failing == 0 {
		e.Open = append(e.Open, unconfirmable(audit)...)
	}
	e.Judged = append([]rules.Judged{}, audit.Judged...)
	for i := range e.Judged {
		e.Judged[i].Named = slices.Contains(named, e.Judged[i].Rule)
	}
	// Cases without a valid sample are undecided; held counts the failed ones.
	rows := 0
	for _, series := range audit.Series {
		rows += min(series.Cases, len(series.Rows))
	}
	e.Cases = max(0, audit.Cases-held.Failed)
	e.Undecided = audit.Undecided + max(0, e.Cases-rows)
	return e
}

// findings adds the findings that fail the gate to the evidence, and counts them.
func (g Gate) findings(audit *rules.Audit, e *outcome.Evidence) (failing int) {
	confirmed, states := 0, map[rules.BaselineState]int{}
	for _, f := range audit.Findings {
		if g.Fails(f) {
			failing++
			states[f.Baseline]++
			if f.Status == rules.Confirmed {
				confirmed++
			}
		}
	}
	text := count(confirmed, "confirmed finding", "confirmed findings")
	if failing > confirmed {
		text = fmt.Sprintf("%s, %d of them confirmed", count(failing, "finding", "findings"), confirmed)
	}
	if audit.Baseline != "" {
		text += fmt.Sprintf(" (%d new, %d grown)", states[rules.BaselineNew], states[rules.BaselineGrown])
	}
	if failing > 0 {
		e.Proven = append(e.Proven, text)
	}
	return failing
}

// Undecided is the reason why too few rows of an audit were decided for a verdict; "" for enough.
func Undecided(audit *rules.Audit) string {
	e := Gate{Kind: Confirmed}.Audit(audit, outcome.Held{}, nil, nil)
	e.Held, e.Proven, e.Open = nil, nil, nil
	if grounds, _ := e.Grounds(); len(grounds) > 0 {
		return grounds[0].Text
	}
	return ""
}

// unconfirmable explains why the unconfirmed findings of an imported run prevent a verdict; nil without any.
// Most such runs cannot be measured again and would otherwise pass as if they had no findings.
func unconfirmable(audit *rules.Audit) []outcome.Ground {
	n := 0
	for _, f := range audit.Findings {
		if audit.Imported && audit.Method != rules.MethodArticle && f.Status == rules.Unconfirmed && f.Cause != cause.MeasurementError &&
			f.Baseline != rules.BaselineKnown {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return []outcome.Ground{{Text: fmt.Sprintf("%s: %s unconfirmed, because the run was imported", audit.Run,
		count(n, "finding is", "findings are")),
		Hint: "`--gate any` fails on them, `--gate none` ignores them; `audit --confirm` needs a run measured on that machine"}}
}

// impossible explains why rows faster than their device's limit prevent a verdict; nil without any.
func impossible(audit *rules.Audit) []outcome.Ground {
	rows, first := 0, ""
	for _, f := range audit.Findings {
		if f.Cause == cause.MeasurementError && f.Status != rules.Waived && f.Baseline != rules.BaselineKnown {
			rows += f.Rows
			first = cmp.Or(first, f.Explanation)
		}
	}
	if rows == 0 {
		return nil
	}
	hint := "measure again without other load, which lowers the peak that is measured; `gemmaudit selftest` checks the kernels' results"
	if audit.Imported {
		hint = "check the unit of the times and the device name; `gemmaudit import --peak` sets another peak"
	}
	return []outcome.Ground{{Text: fmt.Sprintf("%s: %s faster than the peak of the device: %s", audit.Run, count(rows, "row", "rows"),
		first), Hint: hint}}
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
