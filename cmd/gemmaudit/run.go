package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// limits are the most that confirmation and execution may take after a sweep;
// what is not reached stays unconfirmed, or a prediction, and says so. Zero is
// no limit, but for running cases by themselves, which has one of its own.
type limits struct{ confirm, execute, sustain time.Duration }

// presetLimits keep `run --preset quick` under two minutes on two cores, since its
// sweep takes one at most, and the others in proportion to their sweeps.
var presetLimits = map[string]limits{
	"quick":     {confirm: 22 * time.Second, execute: 16 * time.Second, sustain: 20 * time.Second},
	"standard":  {confirm: 5 * time.Minute, execute: 10 * time.Minute, sustain: 3 * time.Minute},
	"overnight": {confirm: 30 * time.Minute, execute: time.Hour, sustain: 15 * time.Minute},
}

// limitsOf are those of a plan's preset, as long as its deadline holds for the plan.
func limitsOf(plan *sweep.Plan) limits {
	if plan.Deadline == 0 {
		return limits{}
	}
	return presetLimits[plan.Preset]
}

type runOptions struct {
	app     *app
	plan    planFlags
	rules   ruleFlags
	out     string
	parent  string
	resume  bool
	confirm bool
	sustain sustainFlags

	gate     auditGate
	remedies remedyFlags
	images   string
	output   report.Format

	search rules.SplitOptions
	goOn   string // the command that goes on after an interruption
}

func newRunCommand(a *app) *cobra.Command {
	opts := &runOptions{app: a}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Sweep, judge, prove, remedy and report, into one folder",
		Example: examples(
			"gemmaudit run --preset quick                      # under two minutes",
			"gemmaudit run --preset overnight --deadline 8h",
			"gemmaudit run --resume --out out/20060102-150405-cpu   # continue after Ctrl-C or the deadline",
			"gemmaudit run --model mistral-7b:o_proj --dtype bf16 --out o_proj",
			"gemmaudit run --preset quick --gate any -o markdown >> $GITHUB_STEP_SUMMARY",
		),
		Long: `Does everything on this machine: measures the plan into run.db, judges it, measures suspects
again, executes splits, padding and other kernels where they promise a gain, and writes
findings, tables and a report with plots. Remedies are searched for every row, as
splits --among all does. The folder is out/TIME-DEVICE unless --out names one.

--resume goes on with the plan of the run and with its flags of remedies (--remedies, --engine-kernels,
--pads, --predicted, --fill, --same-bits, --batch-invariant); another value of one is an error.

  run.db                     every sample
  index.html, report.md      the report, with plots/
  findings.json, splits.json what was found, with its proof
  table.json .csv .h .go     the lookup table for an engine; of several devices one each, as table-cuda0.json` + exitHelp(
			"0    no confirmed finding (--gate any: no finding at all; --gate none: whatever was found)",
			"1    the gate failed; everything has been written; also where 3 or 4 would hold as well",
			"3    a device, the disk or the run file failed; or cases did, and everything has been written",
			"4    no verdict: the sentinels drifted too far, most rows are undecided, nothing is compared, cases",
			"     of the plan are missing, or several machines measured the run",
			"130  interrupted; the hint says how to continue"),
		RunE: func(cmd *cobra.Command, _ []string) error { return opts.run(cmd) },
	}
	opts.plan.register(a, cmd, defaultPreset)
	opts.rules.register(cmd)
	a.faults.register(cmd)
	a.labels.register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&opts.out, "out", "", "folder to write; it must not hold a run yet, unless --resume continues it")
	flags.BoolVar(&opts.resume, "resume", false, "finish the run in the folder --out: measure what is left, judge and report")
	flags.StringVar(&opts.parent, "parent", "out", "folder in which the run's own is made when --out is not given")
	flags.BoolVar(&opts.confirm, "confirm", true, "measure suspects again and execute remedies")
	opts.sustain.register(cmd)
	a.textfile.register(cmd)
	gateFlag(cmd, &opts.gate)
	opts.remedies.register(a, cmd)
	flags.StringVar(&opts.images, "images", "all", "formats of the plots: all, or some of png,svg,pdf")
	gatesFlag(cmd, &opts.output, report.Formats())
	complete(cmd, "out", folders)
	complete(cmd, "parent", folders)
	complete(cmd, "images", listOf(func() []string { return []string{"all", "png", "svg", "pdf"} }))
	return cmd
}

func (o *runOptions) run(cmd *cobra.Command) (failed error) {
	ctx, a := cmd.Context(), o.app
	if err := o.gate.check(); err != nil {
		return err
	}
	if err := o.remedies.search(&o.search); err != nil {
		return err
	}
	o.search.Among = rules.AmongAll
	images, err := report.ParseImages(o.images)
	if err != nil {
		return usagef("--images: %w", err)
	}
	cfg, err := o.rules.config(a)
	if err != nil {
		return err
	}
	if err := o.sustain.check(); err != nil {
		return err
	}
	if o.sustain.on && (!o.confirm || cfg.Method == rules.MethodArticle) {
		return usagef("--sustained needs findings that are confirmed: it can't be combined with --confirm=false or --method article")
	}
	if err := a.faults.check(); err != nil {
		return err
	}
	o.out = a.takeOver(o.out)
	if o.resume || a.goesOn != nil {
		return o.finishRun(cmd, cfg, images)
	}
	if cfg.Method == rules.MethodArticle && !cmd.Flags().Changed("layout") {
		o.plan.layout = kernels.RowMajor.String() // which the article measured
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
	plan, _, err := a.planFor(ctx, options)
	if err != nil {
		return err
	}
	if err := checkEngineKernels(o.search.Kernels, kernelsOf(plan), a.implementations); err != nil {
		return err
	}
	folder := o.out
	if folder == "" {
		folder = a.newFolder(o.parent, plan.Devices())
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return devicef("create folder %q: %w", folder, withoutPath(err))
	}
	a.out, o.goOn = folder, o.resumeRun(cmd, folder)
	run, sum, err := a.sweepInto(ctx, filepath.Join(folder, "run.db"), plan, cfg, &o.search, o.goOn)
	if run != nil {
		a.textfile.run(run)
		defer closeRun(run, &failed)
	}
	if err != nil {
		return err
	}
	return o.evaluate(ctx, folder, run, sum, cfg, limitsOf(plan), images)
}

// finishRun goes on with an interrupted run: with its sweep where it stopped, with
// everything after that anew. Samples that were stored are not taken again.
func (o *runOptions) finishRun(cmd *cobra.Command, cfg rules.Config, images []report.Image) (failed error) {
	ctx, a := cmd.Context(), o.app
	if o.out == "" {
		return usagef("--resume: --out is missing: expected the folder of the run to continue")
	}
	o.goOn = o.resumeRun(cmd, o.out)
	if err := o.plan.refuseWithResume(o.goOn); err != nil && a.goesOn == nil {
		return err
	}
	run, plan, err := a.reopen(filepath.Join(o.out, "run.db"))
	if err != nil {
		return err
	}
	a.textfile.run(run)
	defer closeRun(run, &failed)
	if err := o.restoreSearch(cmd, run, plan); err != nil {
		return err
	}
	most := limitsOf(plan)
	if o.resume {
		if err := o.plan.renewDeadline(plan); err != nil {
			return err
		}
	}
	_, sum, err := a.measure(ctx, run, plan, o.goOn)
	if err != nil {
		return err
	}
	return o.evaluate(ctx, o.out, run, sum, cfg, most, images)
}

// restoreSearch has remedies sought as the run was told to at its start. A run that was not told is told by
// the command line.
func (o *runOptions) restoreSearch(cmd *cobra.Command, run *results.Run, plan *sweep.Plan) error {
	was, err := kept[rules.SplitOptions](run, stateSearch)
	if err != nil {
		return err
	}
	if was == nil {
		if err := checkEngineKernels(o.search.Kernels, kernelsOf(plan), o.app.implementations); err != nil {
			return err
		}
		return keep(run, stateSearch, &o.search)
	}
	if changes := given(cmd.Flags().Changed, searchChanges(o.search, *was)); len(changes) > 0 {
		again := []string{"splits", run.Path(), "--execute"}
		return hint(usagef("--%s can't be changed by --resume: the run was begun with %s", changes[0].flag, changes[0].was),
			"`%s` with --%s seeks remedies in another way", commandLine(again), changes[0].flag)
	}
	o.search = *was
	return nil
}

// resumeRun is the command that goes on with a run in a folder: what its command
// line said of the verdict and of the output is in no run file, so it is repeated. How remedies are sought is.
func (o *runOptions) resumeRun(cmd *cobra.Command, folder string) string {
	args := []string{"run", "--resume", "--out", folder}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if resumptions[f.Name] == repeated {
			args = append(args, "--"+f.Name+"="+f.Value.String())
		}
	})
	return commandLine(append(args, o.app.brought.args()...))
}

// evaluate judges what a sweep has measured and writes everything that follows
// from it into the folder.
func (o *runOptions) evaluate(ctx context.Context, folder string, run *results.Run, sum *sweep.Summary, cfg rules.Config, most limits, images []report.Image) error {
	a := o.app
	series, err := run.Series()
	if err != nil {
		return err
	}
	if why, all := allFailed(series); all {
		return devicef("%s: no case could be measured: %s", run.Path(), why)
	}
	confirm := o.confirm && cfg.Method != rules.MethodArticle
	if confirm {
		a.notef("measuring suspects again")
	}
	audit, err := limited(ctx, most.confirm, func(ctx context.Context) (*rules.Audit, error) {
		return a.judge(ctx, run, cfg, confirm)
	})
	if err != nil {
		return o.stopped(ctx, err, run)
	}
	a.textfile.verdict(audit)
	if confirm {
		a.notef("executing remedies")
	}
	found, err := limited(ctx, most.execute, func(ctx context.Context) (*rules.SplitsResult, error) {
		return a.findSplits(ctx, run, cfg, o.search, confirm, true)
	})
	if err != nil {
		return o.stopped(ctx, err, run)
	}
	if o.sustain.on && ctx.Err() == nil {
		if err := a.sustain(ctx, run, cfg, audit, found, cmp.Or(o.sustain.limit, most.sustain, sustainLimit)); err != nil {
			return o.stopped(ctx, err, run)
		}
	}
	if err := ctx.Err(); err != nil {
		return o.stopped(ctx, err, run)
	}

	var tables []string
	for _, ext := range tableExtensions {
		tables = append(tables, filepath.Join(folder, "table."+ext))
	}
	written, err := a.writeTables(tables, true, run.Meta(), found)
	if err != nil {
		return err
	}
	notes := []string{"lookup table: " + strings.Join(written, ", ")}
	if err := a.writeReport(ctx, folder, run, cfg, audit, found, notes, reportForm{images: images}); err != nil {
		return err
	}
	holds, err := held(run)
	if err != nil {
		return err
	}
	evidence := o.gate.evidence(audit, holds, undone{}, nil)
	evidence.Broken = groundsOf(missing(run, sum, o.goOn), a.notMeasured(run))
	verdict := a.conclude(evidence)
	if o.output.ForGate() {
		err = a.printChecks(o.output, o.gate.checks("run", run, audit, verdict))
	} else {
		err = o.summarise(folder, run, sum, audit, found)
	}
	return cmp.Or(err, verdict)
}

// summarise prints the outcome on stdout.
func (o *runOptions) summarise(folder string, run *results.Run, sum *sweep.Summary, audit *rules.Audit, found *rules.SplitsResult) error {
	a := o.app
	out := a.stream(a.stdout)
	series, err := run.Series()
	if err != nil {
		return err
	}
	if err := a.wrapPrint(report.WriteAudit(out, o.output, run.Meta(), series, audit)); err != nil {
		return err
	}
	if o.output != report.Table && o.output != report.Wide && o.output != report.Markdown {
		return nil // one document a format; the folder has the rest
	}
	io.WriteString(out, "\n")
	remedies := &report.Document{Subject: "remedies", Head: report.SplitsHead(found)}
	for _, w := range found.Warnings {
		remedies.Notes = append(remedies.Notes, report.Note{Text: w.Subject + ": " + w.Text, Tone: report.Warned})
	}
	// What does not pay is in splits.json and in the report.
	paying := slices.DeleteFunc(slices.Clone(found.Splits), func(r rules.SplitRow) bool { return !r.Pays })
	if len(paying) > 0 {
		remedies.Sheets = []report.Sheet{report.SplitSheet(paying)}
	}
	if err := a.wrapPrint(remedies.Render(out, o.output)); err != nil {
		return err
	}
	io.WriteString(out, "\n")
	if sum.Samples > 0 { // a resumed run may have had nothing left to measure
		fmt.Fprintf(out, "efficiency: %.1f %% of the sweep's wall time inside kernels\n", 100*sum.Efficiency)
	}
	fmt.Fprintf(out, "folder: %s\n", oneLine(folder))
	return nil
}

// stopped turns the end of ctx into an interruption with the command that goes
// on, which is the hint of a lost device as well; other errors stay what they are.
func (o *runOptions) stopped(ctx context.Context, err error, run *results.Run) error {
	if ctx.Err() == nil && errors.Is(err, kernels.ErrDeviceLost) {
		return hint(err, "what was measured is stored; %s", o.goOn)
	}
	if ctx.Err() == nil {
		return err
	}
	return hint(interruptedf("%s: all samples are stored", run.Path()), "%s", o.goOn)
}

// limited calls f with a context that ends after most, 0 for never.
func limited[T any](ctx context.Context, most time.Duration, f func(context.Context) (T, error)) (T, error) {
	if most <= 0 {
		return f(ctx)
	}
	inner, cancel := context.WithTimeoutCause(ctx, most, errors.New("the time for it was up"))
	defer cancel()
	return f(inner)
}
