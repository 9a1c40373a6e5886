package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/rules"
)

func newRulesCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rules",
		Short: "Print, check and compare rules files",
		Example: examples(
			"gemmaudit rules print > house-rules.yaml   # all rules, to be changed",
			"gemmaudit rules check house-rules.yaml",
			"gemmaudit rules diff house-rules.yaml      # what it changes of the built-in rules",
		),
		Long: `A rules file holds thresholds, settings of rules and waivers. It is laid over the built-in one:
what it does not mention stays. docs/rules.md lists the rules with their settings.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(newRulesPrintCommand(a), newRulesCheckCommand(a), newRulesDiffCommand(a))
	return cmd
}

func newRulesPrintCommand(a *app) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print the rules in force as YAML",
		Example: examples(
			"gemmaudit rules print",
			"gemmaudit rules print --rules house-rules.yaml   # laid over the built-in ones",
		),
		Long: "What is printed is a rules file with every key, which --rules takes. The built-in one has comments.",
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
	cmd.Flags().StringVar(&file, "rules", "", "YAML file of rules, thresholds and waivers, laid over the built-in one")
	complete(cmd, "rules", filesWith("yaml", "yml"))
	return cmd
}

func newRulesCheckCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "check FILE…",
		Short:   "Check rules files; errors name the line",
		Example: examples("gemmaudit rules check house-rules.yaml"),
		Long: `Every file is read as --rules reads it. The first fault of each is named with its line; of a key
that there is not, the keys that there are.` + exitHelp(
			"0  all are right",
			"2  some are not",
			"3  some can't be read"),
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
				what := "nothing differs"
				if n := len(changes); n > 0 {
					what = plural(n, "key differs", "keys differ")
				}
				if err := a.write(fmt.Sprintf("%s: right; %s from the built-in rules", path, what)); err != nil {
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
		Use:   "diff [A] B",
		Short: "Compare two rules files, or one with the built-in rules",
		Example: examples(
			"gemmaudit rules diff house-rules.yaml",
			"gemmaudit rules diff last-year.yaml house-rules.yaml -o markdown",
		),
		Long: `Lists the keys whose values differ, as the rules are in force: both files are laid over the
built-in one first. With one file, A is the built-in one.` + exitHelp(
			"0  compared, whether or not they differ",
			"2  a file is wrong",
			"3  a file can't be read"),
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
