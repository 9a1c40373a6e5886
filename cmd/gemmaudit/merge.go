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
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/sweep"
)

type mergeOptions struct {
	app    *app
	force  bool
	accept rules.Accept
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
			"gemmaudit merge all.db 1.db 2.db --accept-mixed",
		),
		Long: `The runs must be parts of one plan: same shapes, batches, kernels, regime and seed.
Samples of different machines are joined only with --accept-mixed, since the rules compare rows
of one series as if one machine had run them; whoever judges the merged run accepts it too.

The merged run knows the whole plan. What no shard has measured is part of its verdicts: here and
in audit cases that failed exit 3, missing ones 4, and the run is written all the same.
--accept-failed and --accept-missing let them pass.` + exitHelp(
			"0  merged, and the run holds all that its plan asks for",
			"2  the runs are no parts of one plan",
			"3  a run can't be read, or cases failed in it; the merged run is written where all could be read",
			"4  cases of the plan are missing: a shard was forgotten or is unfinished; the merged run is written"),
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
				return usagef("merge: %q is shard %v and %q is %v, expected shards of as many parts", inputs[j], before, path, shard)
			}
		}
		sources[i] = source
		shards = append(shards, shard)
	}
	run, err := buildRun(out, func(path string) (*results.Run, error) {
		return results.Merge(ctx, path, inputs, results.MergeOptions{DifferentMachines: o.accept.Mixed, Command: o.app.command})
	})
	var merge *results.MergeError
	if errors.As(err, &merge) && merge.Machine {
		return hint(err, "--accept-mixed joins them regardless")
	}
	if err != nil {
		return err
	}
	defer run.Close()
	for _, shard := range missingShards(shards) {
		plan, err := sweep.DecodePlan(run.Meta().Plan)
		if err != nil {
			break // there is none, or held says why it can't be read
		}
		if plan.Shard = shard; plan.Rows() > 0 { // no sweep is made of a part without a case
			o.app.warnf("shard %v is missing: its cases are not in %s", shard, out)
		}
	}
	if err := o.app.printRunFile("merged", out, run, sources, o.output); err != nil {
		return err
	}
	holds, err := held(run)
	if err != nil {
		return err
	}
	return o.app.conclude(rules.Evidence{Name: out, Held: []rules.Held{holds}, Accept: o.accept})
}

// missingShards lists the parts of a plan that none of the shards is. The shards
// have one count; a shard of the zero value is the whole plan.
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

// describeSource counts what one run brings to a merge, and says which shard of
// its plan it is. An imported run has no plan and is the whole of itself.
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

// sameFile says whether two names are of one file, also through a link.
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
