package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
)

// The findings on which `audit` and `run` are gated.
const (
	gateConfirmed = "confirmed"
	gateAny       = "any"
	gateSuspected = "suspected"
	gateNone      = "none"
)

// gateNames are the gates in the order of help.
var gateNames = []string{gateConfirmed, gateAny, gateSuspected, gateNone}

// auditGate says what makes the exit code 1.
type auditGate struct {
	findings string // gateConfirmed, gateAny, gateSuspected or gateNone
	marginal bool   // marginal rows too
	accept   rules.Accept
}

// fails says whether a finding makes the exit code 1. What the baseline has does not.
func (g auditGate) fails(f rules.Finding) bool {
	if f.Baseline == rules.BaselineKnown || g.findings == gateNone {
		return false
	}
	switch f.Status {
	case rules.Confirmed:
		return true
	case rules.Unconfirmed:
		return g.findings == gateAny || g.findings == gateSuspected
	case rules.Suspected:
		return g.findings == gateSuspected
	}
	return false
}

// checks is what the gate has looked at, for a pipeline; verdict is the command's outcome.
func (g auditGate) checks(command string, run *results.Run, audit *rules.Audit, verdict error) *report.Checks {
	meta := run.Meta()
	cards := g.findings != gateNone && audit.Invalid == ""
	return &report.Checks{Command: command, Path: run.Path(), Warnings: audit.Warnings, Outcome: outcomeOf(verdict),
		List: report.AuditChecks(meta, audit, g.fails, g.marginal && audit.Invalid == "", cards)}
}

// outcomeOf is a command's error as pipelines are told it.
func outcomeOf(err error) report.Outcome {
	if err == nil {
		return report.Outcome{}
	}
	return report.Outcome{Code: exitCode(err), Text: oneLine(err.Error()), Hint: oneLine(hintOf(err))}
}

// printChecks writes what a gate has looked at.
func (a *app) printChecks(f report.Format, c *report.Checks) error {
	c.Version = buildVersion()
	return a.wrapPrint(c.Write(a.stream(a.stdout), f))
}

// gateFlag adds --gate and --fail-marginal.
func gateFlag(cmd *cobra.Command, g *auditGate) {
	cmd.Flags().StringVar(&g.findings, "gate", gateConfirmed, "findings that make the exit code 1: confirmed, any, suspected, none")
	failMarginalFlag(cmd, &g.marginal, "rows")
	acceptFlags(cmd, &g.accept)
	complete(cmd, "gate", fixed(gateNames...))
}

// failMarginalFlag adds --fail-marginal.
func failMarginalFlag(cmd *cobra.Command, fail *bool, of string) {
	cmd.Flags().BoolVar(fail, "fail-marginal", false, "marginal "+of+" fail the gate too")
}

// check returns a usage error for a gate that there is not.
func (g auditGate) check() error {
	switch g.findings {
	case gateConfirmed, gateAny, gateSuspected:
		return nil
	case gateNone:
		if g.marginal {
			return usagef("--fail-marginal can't be combined with --gate none, which lets everything pass")
		}
		return nil
	}
	return usagef("--gate: unknown gate %q: expected confirmed, any, suspected or none", g.findings)
}

// unsteadyHint is what can be done about a run whose machine did not stay the same.
const unsteadyHint = "`gemmaudit doctor` shows what disturbs this machine; then measure again"

// evidence is what an audit's exit code follows from; undone is why kept proof could not be used, and named are the rules that
// were asked for by name.
func (g auditGate) evidence(audit *rules.Audit, held rules.Held, undone undone, named []rules.Rule) rules.Evidence {
	e := rules.Evidence{Name: audit.Run, Held: []rules.Held{held}, Accept: g.accept, Ungated: g.findings == gateNone, MostUndecided: 0.5,
		UndecidedHint: "more --rounds, or a quieter machine (`gemmaudit doctor`); what single samples show is listed as suspected"}
	failing, confirmed := 0, 0
	for _, f := range audit.Findings {
		if g.fails(f) {
			failing++
			if f.Status == rules.Confirmed {
				confirmed++
			}
		}
	}
	switch {
	case failing > confirmed:
		e.Proven = append(e.Proven, fmt.Sprintf("%s, %d of them confirmed", plural(failing, "finding", "findings"), confirmed))
	case confirmed > 0:
		e.Proven = append(e.Proven, plural(confirmed, "confirmed finding", "confirmed findings"))
	}
	// Cards are compared by the sweep's samples, which an invalid run can't be judged by.
	if c := audit.Cards; c != nil && len(c.Outliers) > 0 && audit.Invalid == "" {
		e.Proven = append(e.Proven, fmt.Sprintf("%d of %d cards slower than the others: %s", len(c.Outliers), len(c.Cards), strings.Join(c.Outliers, ", ")))
	}
	if g.marginal && audit.Marginal > 0 && audit.Invalid == "" {
		e.Proven = append(e.Proven, plural(audit.Marginal, "marginal row", "marginal rows"))
	}
	if audit.Invalid != "" {
		e.Open = append(e.Open, rules.Ground{Text: audit.Invalid, Hint: unsteadyHint})
	}
	e.Open = append(e.Open, impossible(audit)...)
	e.Open = append(e.Open, groundsOf(undone.err())...)
	e.Judged = slices.Clone(audit.Judged)
	if e.Judged == nil {
		e.Judged = []rules.Judged{}
	}
	for i := range e.Judged {
		e.Judged[i].Named = slices.Contains(named, e.Judged[i].Rule)
	}
	// Cases without a sample that counts are undecided; those that failed are counted by what the run holds.
	rows := 0
	for _, series := range audit.Series {
		rows += min(series.Cases, len(series.Rows))
	}
	e.Cases = max(0, audit.Cases-held.Failed)
	e.Undecided = audit.Undecided + max(0, e.Cases-rows)
	return e
}

// impossible is why rows that are faster than their device can be leave a run without a verdict; nil where there are none.
func impossible(audit *rules.Audit) []rules.Ground {
	rows, first := 0, ""
	for _, f := range audit.Findings {
		if f.Cause == rules.MeasurementError && f.Status != rules.Waived && f.Baseline != rules.BaselineKnown {
			rows += f.Rows
			first = cmp.Or(first, f.Explanation)
		}
	}
	if rows == 0 {
		return nil
	}
	return []rules.Ground{{Text: fmt.Sprintf("%s: %s faster than the device can be: %s", audit.Run, plural(rows, "row", "rows"), first),
		Hint: "check the unit of the times and the name of the device; `gemmaudit import --peak` gives another peak"}}
}
