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

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/report/metrics"
	"github.com/gemmaudit/gemmaudit/results"
	runs "github.com/gemmaudit/gemmaudit/results/fleet"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/fleet"
	"github.com/gemmaudit/gemmaudit/rules/fleet/nodecheck"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/outcome"
	"github.com/gemmaudit/gemmaudit/rules/verdict"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// checkBudget is the default time of a check, leastBudget the minimum useful time. A job prolog waits for the
// check.
const checkBudget, leastBudget = 20 * time.Second, 2 * time.Second

type checkOptions struct {
	app      *app
	baseline string
	budget   time.Duration
	out      string
	reason   bool
	accept   outcome.Accept
	output   report.Format

	held outcome.Held // measured part of the check's plan
}

func newCheckCommand(a *app) *cobra.Command {
	opts := &checkOptions{app: a}
	cmd := &cobra.Command{
		Use:  "check --baseline FLEET.json",
		RunE: func(cmd *cobra.Command, _ []string) error { return opts.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	addFlag(cmd, &opts.baseline, "baseline", "", "the file from fleet --write-baseline (required)", filesWith("json"))
	addFlag(cmd, &opts.budget, "budget", checkBudget, "time limit of the check", fixed("20s", "60s"))
	addFlag(cmd, &opts.out, "out", "", "keep the measurements in this run file (default: none)", filesWith("db"))
	broughtFlags(a, cmd)
	flags.BoolVar(&opts.reason, "reason", false, "print only the reason, in one line")
	acceptFlags(cmd, &opts.accept)
	a.labels.register(cmd)
	a.textfile.register(cmd)
	outputFlag(cmd, &opts.output)
	return cmd
}

func (o *checkOptions) run(ctx context.Context) error {
	began := o.app.now()
	if o.baseline == "" {
		return hint(usagef("--baseline is missing: expected a file from `gemmaudit fleet --write-baseline`"),
			"`gemmaudit fleet RUNS --write-baseline fleet.json` writes it")
	}
	if o.budget < leastBudget {
		return badFlag("budget", fmt.Errorf("%v, expected at least %v", o.budget, leastBudget))
	}
	if _, err := o.app.labels.labels(); err != nil {
		return err
	}
	if o.out != "" {
		if _, err := os.Lstat(o.out); err == nil {
			return errExists(o.out, "give another --out")
		}
	}
	o.app.faults.timeout = o.budget // detects hanging devices within the budget
	check, err := o.check(ctx, began)
	if err == nil {
		err = o.app.conclude(check.Evidence(o.held, o.accept))
	}
	if o.reason {
		reason := ""
		if check != nil {
			reason = check.Reason
		}
		if err != nil {
			reason = oneLine(err.Error())
		}
		fmt.Fprintln(o.app.stdout, oneLine(reason))
		return err
	}
	if check == nil {
		return err
	}
	return cmp.Or(o.app.wrapPrint(report.WriteNodeCheck(o.app.stream(o.app.stdout), o.output, check)), err)
}

// check measures and judges. With an error it returns the results so far.
func (o *checkOptions) check(ctx context.Context, began time.Time) (_ *report.NodeCheck, err error) {
	a := o.app
	baseline, err := readFleetBaseline(o.baseline)
	if err != nil {
		return nil, err
	}
	devices, err := o.devices()
	if err != nil {
		return nil, err
	}
	labels, err := a.labels.labels()
	if err != nil {
		return nil, err
	}
	a.textfile.machine(kernels.Specs(devices), labels)
	path := o.out
	if path == "" {
		folder, err := os.MkdirTemp("", "gemmaudit-check-")
		if err != nil {
			return nil, hint(devicef("create a folder for the measurements in TMPDIR: %w", err), "give a file with --out")
		}
		defer os.RemoveAll(folder)
		path = filepath.Join(folder, "check.db")
	}
	here := fingerprintOf(devices)
	offer := nodecheck.Choose(baseline, here, devices)
	checks := offer.Unjudged
	if len(offer.Cases) > 0 {
		ceilings, err := a.measureCeilings(ctx, devices)
		if err != nil {
			return nil, err
		}
		plan, alone, err := offer.Plan(sweep.NewPredictor(ceilings), sweep.CacheSizes(devices), o.budget, o.budget-a.now().Sub(began))
		if err != nil {
			return nil, err
		}
		found, invalid, err := o.measure(ctx, path, plan, alone, baseline, began)
		if err != nil {
			return nil, err
		}
		if invalid != "" {
			return nil, hint(inconclusivef("%s", invalid), verdict.UnsteadyHint)
		}
		checks = append(checks, found...)
	}
	slices.SortStableFunc(checks, func(x, y fleet.Check) int { return strings.Compare(x.Device, y.Device) })
	c := &report.NodeCheck{Schema: report.NodeCheckSchema, Baseline: filepath.Base(o.baseline),
		Host: here.Hostname, Labels: labels,
		Fit: true, Devices: checks, Seconds: a.now().Sub(began).Seconds(), Warnings: offer.Warnings}
	c.Conclude()
	a.textfile.checks(checks)
	return c, nil
}

func (o *checkOptions) devices() ([]kernels.Device, error) {
	a := o.app
	if a.device == "auto" {
		for _, d := range a.registry().Devices() {
			if s := d.Spec(); s.Kind.Facts().Card {
				a.device = string(s.Kind) + ":all"
				break
			}
		}
	}
	return a.devices()
}

// measure runs a plan into a new run file and judges it; invalid is the reason for no verdict.
func (o *checkOptions) measure(ctx context.Context, path string, plan *sweep.Plan, alone []results.Case, b *fleet.Baseline,
	began time.Time) (_ []fleet.Check, invalid string, failed error) {
	a := o.app
	run, err := a.createRun(ctx, path, plan, rules.Default())
	if err != nil {
		return nil, "", err
	}
	a.textfile.run(run)
	defer closeRun(run, &failed)
	devices, err := a.planDevices(plan)
	if err != nil {
		return nil, "", err
	}
	meter := a.newMeter()
	meter.display.Start(plan.Rows(), plan.Rounds, 0)
	runner := &sweep.Runner{Plan: plan, Devices: devices, Out: run, Observer: meter, DriftTest: infer.DriftPast, Now: a.now, Began: began,
		CaseTimeout: a.faults.timeout}
	sum, err := runner.Run(ctx)
	meter.display.Stop()
	switch err := checkFailure(ctx, err, o.budget); {
	case err != nil:
		return nil, "", err
	case len(sum.Missing) > 0:
		return nil, "", devicef("%s %s missing", strings.Join(sum.Missing, ", "), isAre(len(sum.Missing)))
	case sum.Invalid != "":
		return nil, sum.Invalid, nil
	}
	series, err := run.Series()
	if err != nil {
		return nil, "", err
	}
	if err := everyDevice(series, plan, o.budget); err != nil {
		return nil, "", err
	}
	if o.held, err = held(run); err != nil {
		return nil, "", err
	}
	o.held.Name = cmp.Or(o.out, "the check")
	if left := o.budget - a.now().Sub(began); len(alone) > 0 && left >= sweep.SustainTime {
		if _, err := a.runAlone(ctx, run, alone, left); err != nil || ctx.Err() != nil {
			return nil, "", checkFailure(ctx, cmp.Or(err, ctx.Err()), o.budget)
		}
	}
	if err := run.Close(); err != nil {
		return nil, "", err
	}
	var checks []fleet.Check
	err = runs.Read(path, func(r runs.Run) error {
		checks = append(checks, b.Judge(r, fleet.Default())...)
		return nil
	})
	return checks, "", err
}

// checkFailure is the error of a check whose measuring ended with err. A check does not continue in a new
// process after a device fault: the fault is the result.
func checkFailure(ctx context.Context, err error, budget time.Duration) error {
	var fault *sweep.FaultError
	var interrupted *sweep.InterruptedError
	var deadline *sweep.DeadlineError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &fault):
		// Omit the case: a fault during setup has no case.
		return &commandError{code: exitDevice,
			err: &sweep.FaultError{Device: fault.Device, Hung: fault.Hung, Samples: fault.Samples, Err: errors.New(fault.Error())}}
	case errors.As(err, &interrupted) || ctx.Err() != nil:
		return interruptedf("stopped before the check finished")
	case errors.As(err, &deadline):
		return hint(inconclusivef("%v is too short for one round of the check: it takes about %v", budget,
			deadline.Round.Round(time.Millisecond)), "use a longer --budget")
	}
	return err
}

func everyDevice(series []results.Series, plan *sweep.Plan, budget time.Duration) error {
	measured := map[string]bool{}
	for _, s := range series {
		for _, r := range s.Rows {
			if len(r.Samples) > 0 {
				measured[s.Key.Device] = true
			}
		}
	}
	for _, id := range plan.Devices() {
		if !measured[id] {
			mine := slices.DeleteFunc(slices.Clone(series), func(s results.Series) bool { return s.Key.Device != id })
			if why, all := allFailed(mine); all {
				return devicef("%s: no case could be measured: %s", id, why)
			}
			return hint(inconclusivef("%s: no case was measured within the budget of %v", id, budget), "use a longer --budget")
		}
	}
	return nil
}

func (f *textfile) checks(checks []fleet.Check) {
	f.told.Checks = map[string]metrics.Check{}
	for _, c := range checks {
		f.told.Checks[c.Device] = metrics.Check{Verdict: c.Verdict, Cases: c.Cases, Common: c.Common, Sustained: c.Sustained}
	}
}
