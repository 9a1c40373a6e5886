package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/outcome"
	"github.com/gemmaudit/gemmaudit/rules/verdict"
	"github.com/gemmaudit/gemmaudit/sweep"
)

type sweepOptions struct {
	app     *app
	plan    planFlags
	out     string
	resume  bool
	dryRun  bool
	accept  outcome.Accept
	against string // the kernel that is the baseline of the printed table
	output  report.Format
}

func newSweepCommand(a *app) *cobra.Command {
	opts := &sweepOptions{app: a}
	cmd := &cobra.Command{
		Use:  "sweep",
		RunE: func(cmd *cobra.Command, _ []string) error { return opts.run(cmd) },
	}
	opts.plan.register(a, cmd, "standard")
	a.faults.register(cmd)
	a.labels.register(cmd)
	flags := cmd.Flags()
	addFlag(cmd, &opts.out, "out", "", "run file to write (default out/TIME-DEVICE/run.db)", filesWith("db"))
	flags.BoolVar(&opts.resume, "resume", false, resumeUsage)
	addFlag(cmd, &opts.against, "against", "", "print each case next to this kernel: time, bandwidth and speedup",
		a.completeKernels(a.kernelNames))
	dryRunFlag(cmd, &opts.dryRun)
	acceptFlags(cmd, &opts.accept)
	timingsFlag(cmd, &opts.output)
	return cmd
}

func (o *sweepOptions) run(cmd *cobra.Command) (failed error) {
	ctx, a := cmd.Context(), o.app
	if err := a.faults.check(); err != nil {
		return err
	}
	o.out = a.takeOver(o.out)
	if o.resume || a.goesOn != nil {
		if o.out == "" {
			return usagef("--resume: --out is missing: expected the run file to continue")
		}
		if o.dryRun {
			return errDryResume()
		}
		if err := o.plan.refuseWithResume(a.resumeSweep(o.out)); err != nil && a.goesOn == nil {
			return err
		}
		run, plan, err := a.reopen(o.out)
		if err != nil {
			return err
		}
		defer closeRun(run, &failed)
		if err := o.checkAgainst(plan); err != nil {
			return err
		}
		if o.resume {
			if err := o.plan.renewDeadline(plan); err != nil {
				return err
			}
		}
		return o.finish(a.measure(ctx, run, plan, a.resumeSweep(o.out)))
	}
	plan, est, err := a.planned(ctx, &o.plan, func(*sweep.Options) {})
	if err != nil {
		return err
	}
	if err := o.checkAgainst(plan); err != nil {
		return err
	}
	a.noteTypes(&o.plan, plan)
	if o.dryRun {
		described, err := a.describePlan(ctx, plan, est)
		if err != nil {
			return err
		}
		return a.wrapPrint(report.WritePlan(a.stream(a.stdout), o.output, described))
	}
	out := o.out
	if out == "" {
		folder := a.newFolder("out", plan.Devices())
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return devicef("create folder %q: %w", folder, withoutPath(err))
		}
		out = filepath.Join(folder, "run.db")
	}
	a.out = out
	run, sum, err := a.sweepInto(ctx, out, plan, rules.Default(), nil, a.resumeSweep(out))
	if run != nil {
		defer closeRun(run, &failed)
	}
	return o.finish(run, sum, err)
}

func dryRunFlag(cmd *cobra.Command, dryRun *bool) {
	cmd.Flags().BoolVar(dryRun, "dry-run", false, "print the plan and its time estimate, without measuring")
}

func errDryResume() error { return usagef("--resume can't be combined with --dry-run") }

// checkAgainst rejects a baseline outside the plan, before hours of measuring.
func (o *sweepOptions) checkAgainst(plan *sweep.Plan) error {
	names := kernelsOf(plan)
	if o.against == "" || slices.Contains(names, o.against) {
		return nil
	}
	return hint(usagef("--against: kernel %q is not measured: expected one of %s", o.against, strings.Join(names, ", ")),
		"include the baseline in --kernel")
}

// sweepInto creates the run file of a plan and measures the plan. cfg decides which verdicts are open. before
// (may be nil) is called with the run before measuring. goOn is the command that continues after an
// interruption. If no case can be measured, it leaves no file.
func (a *app) sweepInto(ctx context.Context, path string, plan *sweep.Plan, cfg rules.Config, before func(*results.Run) error,
	goOn string) (*results.Run, *sweep.Summary, error) {
	run, err := a.createRun(ctx, path, plan, cfg)
	if err != nil {
		return nil, nil, err
	}
	if before != nil {
		if err := before(run); err != nil {
			return nil, nil, errors.Join(err, run.Close())
		}
	}
	run, sum, err := a.measure(ctx, run, plan, goOn)
	var deadline *sweep.DeadlineError
	if errors.As(err, &deadline) {
		return nil, nil, errors.Join(err, run.Close(), os.Remove(path))
	}
	return run, sum, err
}

func (o *sweepOptions) finish(run *results.Run, sum *sweep.Summary, err error) error {
	if err != nil {
		return err
	}
	series, err := run.Series()
	if err != nil {
		return err
	}
	a := o.app
	if o.against != "" {
		err = report.WriteAgainst(a.stream(a.stdout), o.output, series, o.against)
	} else {
		err = report.WriteOverview(a.stream(a.stdout), o.output, run.Meta(), series)
	}
	if err := a.wrapPrint(err); err != nil {
		return err
	}
	a.notef("run file: %s", run.Path())
	if why, all := allFailed(series); all {
		return devicef("%s: no case could be measured: %s", run.Path(), why)
	}
	holds, err := held(run)
	if err != nil {
		return err
	}
	holds.Continue = a.resumeSweep(run.Path())
	evidence := outcome.Evidence{Held: []outcome.Held{holds}, Accept: o.accept, Broken: groundsOf(missing(run, sum, holds.Continue))}
	// Too much drift is no ground if the audit can judge the run all the same.
	data, err := infer.LoadData(run)
	if err != nil {
		return err
	}
	if sum.Invalid != "" && infer.Unjudgeable(data, rules.Default().Basis()) != "" {
		evidence.Open = []outcome.Ground{{Text: run.Path() + ": " + sum.Invalid, Hint: verdict.UnsteadyHint}}
	}
	return a.conclude(evidence)
}

// joinErrors combines two errors; either may be nil. Hint and exit code come from the first.
func joinErrors(first, second error) error {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return hint(&commandError{code: exitCode(first), err: fmt.Errorf("%w; also: %w", first, second)}, "%s",
		cmp.Or(hintOf(first), hintOf(second)))
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func allFailed(series []results.Series) (why string, all bool) {
	for _, s := range series {
		for _, r := range s.Rows {
			if len(r.Samples) > 0 || r.Failed == "" {
				return "", false
			}
			why = r.Failed
		}
	}
	return why, why != ""
}
