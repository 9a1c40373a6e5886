package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/merge"
	"github.com/gemmaudit/gemmaudit/rules/outcome"
	"github.com/gemmaudit/gemmaudit/sweep"
)

type mergeOptions struct {
	app    *app
	force  bool
	accept outcome.Accept
	output report.Format
}

func newMergeCommand(a *app) *cobra.Command {
	opts := &mergeOptions{app: a}
	cmd := &cobra.Command{
		Use: "merge OUT RUN...",
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
	acceptFlags(cmd, &opts.accept)
	outputFlag(cmd, &opts.output)
	return cmd
}

func (o *mergeOptions) run(ctx context.Context, out string, inputs []string) error {
	if err := refuseExisting(out, o.force); err != nil {
		return err
	}
	sources := make([]report.RunSource, len(inputs))
	var shards []sweep.Shard
	for i, path := range inputs {
		if sameFile(path, out) {
			return usagef("merge: %q is both OUT and one of the runs", out)
		}
		for _, before := range inputs[:i] {
			if sameFile(path, before) {
				return usagef("merge: %q is given twice", path)
			}
		}
		source, shard, err := describeSource(path)
		if err != nil {
			return err
		}
		for j, before := range shards {
			if before.Count != 0 && shard.Count != 0 && before.Count != shard.Count {
				return usagef("merge: %q is shard %v and %q is %v, expected the same number of parts", inputs[j], before, path, shard)
			}
		}
		sources[i] = source
		shards = append(shards, shard)
	}
	run, err := buildRun(out, func(path string) (*results.Run, error) {
		return merge.Runs(ctx, path, inputs, merge.Options{DifferentMachines: o.accept.Mixed, Command: o.app.command})
	})
	var merge *merge.Error
	if errors.As(err, &merge) && merge.Machine {
		return hint(err, "--accept-mixed joins them anyway")
	}
	if err != nil {
		return err
	}
	defer run.Close()
	for _, shard := range missingShards(shards) {
		plan, err := sweep.DecodePlan(run.Meta().Plan)
		if err != nil {
			break // no plan, or held reports why it is unreadable
		}
		if plan.Shard = shard; plan.Rows() > 0 { // a part without a case has no sweep
			o.app.warnf("shard %v is missing: its cases are not in %s", shard, out)
		}
	}
	if err := o.app.printRunFile("merged", out, run, sources, nil, o.output); err != nil {
		return err
	}
	holds, err := held(run)
	if err != nil {
		return err
	}
	return o.app.conclude(outcome.Evidence{Name: out, Held: []outcome.Held{holds}, Accept: o.accept})
}

// missingShards lists the parts of a plan that no shard covers. The shards share one count; the zero shard is
// the whole plan.
func missingShards(shards []sweep.Shard) []sweep.Shard {
	var missing []sweep.Shard
	count := 0
	for _, s := range shards {
		if s.Count == 0 {
			return nil
		}
		count = s.Count
	}
	for i := 1; i <= count; i++ {
		if part := (sweep.Shard{Index: i, Count: count}); !slices.Contains(shards, part) {
			missing = append(missing, part)
		}
	}
	return missing
}

// describeSource counts a run's contribution to a merge and returns its shard. An imported run has no plan
// and counts as whole.
func describeSource(path string) (report.RunSource, sweep.Shard, error) {
	fail := func(err error) (report.RunSource, sweep.Shard, error) { return report.RunSource{}, sweep.Shard{}, err }
	run, err := results.Open(path)
	if err != nil {
		return fail(err)
	}
	defer run.Close()
	swept, err := run.Swept()
	if err != nil {
		return fail(err)
	}
	var shard sweep.Shard
	if plan, err := sweep.DecodePlan(run.Meta().Plan); err == nil {
		shard = plan.Shard
	}
	return report.RunSource{Path: path, Cases: swept.Cases, Samples: swept.Samples}, shard, nil
}

func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	if errA == nil && errB == nil && os.SameFile(infoA, infoB) {
		return true
	}
	x, errX := filepath.Abs(a)
	y, errY := filepath.Abs(b)
	return errX == nil && errY == nil && x == y
}
