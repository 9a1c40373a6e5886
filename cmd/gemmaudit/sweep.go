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
	"github.com/gemmaudit/gemmaudit/sweep"
)

type sweepOptions struct {
	app     *app
	plan    planFlags
	out     string
	resume  bool
	dryRun  bool
	accept  rules.Accept
	against string // a kernel, the baseline of the table that is printed
	output  report.Format
}

func newSweepCommand(a *app) *cobra.Command {
	opts := &sweepOptions{app: a}
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Plan products and measure them into a run file",
		Example: examples(
			"gemmaudit sweep --preset quick --out run.db",
			"gemmaudit sweep --shape n14336k4096 --batch 4:1024:4 --dtype bf16 --out run.db",
			"gemmaudit sweep --model llama3-8b:gate_up_proj+down_proj --tp 2 --batch pow2:4096 --out run.db",
			"gemmaudit sweep --model path/to/config.json --dry-run         # the plan and its time",
			"gemmaudit sweep --preset overnight --deadline 8h --out night.db",
			"gemmaudit sweep --kernel cublaslt --algos 4 --out run.db       # the library's next algorithms too",
			"gemmaudit sweep --shape n4096k4096 --batch 1:8192 --infer --out all.db   # every M, most inferred",
			"gemmaudit sweep --kernel ladder --dtype fp32 --out rungs.db    # our own kernels, rung by rung",
			"gemmaudit sweep --kernel ./mine.so,auto --out run.db           # a kernel of yours with ours",
			"gemmaudit sweep --library openblas=old.so --library openblas=new.so --kernel openblas --out two.db",
			"gemmaudit sweep --model llama3-8b --batch 1:8192 --deadline 1h --traffic m.csv --out served.db",
			"gemmaudit sweep --op softmax --shape m2048c512 --kernel auto,naive --against naive --out softmax.db",
			"gemmaudit sweep --resume --out night.db                       # continue after Ctrl-C or the deadline",
			"gemmaudit sweep --preset standard --shard 3/8 --out 3.db      # a part, to be merged",
			"gemmaudit sweep --preset quick --label rack=7 --label site=eu --out node.db",
		),
		Long: `Every case is a product m n k of one data type on one kernel. A sample is a block of
launches that fills a few milliseconds; each round takes one sample of every case, in a new
random order; sentinel cases recur, and their drift is monitored. Weights rotate past the
last-level cache, so that they come from memory as in an inference engine (--regime). Softmax
has no weights: its input and output do.

After the screening rounds over all cases, time goes where a verdict is open: to cases
that the rules can neither flag nor clear, or whose loss is not known well enough, to the
cases that they are compared with, and to a few control cases that tell a slow round from
slow cases. The rules look after 7, 11, 17 and 26 rounds, up to --rounds, and what they find
open is measured until the next look. --rounds-for all measures every case in every round.

--infer knows every M of a series without measuring every M. It asks each kernel what it would
run at each M, measures some rows of whatever would run, at its ends and between them, and
infers the other rows from these: their time with an interval, and their verdict. It goes on to
measure rows that are not known to half a percent, or on which a verdict hangs, and one row in
fifty, drawn by --seed, which tells how often such an interval is wrong. Where nothing can be
asked, it searches from a grid of every eighth row, or fewer. A table that is made from such a run
serves every M between its ends. --dry-run counts the rows that would be measured and inferred.
The preset overnight infers unless --infer=false is given. Attention, softmax, and series of fewer
than 64 Ms are always measured row by row; a shard has inferred series whole or not at all.

--traffic names a CSV with the columns m and weight: how often each M is computed where the model
is served. The weight of a listed M holds up to the next listed one, so a line with weight 0 ends
a range; below the first and above the last there is none. With a deadline, rows are then taken in
by steps of an eighth of it, those of most traffic first, each step with all its screening rounds:
what is not reached is what is seldom computed. Where a preset's grid does not fit its time,
the Ms of least traffic are left out. Verdicts do not depend on it.

Without --kernel a sweep takes what people run: libraries, auto, and kernels of yours that
are loaded. --kernel ladder takes our own kernels, rung by rung (naive, tiled, mma and others),
of which auto picks one. Without --dtype it takes the preset's types, and on a CPU fp32 too.

Under a power limit a GPU's clock wanders, and times are judged at one clock: the median of
the sentinels' over the sweep, rounded to 50 MHz, or --clock.

Operands are allocated anew between rounds, as often as one percent of the time allows, so
that a row's interval includes the effect of their place in memory.

Samples are stored one by one, on a GPU while the next block runs: an interrupt loses nothing
that was measured, a killed process the one or two blocks in flight, and
--resume continues. Resuming takes the plan from the run file, with its deadline, which counts
anew; --deadline gives another, 0 none. It continues without devices of the plan that are
missing: they are named, and the exit code is 3. Cases that failed are tried once more.

A case whose block is not over within --case-timeout hangs. It can't be ended from within the
process: the case is recorded as failed, and a new process takes this one's place and measures the
rest. A case that breaks the device's context is dealt with in the same way. Neither is tried again,
neither by --resume nor by confirmation, unless --retry-faults says so. The limit is wall time: of
a block, of loading code ahead of it, or of one step of allocating and packing; a block that is
expected to take longer has four times what is expected. A card that is lost is held against no
case: the run ends with exit code 3 and can be resumed.

A kernel of yours is a shared library with the C interface of gemmaudit_kernel.h (see
examples/README.md). It is loaded into this process: a crash in it ends the program, and it can
do whatever you can do. The run knows it by its name and the file's SHA-256, not by its path:
--resume, audit --confirm and splits --execute take the same file with --kernel-file.

--library opens the library at a path in place of the one that is found. Two versions of one
are two kernels, openblas@0.3.21 and openblas@0.3.30, or openblas@1 and openblas@2 where the
versions are equal, measured in one interleaved run; --kernel openblas selects both, and
diff RUN --kernel A,B compares them. Two versions of cuBLAS need different major versions, or
are compared as cublaslt: see examples/README.md.

A part of a plan is measured with --shard 3/8, and merge joins the parts. They may be counted from
0 too: 0/8 is 8/8. Without --shard the part is the process's own in a Slurm job array
(SLURM_ARRAY_TASK_ID and SLURM_ARRAY_TASK_COUNT), an Indexed Job of Kubernetes whose manifest tells
the count (JOB_COMPLETION_INDEX and JOB_COMPLETIONS), Open MPI (OMPI_COMM_WORLD_RANK and
OMPI_COMM_WORLD_SIZE) or torchrun (RANK and WORLD_SIZE); a line on stderr says so. --shard none
measures the whole plan in each of them, as the nodes of a fleet are compared.

--label names what the machine is called by: the run, what describes it, and exports carry it. A key
has a to z, 0 to 9 and _ . - /.

--against KERNEL prints a row for each case instead of one for each series: its time, its
bandwidth, and how many times as fast it is as that kernel at the same M.

--algos N also measures the next N algorithms of each library that can list its choices, each
as a kernel of its own. The audit then knows whether the library's first choice was the best.
Devices without such a library say so.

The preset decides what the flags leave open.` + exitHelp(
			"0    measured; also when a deadline ended it before all samples of each case were taken",
			"2    the plan is not possible: unknown shape, M below 1, a deadline shorter than one round",
			"3    a device, the disk or the run file failed; or cases did, and all others are measured",
			"4    measured, but the sentinels drifted too far for the run to be judged, cases of the plan were",
			"     not reached, or several machines measured the run",
			"130  interrupted; --resume continues"),
		RunE: func(cmd *cobra.Command, _ []string) error { return opts.run(cmd) },
	}
	opts.plan.register(a, cmd, "standard")
	a.faults.register(cmd)
	a.labels.register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&opts.out, "out", "", "run file to write (default out/TIME-DEVICE/run.db)")
	flags.BoolVar(&opts.resume, "resume", false, "continue the run in --out")
	flags.StringVar(&opts.against, "against", "", "print each case next to that of this kernel at the same M: time, bandwidth and ratio")
	flags.BoolVar(&opts.dryRun, "dry-run", false, "print the plan with a time estimate and measure nothing")
	acceptFlags(cmd, &opts.accept)
	timingsFlag(cmd, &opts.output)
	complete(cmd, "out", filesWith("db"))
	complete(cmd, "against", a.completeKernels(a.kernelNames))
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
			return usagef("--resume can't be combined with --dry-run")
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
	if _, err := a.labels.labels(); err != nil {
		return err
	}
	if err := a.shardOfJob(&o.plan); err != nil {
		return err
	}
	options, err := o.plan.options()
	if err != nil {
		return err
	}
	plan, est, err := a.planFor(ctx, options)
	if err != nil {
		return err
	}
	if err := o.checkAgainst(plan); err != nil {
		return err
	}
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

// checkAgainst refuses a baseline that the plan does not measure, before hours are spent on it.
func (o *sweepOptions) checkAgainst(plan *sweep.Plan) error {
	names := kernelsOf(plan)
	if o.against == "" || slices.Contains(names, o.against) {
		return nil
	}
	return hint(usagef("--against: kernel %q is not measured: expected one of %s", o.against, strings.Join(names, ", ")),
		"--kernel names all kernels that are measured, the baseline among them")
}

// sweepInto creates the run file of a plan and measures the plan into it; cfg says
// whose verdict is open, search how remedies are sought, nil for not at all, goOn is the
// command that goes on after an interruption. A plan of which nothing can be measured leaves no file.
func (a *app) sweepInto(ctx context.Context, path string, plan *sweep.Plan, cfg rules.Config, search *rules.SplitOptions, goOn string) (*results.Run, *sweep.Summary, error) {
	run, err := a.createRun(ctx, path, plan, cfg)
	if err != nil {
		return nil, nil, err
	}
	if search != nil {
		if err := keep(run, stateSearch, search); err != nil {
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

// finish prints what a sweep has left behind.
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
	evidence := rules.Evidence{Held: []rules.Held{holds}, Accept: o.accept, Broken: groundsOf(missing(run, sum, a.resumeSweep(run.Path())))}
	if sum.Invalid != "" {
		evidence.Open = []rules.Ground{{Text: run.Path() + ": " + sum.Invalid, Hint: unsteadyHint}}
	}
	return a.conclude(evidence)
}

// besides is both errors in one, or the one that there is; the first one's hint and code
// count.
func besides(first, second error) error {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return hint(&commandError{code: exitCode(first), err: fmt.Errorf("%w; besides, %w", first, second)}, "%s", cmp.Or(hintOf(first), hintOf(second)))
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// allFailed says whether every case of a run failed, and why one of them did.
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
