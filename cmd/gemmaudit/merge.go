package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
)

type mergeOptions struct {
	app    *app
	force  bool
	differ bool
	output report.Format
}

func newMergeCommand(a *app) *cobra.Command {
	opts := &mergeOptions{app: a}
	cmd := &cobra.Command{
		Use:   "merge OUT RUN...",
		Short: "Join shards of one sweep into one run",
		Example: examples(
			"gemmaudit sweep --preset standard --shard 1/2 --out 1.db   # on one machine",
			"gemmaudit sweep --preset standard --shard 2/2 --out 2.db   # on its twin",
			"gemmaudit merge all.db 1.db 2.db --different-machines",
		),
		Long: `The runs must be parts of one plan: same shapes, batches, kernels, regime and seed.
Samples of different machines are joined only when --different-machines says that this
is meant, since the rules compare rows of one series as if one machine had run them.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usagef("%s is missing", []string{"OUT", "RUN"}[len(args)])
			}
			return nil
		},
		ValidArgsFunction: runFiles(0),
		RunE:              func(cmd *cobra.Command, args []string) error { return opts.run(cmd.Context(), args[0], args[1:]) },
	}
	cmd.Flags().BoolVar(&opts.force, "force", false, "replace an existing OUT")
	cmd.Flags().BoolVar(&opts.differ, "different-machines", false, "join runs of different machines")
	outputFlag(cmd, &opts.output)
	return cmd
}

func (o *mergeOptions) run(ctx context.Context, out string, inputs []string) error {
	if err := refuseExisting(out, o.force); err != nil {
		return err
	}
	sources := make([]report.RunSource, len(inputs))
	for i, path := range inputs {
		if sameFile(path, out) {
			return usagef("merge: %q is both OUT and one of the runs", out)
		}
		source, err := describeSource(path)
		if err != nil {
			return err
		}
		sources[i] = source
	}
	run, err := buildRun(out, func(path string) (*results.Run, error) {
		return results.Merge(ctx, path, inputs, results.MergeOptions{DifferentMachines: o.differ, Command: o.app.command})
	})
	var merge *results.MergeError
	if errors.As(err, &merge) && merge.Machine {
		return hint(err, "--different-machines joins them all the same")
	}
	if err != nil {
		return err
	}
	defer run.Close()
	return o.app.printRunFile("merged", out, run, sources, o.output)
}

// describeSource counts what one run brings to a merge.
func describeSource(path string) (report.RunSource, error) {
	run, err := results.Open(path)
	if err != nil {
		return report.RunSource{}, err
	}
	defer run.Close()
	cases, err := run.Cases()
	if err != nil {
		return report.RunSource{}, err
	}
	done, err := run.Done(results.PhaseSweep)
	if err != nil {
		return report.RunSource{}, err
	}
	source := report.RunSource{Path: path, Cases: len(cases)}
	for _, rounds := range done {
		source.Samples += len(rounds)
	}
	return source, nil
}

// sameFile says whether two names are spelled for the same file.
func sameFile(a, b string) bool {
	x, errX := filepath.Abs(a)
	y, errY := filepath.Abs(b)
	return errX == nil && errY == nil && x == y
}
