package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newRootCommand assembles the command tree on one app.
func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "gemmaudit",
		Short: "Is this matrix product as fast as this machine can do it, and what would make it faster?",
		Example: examples(
			"gemmaudit run --preset quick          # measure, judge, prove and remedy, in one folder",
			"gemmaudit devices                     # what can be audited here, and how fast it could be",
			"gemmaudit import sweep.csv --out r.db # or bring measurements taken elsewhere",
			"gemmaudit audit r.db                  # which products are slower than they should be",
			"gemmaudit splits r.db                 # which would be faster in two parts, or padded",
		),
		Long: `A GEMM is C[M,N] = A[M,K] · B[K,N], with M the batch. gemmaudit times thousands of
them, finds those that are slower than a smaller or differently arranged product says
they should be, proves each finding by measuring it again, and writes the remedy down
as a table that an inference engine can load.` + exitHelp(
			"0    clean",
			"1    a gate failed: confirmed findings, a regression, a table that no longer pays",
			"2    usage: the command line can't be carried out as it stands, or a CSV is wrong",
			"3    a device, a run file or the disk failed",
			"4    inconclusive: measured, but no verdict could be reached",
			"130  interrupted; nothing measured so far is lost"),
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
				cmd.RunE = func(*cobra.Command, []string) error { return a.inChild() } // nothing of the command is done here
				return nil
			}
			return a.brought.check(a.providers)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return cmd.Help()
		},
	}
	root.SetHelpTemplate(helpTemplate)
	printHelpAtOnce(root)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return hint(usage(plainValue(err)), "`%s --help` lists the flags", cmd.CommandPath())
	})
	root.CompletionOptions.DisableDefaultCmd = true

	root.Flags().Bool("version", false, "print the program's version, as the version command does")
	flags := root.PersistentFlags()
	flags.StringVar(&a.device, "device", "auto", "device to measure on: auto, one that \"gemmaudit devices\" lists, or KIND:all")
	flags.BoolVarP(&a.quiet, "quiet", "q", false, "no progress and no notes on stderr")
	flags.BoolVar(&a.noColor, "no-color", false, "no colours; NO_COLOR does the same")
	flags.BoolVar(&a.spreadsheet, "spreadsheet", false, "put ' before words in CSV that a spreadsheet would run as formulas")
	complete(root, "device", a.completeDevices)

	root.AddCommand(
		newRunCommand(a),
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
		newCalibrateCommand(a),
		newVersionCommand(a),
		newCompletionCommand(a),
		newManCommand(a),
	)
	for _, c := range allCommands(root)[1:] {
		wrapArgs(c)
	}
	root.SetHelpCommand(&cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Teach a command",
		Example: examples("gemmaudit help sweep"),
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
	})
	return root
}

// unknownCommand names the commands that are spelled much like name.
func unknownCommand(root *cobra.Command, name string) error {
	err := usagef("unknown command %q", name)
	root.SuggestionsMinimumDistance = 2
	path := root.CommandPath()
	if near := root.SuggestionsFor(name); len(near) > 0 {
		return hint(err, "did you mean `%s %s`?", path, strings.Join(near, "` or `"+path+" "))
	}
	return hint(err, "`%s --help` lists the commands", path)
}

// allCommands lists a command and all below it.
func allCommands(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		all = append(all, allCommands(sub)...)
	}
	return all
}

// refuseEmptyValues returns an error when a flag was given without content, as
// a script does whose variable is not set. Read as if the flag were absent, it
// would measure something else than was meant.
func refuseEmptyValues(flags *pflag.FlagSet) error {
	var err error
	flags.Visit(func(f *pflag.Flag) {
		value := f.Value.String()
		if err == nil && (value == "" || value == "[]" && f.Value.Type() == "stringSlice") {
			err = hint(usagef("--%s: the value is empty", f.Name), "--%s: %s; leave it out for the default", f.Name, f.Usage)
		}
	})
	return err
}

// valueKinds are what a value of a type of flags has to be.
var valueKinds = map[string]string{
	"bool": "true or false", "int": "a whole number", "intSlice": "whole numbers, separated by commas",
	"uint64": "a whole number from 0 on", "float64": "a number", "duration": "a time with its unit, as in 90s or 8h",
}

// plainValue says of a value that could not be read what was expected, without the function that read it.
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

// wrapArgs makes wrong numbers of arguments usage errors like all others.
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

// exactArgs demands one argument for each name; the error says which is missing.
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

// atLeastArgs demands at least one argument for each name.
func atLeastArgs(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return usagef("%s is missing", names[len(args)])
		}
		return nil
	}
}
