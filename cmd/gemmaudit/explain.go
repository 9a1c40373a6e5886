package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/report/query"
	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/explain"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

const topicWhere = "where"

func newExplainCommand(a *app) *cobra.Command {
	var along string
	cmd := &cobra.Command{
		Use:  "explain [WORD | RUN NUMBER]",
		Args: cobra.MaximumNArgs(2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			words := []cobra.Completion{cobra.CompletionWithDesc(topicWhere, "names and operators of --where and --sort")}
			for _, t := range explain.Terms() {
				words = append(words, cobra.CompletionWithDesc(t.Name, t.Meaning))
			}
			return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return a.write(explain.List(a.columns()) + fmt.Sprintf("--where, --sort\n  %-19s names and operators", topicWhere))
			case 2:
				return a.explainProblem(cmd.Context(), args[0], args[1], along)
			}
			text, err := explained(args[0], a.columns())
			if err != nil {
				return err
			}
			return a.write(text)
		},
	}
	alongFlag(cmd, &along)
	return cmd
}

// explainProblem prints one problem of a run under the rules of its stored verdicts.
func (a *app) explainProblem(ctx context.Context, path, number, along string) (failed error) {
	n, err := strconv.Atoi(number)
	if err != nil {
		return usagef("explain: %q, expected the number of a problem, as in explain %s 1", number, path)
	}
	run, err := a.openRun(path, false)
	if err != nil {
		return err
	}
	defer closeRun(run, &failed)
	cfg := rules.Default()
	if along != "" {
		cfg.Along = along
		if err := cfg.Validate(); err != nil {
			return usagef("--%w", err)
		}
	}
	data, err := infer.LoadData(run)
	if err != nil {
		return err
	}
	data = data.Along(cfg.Basis())
	audit, _, err := a.store(run).Audit(ctx, data, cfg, false)
	if err != nil {
		return err
	}
	found, engine, err := a.provenRemedies(run, data, cfg)
	if err != nil {
		return err
	}
	answer := newAnswer(data, audit, found, engine)
	switch {
	case answer.Invalid != "":
		return inconclusivef("%s has no problems: the run cannot be judged: %s", path, answer.Invalid)
	case len(answer.Problems) == 0:
		return usagef("%s has no problems", path)
	case n < 1 || n > len(answer.Problems):
		return usagef("%s has no problem %d, expected 1 to %d", path, n, len(answer.Problems))
	}
	return a.wrapPrint(report.WriteProblem(a.stream(a.stdout), data.Meta, audit, answer.Problems[n-1]))
}

func (a *app) write(text string) error {
	_, err := fmt.Fprintln(a.stdout, text)
	return a.printed(err)
}

// columns is the number of columns that text on stdout may have.
func (a *app) columns() int { return a.stream(a.stdout).Style.Limit() }

func explained(name string, width int) (string, error) {
	if name == topicWhere {
		return query.Help(width), nil
	}
	terms := explain.Find(name)
	if len(terms) == 0 {
		if text := explainedColumn(name, width); text != "" {
			return text, nil
		}
		err := usagef("unknown word %q", name)
		if near := explain.Near(name); len(near) > 0 {
			return "", hint(err, "did you mean %s? `gemmaudit explain` lists all", strings.Join(near, " or "))
		}
		return "", hint(err, "`gemmaudit explain` lists all")
	}
	var texts []string
	for _, t := range terms {
		texts = append(texts, t.Text(width))
	}
	return strings.Join(texts, "\n\n"), nil
}

// explainedColumn returns the meanings of a column of tables, CSV or JSON; empty if no table has it.
func explainedColumn(name string, width int) string {
	var out []string
	for _, c := range field.Words() {
		if c.Meaning == "" || !strings.EqualFold(c.Head, name) && !strings.EqualFold(c.Name, name) {
			continue
		}
		text := strings.Join(explain.Wrap(name+" (column): "+c.Meaning, width), "\n")
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return strings.Join(out, "\n")
}
