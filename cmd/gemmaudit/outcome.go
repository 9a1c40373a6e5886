package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/report/gate"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/outcome"
	"github.com/gemmaudit/gemmaudit/rules/verdict"
	"github.com/gemmaudit/gemmaudit/sweep"
)

func acceptFlags(cmd *cobra.Command, accept *outcome.Accept) {
	flags := cmd.Flags()
	flags.BoolVar(&accept.Failed, outcome.AcceptFailed, false, "ignore failed cases in the exit code, and print their count")
	flags.BoolVar(&accept.Missing, outcome.AcceptMissing, false, "ignore missing cases in the exit code, and print their count")
	flags.BoolVar(&accept.Mixed, outcome.AcceptMixed, false, "judge runs from several machines, and print the machines")
}

// gateFlags adds --gate with a default, the --accept flags, and --fail-marginal if marginal names the items that
// may be marginal. of describes what the gate is about.
func gateFlags(cmd *cobra.Command, g *verdict.Gate, of, usual, marginal string) {
	addFlag(cmd, &g.Kind, "gate", usual, "fail on "+of+": confirmed, any, suspected, none", fixed(verdict.Kinds()...))
	if marginal != "" {
		cmd.Flags().BoolVar(&g.Marginal, "fail-marginal", false, "marginal "+marginal+" fail the gate too")
	}
	acceptFlags(cmd, &g.Accept)
}

// findingsGate adds the flags of a gate for findings, changesGate those of a gate for slower times.
func findingsGate(cmd *cobra.Command, g *verdict.Gate) {
	gateFlags(cmd, g, "findings", verdict.Confirmed, "rows")
}

func changesGate(cmd *cobra.Command, g *verdict.Gate, usual, marginal string) {
	gateFlags(cmd, g, "slower times", usual, marginal)
}

func (a *app) store(run *results.Run) verdict.Store {
	return verdict.Store{Run: run, Warn: a.warnf, Note: a.notef}
}

// outdatedError is the outcome of a command without another one: nil if all stored proof holds.
func (a *app) outdatedError(o verdict.Outdated) error {
	return a.conclude(outcome.Evidence{Open: o.Grounds()})
}

// auditChecks lists the checks of a gate for a pipeline; ended is the command's outcome.
func auditChecks(command string, g verdict.Gate, run *results.Run, audit *rules.Audit, ended error) *gate.Checks {
	valid := audit.Invalid == ""
	return &gate.Checks{Command: command, Path: run.Path(), Warnings: audit.Warnings, Outcome: outcomeOf(ended),
		List: gate.OfAudit(run.Meta(), audit, g.Fails, g.Marginal && valid, g.Kind != verdict.None && valid)}
}

func outcomeOf(err error) gate.Outcome {
	if err == nil {
		return gate.Outcome{}
	}
	return gate.Outcome{Code: exitCode(err), Text: oneLine(err.Error()), Hint: oneLine(hintOf(err))}
}

func (a *app) printChecks(f report.Format, c *gate.Checks) error {
	c.Version = buildVersion()
	return a.wrapPrint(c.Write(a.stream(a.stdout), f))
}

// conclude converts evidence to a command's error, nil for a pass. Every command with a gate ends here.
func (a *app) conclude(e outcome.Evidence) error {
	grounds, accepted := e.Grounds()
	for _, text := range accepted {
		a.warnf("%s", text)
	}
	if len(grounds) == 0 {
		return nil
	}
	texts := make([]string, len(grounds))
	hinted := ""
	for i, g := range grounds {
		texts[i] = g.Text
		if hinted == "" {
			hinted = g.Hint
		}
	}
	return &commandError{code: int(grounds[0].Outcome), err: errors.New(strings.Join(texts, "; also: ")), hint: hinted}
}

func held(run *results.Run) (outcome.Held, error) {
	c, err := sweep.Covered(run)
	h := outcome.Held{Name: run.Path(), Coverage: c}
	if flags := broughtAgain(run); len(flags) > 0 {
		h.Continue = commandLine(slices.Concat([]string{"sweep", "--resume", "--out", run.Path()}, flags))
	}
	return h, err
}

// groundsOf converts the non-nil errors to grounds, for [outcome.Evidence].Broken or Open.
func groundsOf(errs ...error) []outcome.Ground {
	var out []outcome.Ground
	for _, err := range errs {
		if err != nil {
			out = append(out, outcome.Ground{Text: err.Error(), Hint: hintOf(err)})
		}
	}
	return out
}
