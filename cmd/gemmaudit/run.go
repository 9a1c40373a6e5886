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
	"github.com/gemmaudit/gemmaudit/results/table/file"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/rules/verdict"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// limits bound the time of confirmation and execution after a sweep; unfinished items stay unconfirmed or
// predicted and are reported as such. Zero means no limit, except sustain, which then has its own.
type limits struct{ confirm, execute, sustain time.Duration }

// presetLimits keep `run --preset quick` under two minutes on two cores, with a sweep of at most one minute,
// and scale with the other presets' sweeps.
var presetLimits = map[string]limits{
	"quick":     {confirm: 22 * time.Second, execute: 16 * time.Second, sustain: 20 * time.Second},
	"standard":  {confirm: 5 * time.Minute, execute: 10 * time.Minute, sustain: 3 * time.Minute},
	"overnight": {confirm: 30 * time.Minute, execute: time.Hour, sustain: 15 * time.Minute},
}

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

	gate     verdict.Gate
	remedies remedyFlags
	images   string
	output   report.Format
	all      bool // list every problem
	dryRun   bool

	search remedy.Options
	goOn   string // the command that continues after an interruption

	triage *triageOptions // set for triage, else nil
}

func (o *runOptions) registerFolder(cmd *cobra.Command) {
	addFlag(cmd, &o.out, "out", "", "folder to write or --resume (default out/TIME-DEVICE)", folders)
	addFlag(cmd, &o.parent, "parent", "out", "parent of the new folder if --out is not given", folders)
}

func newRunCommand(a *app) *cobra.Command {
	opts := &runOptions{app: a}
	cmd := &cobra.Command{
		Use:  "run",
		RunE: func(cmd *cobra.Command, _ []string) error { return opts.run(cmd) },
	}
	opts.plan.register(a, cmd, defaultPreset)
	opts.rules.register(cmd)
	a.faults.register(cmd)
	a.labels.register(cmd)
	flags := cmd.Flags()
	opts.registerFolder(cmd)
	flags.BoolVar(&opts.resume, "resume", false, resumeUsage)
	dryRunFlag(cmd, &opts.dryRun)
	flags.BoolVar(&opts.confirm, "confirm", true, "measure suspects again and execute remedies")
	opts.sustain.register(cmd)
	a.textfile.register(cmd)
	findingsGate(cmd, &opts.gate)
	opts.remedies.register(a, cmd)
	allFlag(cmd, &opts.all)
	imagesFlag(cmd, &opts.images, "all")
	gatesFlag(cmd, &opts.output, report.Formats())
	return cmd
}

func (o *runOptions) run(cmd *cobra.Command) (failed error) {
	ctx, a := cmd.Context(), o.app
	if err := o.gate.Validate(); err != nil {
		return usage(err)
	}
	if err := o.remedies.search(&o.search); err != nil {
		return err
	}
	o.search.Among = remedy.AmongAll
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
		return usagef("--sustained needs confirmed findings: it can't be combined with --confirm=false or --method article")
	}
	if err := a.faults.check(); err != nil {
		return err
	}
	if o.dryRun && o.resume {
		return errDryResume()
	}
	o.out = a.takeOver(o.out)
	if o.resume || a.goesOn != nil {
		return o.finishRun(cmd, cfg, images)
	}
	if cfg.Method == rules.MethodArticle && !cmd.Flags().Changed("layout") {
		o.plan.layout = kernels.RowMajor.String() // as measured in the article
	}
	plan, est, err := a.planned(ctx, &o.plan, func(options *sweep.Options) {
		if o.triage != nil {
			o.triage.choose(options)
		}
	})
	if err != nil {
		return err
	}
	if err := checkEngineKernels(o.search.Kernels, kernelsOf(plan), a.implementations); err != nil {
		return err
	}
	a.noteTypes(&o.plan, plan)
	if o.dryRun {
		described, err := a.describePlan(ctx, plan, est)
		if err != nil {
			return err
		}
		if most := o.limits(plan); o.confirm && cfg.Method != rules.MethodArticle {
			if o.sustain.on && most.confirm > 0 {
				most.execute += cmp.Or(o.sustain.limit, most.sustain)
			}
			proof := report.Seconds(most.confirm + most.execute)
			described.Proof = &proof
		}
		return a.wrapPrint(report.WritePlan(a.stream(a.stdout), o.output, described))
	}
	folder := o.out
	if folder == "" {
		folder = a.newFolder(o.parent, plan.Devices())
	}
	_, absent := os.Stat(folder)
	made := errors.Is(absent, os.ErrNotExist)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return devicef("create folder %q: %w", folder, withoutPath(err))
	}
	a.out, o.goOn = folder, o.resumeRun(cmd, folder)
	run, sum, err := a.sweepInto(ctx, filepath.Join(folder, "run.db"), plan, cfg, o.keepAsked, o.goOn)
	if run != nil {
		a.textfile.run(run)
		defer closeRun(run, &failed)
	}
	if err != nil {
		if run == nil && made {
			os.Remove(folder) // it is empty
		}
		return err
	}
	return o.evaluate(ctx, folder, run, sum, cfg, o.limits(plan), images)
}

func (o *runOptions) limits(plan *sweep.Plan) limits {
	if o.triage != nil {
		return o.triage.limits(plan)
	}
	return limitsOf(plan)
}

// keepAsked stores requests that are not in the plan.
func (o *runOptions) keepAsked(run *results.Run) error {
	if err := verdict.Keep(run, verdict.StateSearch, &o.search); err != nil || o.triage == nil {
		return err
	}
	return verdict.Keep(run, stateTriage, &o.triage.asked)
}

// finishRun continues an interrupted run: the sweep from where it stopped, all later steps from the
// beginning. Stored samples are not measured again.
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
	if o.triage != nil {
		if err := o.triage.restore(run); err != nil {
			return err
		}
	}
	if o.resume {
		if err := o.plan.renewDeadline(plan); err != nil {
			return err
		}
	}
	_, sum, err := a.measure(ctx, run, plan, o.goOn)
	if err != nil {
		return err
	}
	return o.evaluate(ctx, o.out, run, sum, cfg, o.limits(plan), images)
}

// restoreSearch uses the search settings stored at the run's start. Without stored ones, the command line
// applies.
func (o *runOptions) restoreSearch(cmd *cobra.Command, run *results.Run, plan *sweep.Plan) error {
	was, err := verdict.Kept[remedy.Options](run, verdict.StateSearch)
	if err != nil {
		return err
	}
	if was == nil {
		if err := checkEngineKernels(o.search.Kernels, kernelsOf(plan), o.app.implementations); err != nil {
			return err
		}
		return verdict.Keep(run, verdict.StateSearch, &o.search)
	}
	if changes := given(cmd.Flags().Changed, verdict.SearchChanges(o.search, *was)); len(changes) > 0 {
		again := []string{"splits", run.Path(), "--execute"}
		return hint(usagef("--%s can't be changed by --resume: the run was begun with %s", changes[0].Flag, changes[0].Was),
			"`%s` with --%s searches again", commandLine(again), changes[0].Flag)
	}
	o.search = *was
	return nil
}

// resumeRun is the command that continues a run in a folder. It repeats the flags on verdict and output,
// which no run file has; the search settings are stored.
func (o *runOptions) resumeRun(cmd *cobra.Command, folder string) string {
	args := []string{cmd.Name(), "--resume", "--out", folder}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if resumptions[f.Name] == repeated {
			args = append(args, "--"+f.Name+"="+f.Value.String())
		}
	})
	return commandLine(append(args, o.app.brought.args()...))
}

func (o *runOptions) evaluate(ctx context.Context, folder string, run *results.Run, sum *sweep.Summary, cfg rules.Config, most limits,
	images []report.Image) error {
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
		a.nextStage("measuring suspects again", most.confirm)
	}
	audit, err := limited(ctx, most.confirm, func(ctx context.Context) (*rules.Audit, error) {
		return a.judge(ctx, run, cfg, confirm)
	})
	if err != nil {
		return o.stopped(ctx, err, run)
	}
	a.textfile.verdict(audit)
	if confirm {
		a.nextStage("executing remedies", most.execute)
	}
	found, err := limited(ctx, most.execute, func(ctx context.Context) (*remedy.Result, error) {
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
	for _, ext := range file.Extensions {
		tables = append(tables, filepath.Join(folder, "table."+ext))
	}
	var written, notes []string
	if audit.Invalid == "" {
		if written, err = a.writeTables(tables, true, run.Meta(), found); err != nil {
			return err
		}
		notes = []string{"lookup table: " + strings.Join(written, ", ")}
	} else if err := removeTables(folder); err != nil {
		return err
	}
	data, err := infer.LoadData(run)
	if err != nil {
		return err
	}
	data = data.Along(cfg.Basis())
	answer := newAnswer(data, audit, found, o.search.Kernels)
	if err := a.writeReport(ctx, folder, run, cfg, audit, found, answer, notes, reportForm{images: images}); err != nil {
		return err
	}
	holds, err := held(run)
	if err != nil {
		return err
	}
	holds.Continue = o.goOn
	evidence := o.gate.Audit(audit, holds, nil, nil)
	evidence.Broken = groundsOf(missing(run, sum, o.goOn), a.notMeasured(run))
	ended := a.conclude(evidence)
	if o.output.ForGate() {
		err = a.printChecks(o.output, auditChecks("run", o.gate, run, audit, ended))
	} else {
		err = o.summarise(folder, run, data.Series, sum, audit, found, answer, written)
	}
	return cmp.Or(err, ended)
}

// summarise prints the outcome on stdout as one document per format; the folder has the rest.
func (o *runOptions) summarise(folder string, run *results.Run, series []results.Series, sum *sweep.Summary, audit *rules.Audit,
	found *remedy.Result, answer *report.Answer, tables []string) error {
	if o.triage != nil {
		return o.triage.answer(folder, run, audit, found, answer.Problems)
	}
	a := o.app
	out := a.stream(a.stdout)
	if answer.Invalid != "" {
		answer.Next = append(answer.Next,
			"no table: this run cannot be judged; `"+
				commandLine([]string{"splits", run.Path(), "--table", filepath.Join(folder, "table.json")})+"` writes it all the same")
	}
	answer.Next = append(answer.Next, "page: "+oneLine(filepath.Join(folder, "index.html")))
	answer.Next = append(answer.Next, nextSteps(run.Path(), answer, audit)...)
	if answer.Invalid == "" && answer.Proven > 0 {
		answer.Next = append([]string{"table: " + oneLine(filepath.Join(folder, tables[0]))}, answer.Next...)
	}
	if err := a.wrapPrint(report.WriteVerdict(out, o.output, run.Meta(), series, audit, answer, o.all)); err != nil ||
		o.output != report.Wide {
		return err
	}
	io.WriteString(out, "\n")
	remedies := &report.Document{Subject: "remedies", Head: report.SplitsHead(found)}
	for _, w := range found.Warnings {
		remedies.Notes = append(remedies.Notes, report.Note{Text: w.Subject + ": " + w.Text, Tone: report.Warned})
	}
	// Remedies that do not pay are in splits.json and in the report.
	paying := slices.DeleteFunc(slices.Clone(found.Splits), func(r remedy.Row) bool { return !r.Pays })
	if len(paying) > 0 {
		remedies.Sheets = []report.Sheet{report.SplitSheet(paying)}
	}
	if err := a.wrapPrint(remedies.Render(out, o.output)); err != nil {
		return err
	}
	if sum.Samples > 0 { // a resumed run may be complete
		fmt.Fprintf(out, "\nefficiency: %.1f %% of the sweep's wall time inside kernels\n", 100*sum.Efficiency)
	}
	return nil
}

// stopped converts the end of ctx to an interruption with the command that continues, which is also the hint
// for a lost device; other errors are unchanged.
func (o *runOptions) stopped(ctx context.Context, err error, run *results.Run) error {
	if ctx.Err() == nil && errors.Is(err, kernels.ErrDeviceLost) {
		return hint(err, "all samples are stored; %s", o.goOn)
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
	inner, cancel := context.WithTimeoutCause(ctx, most, errors.New("the time limit was reached"))
	defer cancel()
	return f(inner)
}

// removeTables deletes the tables of an earlier start from the folder of a run without a verdict.
func removeTables(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return devicef("read folder %q: %w", folder, withoutPath(err))
	}
	for _, e := range entries {
		base, ext, _ := strings.Cut(e.Name(), ".")
		if base != "table" && !strings.HasPrefix(base, "table-") || !slices.Contains(file.Extensions, ext) {
			continue
		}
		if err := os.Remove(filepath.Join(folder, e.Name())); err != nil {
			return devicef("remove %q in %q: %w", e.Name(), folder, withoutPath(err))
		}
	}
	return nil
}
