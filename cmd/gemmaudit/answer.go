package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/problem"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
)

// newAnswer summarizes the problems of a run. found may be nil; engine lists the engine's kernels, nil for
// the default.
func newAnswer(data infer.Data, audit *rules.Audit, found *remedy.Result, engine []string) *report.Answer {
	problems, summary := problem.Find(data, audit, found, engine)
	answer := &report.Answer{Summary: summary, Problems: problems, Cut: data.Cut}
	if cards := audit.Whole().Cards; cards != nil {
		answer.SlowCards = cards.Outliers
	}
	return answer
}

// provenRemedies returns a run's stored remedies and the engine kernels of their search; nil if no stored
// remedies are valid.
func (a *app) provenRemedies(run *results.Run, data infer.Data, cfg rules.Config) (*remedy.Result, []string, error) {
	remedies, _, err := a.store(run).Remedies(data, cfg)
	if err != nil || remedies == nil {
		return nil, nil, err
	}
	return remedies.Result, remedies.Search.Kernels, nil
}

// nextSteps lists the commands that follow from a run's problems.
func nextSteps(path string, answer *report.Answer, audit *rules.Audit) []string {
	var out, along []string
	if audit.Along != "" {
		along = []string{"--along", audit.Along}
	}
	if len(answer.Problems) > 0 {
		out = append(out, fmt.Sprintf("next: %s   why problem 1 is slow, and how to fix it",
			commandLine(append([]string{"explain", path, "1"}, along...))))
	}
	if answer.HasUnconfirmed() && !answer.Imported {
		out = append(out, fmt.Sprintf("next: %s   measures suspects again, on the machine of the run",
			commandLine(append([]string{"audit", path, "--confirm"}, along...))))
	}
	if n := len(audit.Whole().Findings); n > 0 {
		out = append(out, fmt.Sprintf("-o wide shows the %s by rule, each series and all warnings", plural(n, "finding", "findings")))
	} else if len(audit.Warnings) > 0 {
		out = append(out, fmt.Sprintf("-o wide shows each series and %s", plural(len(audit.Warnings), "warning", "warnings")))
	}
	return out
}

func allFlag(cmd *cobra.Command, all *bool) {
	cmd.Flags().BoolVar(all, "all", false, "list every problem, not only the ten largest")
}
