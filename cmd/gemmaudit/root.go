package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:           "gemmaudit",
		Version:       versionText(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := refuseEmptyValues(cmd.Flags()); err != nil {
				return err
			}
			began := a.now()
			if a.goesOn != nil {
				began = a.goesOn.Began
			}
			if err := a.textfile.begin(cmd, began); err != nil {
				return err
			}
			if a.supervise != nil && bringsCode(cmd) {
				cmd.RunE = func(*cobra.Command, []string) error { return a.inChild() } // the parent only supervises
				return nil
			}
			return a.brought.check(a.providers)
		},
		RunE: helpOfGroup,
	}
	printHelp(root)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return hint(usage(plainValue(err)), "`%s --help` lists the flags", cmd.CommandPath())
	})
	root.CompletionOptions.DisableDefaultCmd = true

	root.Flags().Bool("version", false, "same as the version command")
	flags := root.PersistentFlags()
	flags.StringVar(&a.device, "device", "auto", "auto, a name that the devices command lists, or KIND:all")
	flags.BoolVarP(&a.quiet, "quiet", "q", false, "no progress and notes on stderr")
	flags.BoolVar(&a.noColor, "no-color", false, "no colors; same as NO_COLOR")
	flags.BoolVar(&a.spreadsheet, "spreadsheet", false, "protect CSV cells from formula injection in spreadsheets")
	complete(root, "device", a.completeDevices)

	root.AddCommand(
		newRunCommand(a),
		newTriageCommand(a),
		newDevicesCommand(a),
		newSweepCommand(a),
		newChoicesCommand(a),
		newAuditCommand(a),
		newSplitsCommand(a),
		newAdviseCommand(a),
		newReportCommand(a),
		newDiffCommand(a),
		newHistoryCommand(a),
		newFleetCommand(a),
		newCheckCommand(a),
		newTableCommand(a),
		newRulesCommand(a),
		newExplainCommand(a),
		newImportCommand(a),
		newExportCommand(a),
		newMergeCommand(a),
		newMistralCommand(a),
		newSelftestCommand(a),
		newDoctorCommand(a),
		newVersionCommand(a),
		newCompletionCommand(a),
		newManCommand(a),
	)
	for _, c := range allCommands(root) {
		describe(c)
		completeNoFiles(c)
		if c != root {
			wrapArgs(c)
		}
		wantsHelpAll(c)
	}
	help := &cobra.Command{
		Use: "help [COMMAND]",
		RunE: func(cmd *cobra.Command, args []string) error {
			target, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return unknownCommand(cmd.Root(), strings.Join(args, " "))
			}
			return target.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			var names []cobra.Completion
			if len(args) == 0 {
				for _, c := range cmd.Root().Commands() {
					if c.IsAvailableCommand() {
						names = append(names, cobra.CompletionWithDesc(c.Name(), c.Short))
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
	wantsHelpAll(help)
	root.SetHelpCommand(help)
	describe(help)
	return root
}

// commandGroup is a command that only has commands.
func commandGroup(name string, commands ...*cobra.Command) *cobra.Command {
	group := &cobra.Command{Use: name, Args: cobra.ArbitraryArgs, RunE: helpOfGroup}
	group.AddCommand(commands...)
	return group
}

func helpOfGroup(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknownCommand(cmd, args[0])
	}
	return cmd.Help()
}

func unknownCommand(root *cobra.Command, name string) error {
	err := usagef("unknown command %q", name)
	root.SuggestionsMinimumDistance = 2
	path := root.CommandPath()
	if near := root.SuggestionsFor(name); len(near) > 0 {
		return hint(err, "did you mean `%s %s`?", path, strings.Join(near, "` or `"+path+" "))
	}
	return hint(err, "`%s --help` lists the commands", path)
}

func allCommands(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		all = append(all, allCommands(sub)...)
	}
	return all
}

// refuseEmptyValues returns an error if a flag has an empty value, as from a script with an unset variable.
// Treating the flag as absent would measure something else.
func refuseEmptyValues(flags *pflag.FlagSet) error {
	var err error
	flags.Visit(func(f *pflag.Flag) {
		value := f.Value.String()
		if err == nil && (value == "" || value == "[]" && f.Value.Type() == "stringSlice") {
			err = hint(usagef("--%s: the value is empty", f.Name), "--%s: %s; omit it for the default", f.Name, f.Usage)
		}
	})
	return err
}

var valueKinds = map[string]string{
	"bool": "true or false", "int": "a whole number", "intSlice": "whole numbers, separated by commas",
	"uint64": "a whole number, at least 0", "float64": "a number", "duration": "a time with unit, as in 90s or 8h",
}

// plainValue states the expected value, without the name of the parsing function.
func plainValue(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	f := invalid.GetFlag()
	want := valueKinds[f.Value.Type()]
	switch {
	case want == "":
		return err
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("--%s: %q is too large", f.Name, invalid.GetValue())
	}
	return fmt.Errorf("--%s: %q, expected %s", f.Name, invalid.GetValue(), want)
}

func wrapArgs(c *cobra.Command) {
	check := c.Args
	if check == nil {
		check = cobra.NoArgs
	}
	c.Args = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return hint(usage(err), "usage: %s", cmd.UseLine())
		}
		return nil
	}
}

// exactArgs requires one argument for each name; the error names the missing one.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return usagef("%s is missing", names[len(args)])
		}
		if len(args) > len(names) {
			return usagef("unexpected argument %q after %s", args[len(names)], strings.Join(names, " "))
		}
		return nil
	}
}

func atLeastArgs(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return usagef("%s is missing", names[len(args)])
		}
		return nil
	}
}
