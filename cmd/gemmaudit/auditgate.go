package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// The findings on which `audit` and `run` are gated.
const (
	gateConfirmed = "confirmed"
	gateAny       = "any"
	gateNone      = "none"
)

// auditGate says what makes the exit code 1.
type auditGate struct {
	findings string // gateConfirmed, gateAny or gateNone
	marginal bool   // marginal rows too
}

// fails says whether a finding makes the exit code 1. What the baseline has does not.
func (g auditGate) fails(f rules.Finding) bool {
	if f.Baseline == rules.BaselineKnown || g.findings == gateNone {
		return false
	}
	return f.Status == rules.Confirmed || g.findings == gateAny && f.Status == rules.Unconfirmed
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
	cmd.Flags().StringVar(&g.findings, "gate", gateConfirmed, "findings that make the exit code 1: confirmed, any, none")
	failMarginalFlag(cmd, &g.marginal, "rows")
	complete(cmd, "gate", fixed(gateConfirmed, gateAny, gateNone))
}

// failMarginalFlag adds --fail-marginal.
func failMarginalFlag(cmd *cobra.Command, fail *bool, of string) {
	cmd.Flags().BoolVar(fail, "fail-marginal", false, "marginal "+of+" fail the gate too")
}

// check returns a usage error for a gate that there is not.
func (g auditGate) check() error {
	switch g.findings {
	case gateConfirmed, gateAny:
		return nil
	case gateNone:
		if g.marginal {
			return usagef("--fail-marginal can't be combined with --gate none, which lets everything pass")
		}
		return nil
	}
	return usagef("--gate: unknown gate %q: expected confirmed, any or none", g.findings)
}

// unsteadyHint is what can be done about a run whose machine did not stay the same.
const unsteadyHint = "`gemmaudit doctor` shows what disturbs this machine; then measure again"

// unreached counts the cases that the plan of an unfinished sweep has and the run has not. Of
// inferred series an audit counts them itself.
func unreached(run *results.Run) (int, error) {
	status, ok, err := run.State(sweep.StateStatus)
	if err != nil || !ok || status == sweep.StatusComplete {
		return 0, err
	}
	plan, err := sweep.DecodePlan(run.Meta().Plan)
	if err != nil {
		return 0, nil // what is no sweep's has no plan
	}
	series, err := run.Series()
	if err != nil {
		return 0, err
	}
	reached := map[results.SeriesKey]int{}
	for _, s := range series {
		reached[s.Key] = len(s.Rows)
	}
	n := 0
	for _, s := range plan.Own() {
		if !s.Infer {
			n += max(0, len(s.Ms)-reached[s.SeriesKey])
		}
	}
	return n, nil
}

// auditVerdict turns an audit into the command's outcome. A gate that fails outranks
// what makes the audit inconclusive: what is proven stays so, however little else is known.
// unreached counts the cases that were planned and are not in the run.
func auditVerdict(audit *rules.Audit, g auditGate, outdated undone, unreached int) error {
	confirmed, unconfirmed := 0, 0
	for _, f := range audit.Findings {
		if f.Baseline == rules.BaselineKnown {
			continue
		}
		switch f.Status {
		case rules.Confirmed:
			confirmed++
		case rules.Unconfirmed:
			unconfirmed++
		}
	}
	if g.findings != gateNone {
		var failed []string
		switch {
		case unconfirmed > 0 && g.findings == gateAny:
			failed = append(failed, fmt.Sprintf("%s, %d of them confirmed", plural(confirmed+unconfirmed, "finding", "findings"), confirmed))
		case confirmed > 0:
			failed = append(failed, plural(confirmed, "confirmed finding", "confirmed findings"))
		}
		// Cards are compared by the sweep's samples, which an invalid run can't be judged by.
		if c := audit.Cards; c != nil && len(c.Outliers) > 0 && audit.Invalid == "" {
			failed = append(failed, fmt.Sprintf("%d of %d cards slower than the others: %s", len(c.Outliers), len(c.Cards), strings.Join(c.Outliers, ", ")))
		}
		if g.marginal && audit.Marginal > 0 && audit.Invalid == "" {
			failed = append(failed, plural(audit.Marginal, "marginal row", "marginal rows"))
		}
		if len(failed) > 0 && audit.Invalid != "" {
			failed = append(failed, "besides, "+audit.Invalid)
		}
		if len(failed) > 0 {
			return gatef("%s", strings.Join(failed, "; "))
		}
	}
	if audit.Invalid != "" {
		return hint(inconclusivef("%s", audit.Invalid), unsteadyHint)
	}
	if err := outdated.err(); err != nil || g.findings == gateNone {
		return err
	}
	judged, open, cases := 0, audit.Undecided+unreached, audit.Cases+unreached
	for _, series := range audit.Series {
		judged += len(series.Rows)
		open += max(0, series.Cases-len(series.Rows)) // failed, or without a sample that counts
	}
	if judged == 0 {
		return inconclusivef("%s: none of %s has a sample to judge", audit.Run, plural(audit.Cases, "case", "cases"))
	}
	if 2*open > cases {
		text := "more --rounds, a quieter machine (`gemmaudit doctor`), or --method article for single samples"
		if unreached > 0 {
			text = fmt.Sprintf("%s not reached: `gemmaudit sweep --resume` goes on with the run", plural(unreached, "case was", "cases were"))
		}
		return hint(inconclusivef("%d of %d cases are undecided and the gate has not failed", open, cases), "%s", text)
	}
	if confirmed+unconfirmed == 0 && audit.Tests == 0 {
		return hint(inconclusivef("%s: no rule compares any of %s with another", audit.Run, plural(audit.Cases, "case", "cases")),
			"give more batches, or switch on a rule that applies to what was measured")
	}
	return nil
}
