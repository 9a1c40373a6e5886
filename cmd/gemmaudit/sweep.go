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
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/sweep"
)

type sweepOptions struct {
	app    *app
	plan   planFlags
	out    string
	resume bool
	dryRun bool
	output report.Format
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
			"gemmaudit sweep --kernel cublaslt --algos 4 --out run.db       # the library's next choices too",
			"gemmaudit sweep --resume --out night.db                       # go on after Ctrl-C or the deadline",
			"gemmaudit sweep --preset standard --shard 3/8 --out 3.db      # a part, to be merged",
		),
		Long: `Every case is a product m n k of one data type on one kernel. A sample is a block of
launches that fills a few milliseconds; each round takes one sample of every case, in a new
random order; sentinel cases recur, and their drift is watched. Weights rotate past the
last-level cache, so that they come from memory as in an inference engine (--regime).

After the screening rounds over all cases, time goes where a verdict is open: to cases
that the rules can neither flag nor clear, or whose loss is known too loosely, to what
they are held against, and to a few control cases that tell a slow round from slow
cases. --rounds-for all measures every case in every round.

Samples are stored one by one: an interrupt or a lost machine costs the block in progress,
and --resume goes on. Resuming takes the plan from the run file.

Libraries that tell which other algorithms they would choose are asked for --algos of them;
each is measured like a kernel of its own, and tells the audit whether the first choice was
the best. Devices without such a library say so.

What the flags leave open is the preset's choice.` + exitHelp(
			"0    measured; also when a deadline ended it with at least one round",
			"2    the plan can't be: unknown shape, M below 1, a deadline shorter than one round",
			"3    a device, the disk or the run file failed; or cases did, and all others are measured",
			"4    measured, but the sentinels drifted too far for the run to be judged",
			"130  interrupted; --resume goes on"),
		RunE: func(cmd *cobra.Command, _ []string) error { return opts.run(cmd) },
	}
	opts.plan.register(a, cmd, "standard")
	flags := cmd.Flags()
	flags.StringVar(&opts.out, "out", "", "run file to write (default out/TIME-DEVICE/run.db)")
	flags.BoolVar(&opts.resume, "resume", false, "go on with the run in --out")
	flags.BoolVar(&opts.dryRun, "dry-run", false, "print the plan with a time estimate and measure nothing")
	timingsFlag(cmd, &opts.output)
	complete(cmd, "out", filesWith("db"))
	return cmd
}

func (o *sweepOptions) run(cmd *cobra.Command) error {
	ctx, a := cmd.Context(), o.app
	if o.resume {
		if o.out == "" {
			return usagef("--resume: --out is missing: expected the run file to go on with")
		}
		if o.dryRun {
			return usagef("--resume can't be combined with --dry-run")
		}
		if err := o.plan.refuseWithResume(resumeSweep(o.out)); err != nil {
			return err
		}
		run, plan, err := a.reopen(o.out)
		if err != nil {
			return err
		}
		defer run.Close()
		plan.Deadline = o.plan.deadline
		return o.finish(a.measure(ctx, run, plan, resumeSweep(o.out)))
	}
	options, err := o.plan.options()
	if err != nil {
		return err
	}
	plan, est, err := a.planFor(ctx, options)
	if err != nil {
		return err
	}
	if o.dryRun {
		return a.wrapPrint(report.WritePlan(a.stream(a.stdout), o.output, a.describePlan(plan, est)))
	}
	out := o.out
	if out == "" {
		folder := a.newFolder("out", plan.Devices())
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return devicef("create folder %q: %w", folder, withoutPath(err))
		}
		out = filepath.Join(folder, "run.db")
	}
	run, sum, err := a.sweepInto(ctx, out, plan, rules.Default(), resumeSweep(out))
	if run != nil {
		defer run.Close()
	}
	return o.finish(run, sum, err)
}

// sweepInto creates the run file of a plan and measures the plan into it; cfg says
// whose verdict is open, goOn is the command that goes on after an interruption. A
// plan of which nothing can be measured leaves no file.
func (a *app) sweepInto(ctx context.Context, path string, plan *sweep.Plan, cfg rules.Config, goOn string) (*results.Run, *sweep.Summary, error) {
	run, err := a.createRun(ctx, path, plan, cfg)
	if err != nil {
		return nil, nil, err
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
	if err := a.wrapPrint(report.WriteOverview(a.stream(a.stdout), o.output, run.Meta(), series)); err != nil {
		return err
	}
	a.notef("run file: %s", run.Path())
	if why, all := allFailed(series); all {
		return devicef("%s: no case could be measured: %s", run.Path(), why)
	}
	if err := someFailed(run, series); err != nil {
		return err
	}
	if sum.Invalid != "" {
		return inconclusivef("%s: %s", run.Path(), sum.Invalid)
	}
	return nil
}

// someFailed is the error of a run in which cases failed: it has a hole, however
// good the rest of it is. It names the first reason, of those that have no sample
// before those that have too few.
func someFailed(run *results.Run, series []results.Series) error {
	failures, err := run.Failures()
	if err != nil {
		return err
	}
	reasons := map[int64]string{}
	for _, f := range failures {
		if f.Phase == results.PhaseSweep && reasons[f.CaseID] == "" {
			reasons[f.CaseID] = f.Reason
		}
	}
	cases := 0
	var none, some []string
	for _, s := range series {
		for _, r := range s.Rows {
			cases++
			reason := reasons[r.Case.ID]
			switch {
			case reason == "":
			case len(r.Samples) == 0:
				none = append(none, reasonOf(r.Case, reason))
			default:
				some = append(some, reasonOf(r.Case, reason))
			}
		}
	}
	switch {
	case len(none) > 0:
		return hint(devicef("%s: %d of %s failed and %s not judged: %s", run.Path(), len(none), plural(cases, "case", "cases"), isAre(len(none)), none[0]),
			"%s has the reason of each", commandLine([]string{"report", run.Path(), "-o", "csv"}))
	case len(some) > 0:
		return devicef("%s: %d of %s failed after some rounds and %s judged by those: %s",
			run.Path(), len(some), plural(cases, "case", "cases"), isAre(len(some)), some[0])
	}
	return nil
}

// reasonOf is why a case failed, with its name ahead.
func reasonOf(c results.Case, reason string) string {
	name := c.String() + ": "
	return name + strings.TrimPrefix(reason, name)
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

// planFor turns options into a plan for the selected devices, and returns what
// estimates its time. Ceilings are measured for that.
func (a *app) planFor(ctx context.Context, o sweep.Options) (*sweep.Plan, *sweep.Estimator, error) {
	devices, err := a.devices()
	if err != nil {
		return nil, nil, err
	}
	ceilings, err := measureCeilings(ctx, devices)
	if err != nil {
		return nil, nil, err
	}
	est := sweep.NewEstimator(ceilings)
	plan, err := sweep.NewPlan(devices, o, est)
	if err != nil {
		return nil, nil, planError(err)
	}
	if round := est.Plan(plan, cacheSizes(devices)).Round; plan.Deadline > 0 && round > plan.Deadline {
		return nil, nil, deadlineError(&sweep.DeadlineError{Deadline: plan.Deadline, Round: round})
	}
	return plan, est, nil
}

// cacheSizes are the last-level caches of devices by id, in bytes.
func cacheSizes(devices []kernels.Device) map[string]int64 {
	out := map[string]int64{}
	for _, d := range devices {
		out[d.Spec().ID] = d.Spec().LastLevelCacheBytes
	}
	return out
}

// deadlineError is the refusal of a deadline that not even one round fits.
func deadlineError(err *sweep.DeadlineError) error {
	return hint(usagef("--deadline: %w", err), "a longer --deadline, fewer values of --batch, or a smaller --preset")
}

// planError sorts a plan's errors: a kernel that this machine lacks is the
// machine's, everything else the command line's.
func planError(err error) error {
	if strings.Contains(err.Error(), "is not available on") {
		return hint(devicef("%w", err), "`gemmaudit devices` lists what runs here and why the rest does not")
	}
	return hint(usage(err), "`gemmaudit devices` lists kernels and data types, `gemmaudit sweep --help` the rest")
}

// measureCeilings returns the peaks and bandwidths of devices by id. Devices are
// measured side by side, as they will be swept: a host may have sixteen.
func measureCeilings(ctx context.Context, devices []kernels.Device) (map[string]kernels.Ceilings, error) {
	ceilings := make([]kernels.Ceilings, len(devices))
	group, ctx := errgroup.WithContext(ctx)
	for i, d := range devices {
		group.Go(func() (err error) {
			if ceilings[i], err = d.Ceilings(ctx); err != nil {
				return fmt.Errorf("measure the ceilings of %s: %w", d.Spec().ID, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	out := map[string]kernels.Ceilings{}
	for i, d := range devices {
		out[d.Spec().ID] = ceilings[i]
	}
	return out, nil
}

// describePlan words a plan for a dry run.
func (a *app) describePlan(plan *sweep.Plan, est *sweep.Estimator) *report.Plan {
	total := est.Plan(plan, cacheSizes(a.registry().Devices()))
	p := &report.Plan{
		Cases: total.Cases, Rounds: plan.Rounds, Samples: total.Samples, Regime: plan.Regime, Seed: plan.Seed,
		Open: plan.Screening < plan.Rounds, Deadline: report.Seconds(plan.Deadline), Estimate: report.Seconds(total.All),
	}
	if plan.Shard.Count > 1 {
		p.Shard = plan.Shard.String()
	}
	cases := map[results.SeriesKey][]results.Case{}
	for _, c := range plan.Cases() {
		cases[c.SeriesKey] = append(cases[c.SeriesKey], c)
	}
	for _, s := range plan.Series {
		mine := cases[s.SeriesKey]
		if len(mine) == 0 {
			continue
		}
		row := report.PlanSeries{Series: s.SeriesKey, From: s.Name, Cases: len(mine), FromM: mine[0].M, ToM: mine[len(mine)-1].M}
		for _, c := range mine {
			row.Estimate += report.Seconds(est.Block(plan, c) * time.Duration(plan.Rounds))
		}
		p.Series = append(p.Series, row)
	}
	for _, note := range plan.Notes {
		what, reason, found := strings.Cut(note, ": ")
		if !found {
			what, reason = "plan", note
		}
		p.Skipped = append(p.Skipped, report.PlanSkip{What: strings.TrimSuffix(what, " is left out"), Reason: reason})
	}
	p.Settings = []report.PlanSetting{
		{Name: "preset", Value: plan.Preset},
		{Name: "distribution", Value: string(plan.Distribution)},
		{Name: "block", Value: plan.BlockTarget.String()},
		{Name: "rounds", Value: roundsText(plan)},
		{Name: "set-up", Value: total.SetUp.Round(time.Millisecond).String()},
		{Name: "one round", Value: total.Round.Round(time.Millisecond).String()},
	}
	return p
}

// roundsText says which rounds measure what.
func roundsText(plan *sweep.Plan) string {
	if plan.Screening == plan.Rounds {
		return fmt.Sprintf("%d for every case", plan.Rounds)
	}
	return fmt.Sprintf("%d for every case, up to %d where a verdict is open", plan.Screening, plan.Rounds)
}

// newFolder is a folder below parent that is named after the time and the
// devices.
func (a *app) newFolder(parent string, devices []string) string {
	names := fileSafe(strings.Join(devices, "-"))
	base := filepath.Join(parent, a.now().Format("20060102-150405")+"-"+names)
	folder := base
	for n := 2; ; n++ {
		if _, err := os.Lstat(folder); err != nil {
			return folder
		}
		folder = fmt.Sprintf("%s-%d", base, n)
	}
}

// stateRules is the key under which a run keeps the rules by which its rounds were
// chosen, so that a resumed sweep chooses alike.
const stateRules = "rules"

// createRun makes the run file of a plan whose rounds are chosen by cfg.
func (a *app) createRun(ctx context.Context, path string, plan *sweep.Plan, cfg rules.Config) (*results.Run, error) {
	if _, err := os.Lstat(path); err == nil {
		return nil, hint(devicef("%q exists and is not overwritten", path), "--resume goes on with it, or give another --out")
	}
	devices, err := a.planDevices(plan)
	if err != nil {
		return nil, err
	}
	ceilings, err := measureCeilings(ctx, devices)
	if err != nil {
		return nil, err
	}
	encoded, err := plan.Encode()
	if err != nil {
		return nil, err
	}
	specs := make([]kernels.Spec, len(devices))
	for i, d := range devices {
		specs[i] = d.Spec()
	}
	cfg.Waivers = nil // they excuse a row and make it no clearer
	text, err := cfg.Encode()
	if err != nil {
		return nil, err
	}
	run, err := results.Create(path, results.Meta{
		Created: a.now(), Command: a.command, Gemmaudit: buildVersion(),
		Fingerprint: results.ReadFingerprint(specs, buildVersion()),
		Ceilings:    ceilings, Plan: encoded,
		Regime: plan.Regime, Distribution: plan.Distribution, Seed: plan.Seed,
	})
	if err != nil {
		return nil, err
	}
	if err := run.SetState(stateRules, string(text)); err != nil {
		return nil, errors.Join(err, run.Close())
	}
	return run, nil
}

// chooser returns what decides on the rounds after screening, as it was when the
// run was created.
func chooser(run *results.Run) (sweep.Chooser, error) {
	text, stored, err := run.State(stateRules)
	if err != nil {
		return nil, err
	}
	cfg := rules.Default()
	if stored {
		if cfg, err = rules.ParseConfig(run.Path(), []byte(text)); err != nil {
			return nil, err
		}
	}
	return rules.OpenRows{Config: cfg, Ceilings: run.Meta().Ceilings}, nil
}

// reopen opens a run to go on with its plan, on devices like those that it began on.
func (a *app) reopen(path string) (*results.Run, *sweep.Plan, error) {
	run, err := results.OpenAppend(path)
	if err != nil {
		return nil, nil, err
	}
	plan, err := sweep.DecodePlan(run.Meta().Plan)
	if err != nil {
		return nil, nil, errors.Join(devicef("%s: %w", path, err), run.Close())
	}
	devices, err := a.planDevices(plan)
	if err == nil {
		err = sameDevices(run, devices)
	}
	if err != nil {
		return nil, nil, errors.Join(err, run.Close())
	}
	a.keep(devices...)
	if changed := changedSince(run.Meta().Fingerprint, devices); len(changed) > 0 {
		a.warnf("%s goes on under other conditions than it began: %s", path, strings.Join(changed, "; "))
	}
	return run, plan, nil
}

// sameDevices refuses devices that have the ids of a run's and are others: figures of
// two machines are no curve.
func sameDevices(run *results.Run, devices []kernels.Device) error {
	for _, spec := range run.Meta().Fingerprint.Devices {
		for _, d := range devices {
			if here := d.Spec(); here.ID == spec.ID && here.Name != spec.Name {
				return devicef("%s was measured on %s %q, this machine has %q: figures of two machines are not mixed",
					run.Path(), spec.ID, spec.Name, here.Name)
			}
		}
	}
	return nil
}

// changedSince words what has changed about a machine, its devices and its libraries
// since a run was begun on it.
func changedSince(then results.Fingerprint, devices []kernels.Device) []string {
	specs := make([]kernels.Spec, len(devices))
	for i, d := range devices {
		specs[i] = d.Spec()
	}
	mine := func(s kernels.Spec) bool {
		return slices.ContainsFunc(specs, func(here kernels.Spec) bool { return here.ID == s.ID })
	}
	then.Devices = slices.DeleteFunc(slices.Clone(then.Devices), func(s kernels.Spec) bool { return !mine(s) })
	var out []string
	for _, d := range then.Diff(results.ReadFingerprint(specs, buildVersion())) {
		out = append(out, fmt.Sprintf("%s was %s and is %s", d.Name, cmp.Or(d.A, "unknown"), cmp.Or(d.B, "unknown")))
	}
	return out
}

// planDevices returns the devices that a plan names, in its order.
func (a *app) planDevices(plan *sweep.Plan) ([]kernels.Device, error) {
	return a.devicesByID(plan.Devices())
}

// devicesByID returns devices of this machine by their ids.
func (a *app) devicesByID(ids []string) ([]kernels.Device, error) {
	var out []kernels.Device
	for _, id := range ids {
		all := a.registry().Devices()
		i := slices.IndexFunc(all, func(d kernels.Device) bool { return d.Spec().ID == id })
		if i < 0 {
			err := devicef("device %q, on which the run was measured, is not on this machine", id)
			if why := a.registry().WhyNot(id); why != "" {
				err = devicef("device %q, on which the run was measured, can't be used here: %s", id, why)
			}
			return nil, hint(err, "`gemmaudit devices` lists what this machine has")
		}
		out = append(out, all[i])
	}
	return out, nil
}

// measure runs a plan into a run. The summary is printed on stderr; an
// interruption comes with goOn, the command that goes on.
func (a *app) measure(ctx context.Context, run *results.Run, plan *sweep.Plan, goOn string) (*results.Run, *sweep.Summary, error) {
	devices, err := a.planDevices(plan)
	if err != nil {
		return run, nil, err
	}
	open, err := chooser(run)
	if err != nil {
		return run, nil, err
	}
	meter := a.newMeter()
	meter.display.Start(len(plan.Cases()), plan.Screening, 0)
	runner := &sweep.Runner{Plan: plan, Devices: devices, Out: run, Observer: meter, Chooser: open, Now: a.now}
	for _, note := range plan.Notes {
		meter.Message(note)
	}
	sum, err := runner.Run(ctx)
	meter.display.Stop()
	var interrupted *sweep.InterruptedError
	var deadline *sweep.DeadlineError
	switch {
	case errors.As(err, &interrupted):
		return run, sum, hint(&commandError{code: exitInterrupted, err: interrupted}, "%s", goOn)
	case errors.As(err, &deadline):
		return run, sum, deadlineError(deadline)
	case errors.Is(err, kernels.ErrDeviceLost):
		return run, sum, hint(err, "what was measured is stored; %s", goOn)
	case err != nil:
		return run, sum, err
	}
	a.notef("%s: %d samples in %v, %.0f %% of the time inside kernels", sum.Status, sum.Samples, sum.Wall.Round(100*time.Millisecond), 100*sum.Efficiency)
	if sum.Failures > 0 {
		a.warnf("%s failed", plural(sum.Failures, "case", "cases"))
	}
	return run, sum, nil
}

// resumeSweep is the command that goes on with a sweep.
func resumeSweep(path string) string {
	return commandLine([]string{"sweep", "--resume", "--out", path})
}
