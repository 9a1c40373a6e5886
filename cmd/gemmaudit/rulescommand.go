package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/rules"
)

func newRulesCommand(a *app) *cobra.Command {
	return commandGroup("rules", newRulesPrintCommand(a), newRulesCheckCommand(a), newRulesDiffCommand(a))
}

func newRulesPrintCommand(a *app) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:  "print",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := rules.LoadConfig(file)
			if err != nil {
				return usage(err)
			}
			text := rules.DefaultText()
			if file != "" {
				if text, err = cfg.Encode(); err != nil {
					return err
				}
			}
			_, err = a.stdout.Write(text)
			return a.printed(err)
		},
	}
	addFlag(cmd, &file, "rules", "", rulesUsage, filesWith("yaml", "yml"))
	return cmd
}

func newRulesCheckCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "check FILE…",
		Args:              atLeastArgs("FILE"),
		ValidArgsFunction: filesWith("yaml", "yml"),
		RunE: func(_ *cobra.Command, args []string) error {
			var faults []error
			for _, path := range args {
				cfg, err := rules.LoadConfig(path)
				if err != nil {
					faults = append(faults, usage(err))
					continue
				}
				changes, err := rules.CompareConfigs(rules.Default(), cfg)
				if err != nil {
					return err
				}
				what := "no differences"
				if n := len(changes); n > 0 {
					what = plural(n, "key differs", "keys differ")
				}
				if err := a.write(fmt.Sprintf("%s: valid; %s from the built-in rules", path, what)); err != nil {
					return err
				}
			}
			return errors.Join(faults...)
		},
	}
}

func newRulesDiffCommand(a *app) *cobra.Command {
	var output report.Format
	cmd := &cobra.Command{
		Use: "diff [A] B",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return nil
			}
			return exactArgs("A", "B")(cmd, args)
		},
		ValidArgsFunction: filesWith("yaml", "yml"),
		RunE: func(_ *cobra.Command, args []string) error {
			sides := [2]rules.Config{rules.Default(), rules.Default()}
			for i, path := range args {
				var err error
				if sides[2-len(args)+i], err = rules.LoadConfig(path); err != nil {
					return usage(err)
				}
			}
			changes, err := rules.CompareConfigs(sides[0], sides[1])
			if err != nil {
				return err
			}
			return a.wrapPrint(report.WriteConfigChanges(a.stream(a.stdout), output, changes))
		},
	}
	outputFlag(cmd, &output)
	return cmd
}
