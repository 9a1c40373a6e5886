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

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/choose"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// newFolder names a folder below parent by the time and the devices.
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

// stateRules is the key in a run for the rules that choose its rounds, so a resumed sweep chooses alike.
const stateRules = "rules"

// createRun makes the run file of a plan whose rounds are chosen by cfg.
func (a *app) createRun(ctx context.Context, path string, plan *sweep.Plan, cfg rules.Config) (*results.Run, error) {
	if _, err := os.Lstat(path); err == nil {
		return nil, errExists(path, "use --resume to continue it, or give another --out")
	}
	labels, err := a.labels.labels()
	if err != nil {
		return nil, err
	}
	devices, err := a.planDevices(plan)
	if err != nil {
		return nil, err
	}
	ceilings, err := a.measureCeilings(ctx, devices)
	if err != nil {
		return nil, err
	}
	encoded, err := plan.Encode()
	if err != nil {
		return nil, err
	}
	cfg.Waivers = nil // waivers must not affect the measurements
	text, err := cfg.Encode()
	if err != nil {
		return nil, err
	}
	run, err := results.Create(path, results.Meta{
		Created: a.now(), Command: a.command, Gemmaudit: buildVersion(),
		Fingerprint: fingerprintOf(devices), Labels: labels,
		Ceilings: ceilings, Plan: encoded,
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

// judgesOf returns the chooser of rounds after the screening, and the designer of inferred rows, by the rules
// stored in the run.
func judgesOf(run *results.Run, plan *sweep.Plan) (sweep.Chooser, sweep.Designer, error) {
	text, stored, err := run.State(stateRules)
	if err != nil {
		return nil, nil, err
	}
	cfg := rules.Default()
	if stored {
		if cfg, err = rules.ParseConfig(run.Path(), []byte(text)); err != nil {
			return nil, nil, err
		}
	}
	meta := run.Meta()
	clocks := func() map[string]float64 { return run.Meta().ReferenceClock }
	chooser := choose.OpenRows{Config: cfg, Ceilings: meta.Ceilings, Looks: infer.LooksAt(plan.Screening, plan.Rounds), Clocks: clocks}
	if !plan.Infers() {
		return chooser, nil, nil
	}
	chooser.Asked, chooser.Devices, chooser.Seed, chooser.Launched = results.Inferred(plan.Own()), meta.Fingerprint.Devices, plan.Seed,
		run.Cases
	if chooser.Choices, err = run.Choices(); err != nil {
		return nil, nil, err
	}
	d := designerOf(cfg, plan, meta.Ceilings, meta.Fingerprint.Devices)
	d.Clocks, d.Launched = clocks, run.Cases
	return chooser, d, nil
}

// reopen opens a run to continue its plan on matching devices.
func (a *app) reopen(path string) (*results.Run, *sweep.Plan, error) {
	a.holds.Store(true)
	run, err := results.OpenAppend(path)
	if err != nil {
		return nil, nil, err
	}
	// Samples without their case would be assigned to the next case added.
	if _, err := run.Swept(); err != nil {
		return nil, nil, errors.Join(err, run.Close())
	}
	plan, err := sweep.DecodePlan(run.Meta().Plan)
	if err != nil {
		return nil, nil, errors.Join(devicef("%s: %w", path, err), run.Close())
	}
	devices, _, err := a.presentDevices(plan.Devices())
	if err == nil {
		err = cmp.Or(sameDevices(run, devices), sameBrought(run, devices))
	}
	if err != nil {
		if closing := run.Close(); closing != nil { // keep the error's own hint otherwise
			err = errors.Join(err, closing)
		}
		return nil, nil, err
	}
	a.keep(devices...)
	run.MeasuredOn(fingerprintOf(devices))
	if changed := changedSince(run.Meta().Fingerprint, devices); len(changed) > 0 {
		a.warnf("%s continues under different conditions: %s", path, strings.Join(changed, "; "))
	}
	return run, plan, nil
}

// sameDevices rejects devices with a run's IDs but other properties: two machines' times must not be mixed.
func sameDevices(run *results.Run, devices []kernels.Device) error {
	for _, spec := range run.Meta().Fingerprint.Devices {
		for _, d := range devices {
			if here := d.Spec(); here.ID == spec.ID && here.Name != spec.Name {
				return devicef("%s was measured on %s %q, but this machine has %q; samples of two machines are not mixed",
					run.Path(), spec.ID, spec.Name, here.Name)
			}
		}
	}
	return nil
}

func fingerprintOf(devices []kernels.Device) results.Fingerprint {
	return results.ReadFingerprint(kernels.Specs(devices), buildVersion())
}

// changedSince lists the changes of a machine, its devices and its libraries since a run began.
func changedSince(then results.Fingerprint, devices []kernels.Device) []string {
	here := fingerprintOf(devices)
	mine := func(s kernels.Spec) bool {
		return slices.ContainsFunc(here.Devices, func(d kernels.Spec) bool { return d.ID == s.ID })
	}
	then.Devices = slices.DeleteFunc(slices.Clone(then.Devices), func(s kernels.Spec) bool { return !mine(s) })
	var out []string
	for _, d := range then.Diff(here) {
		out = append(out, fmt.Sprintf("%s was %s and is %s", d.Name, cmp.Or(d.A, "unknown"), cmp.Or(d.B, "unknown")))
	}
	return out
}

// planDevices returns the devices that a plan names, in order.
func (a *app) planDevices(plan *sweep.Plan) ([]kernels.Device, error) {
	return a.devicesByID(plan.Devices())
}

func (a *app) devicesByID(ids []string) ([]kernels.Device, error) {
	var out []kernels.Device
	for _, id := range ids {
		if a.registry(); a.silent != nil {
			return nil, a.silent
		}
		all := a.registry().Devices()
		i := slices.IndexFunc(all, func(d kernels.Device) bool { return d.Spec().ID == id })
		if i < 0 {
			err := devicef("device %q of the run is not on this machine", id)
			if why := a.registry().WhyNot(id); why != "" {
				err = devicef("device %q of the run can't be used here: %s", id, why)
			}
			return nil, hint(err, "`gemmaudit devices` lists the devices of this machine")
		}
		out = append(out, all[i])
	}
	return out, nil
}

// presentDevices returns a run's devices available here, and warns once about each absent one. It fails if
// all are absent.
func (a *app) presentDevices(ids []string) (devices []kernels.Device, absent []string, err error) {
	var warnings []string
	for _, id := range ids {
		found, why := a.devicesByID([]string{id})
		if why != nil {
			absent, warnings = append(absent, id), append(warnings, why.Error())
			err = cmp.Or(err, why)
			continue
		}
		devices = append(devices, found...)
	}
	if len(devices) == 0 {
		return nil, nil, err
	}
	if err := a.bring(devices); err != nil {
		return nil, nil, err
	}
	for i, id := range absent {
		if !slices.Contains(a.absent, id) {
			a.absent = append(a.absent, id)
			a.warnf("%s: its samples are kept, and none are added", warnings[i])
		}
	}
	return devices, absent, nil
}

// missing is the error of a run without the samples of absent devices; nil if all are present.
func missing(run *results.Run, sum *sweep.Summary, goOn string) error {
	if len(sum.Missing) == 0 {
		return nil
	}
	return hint(devicef("%s: %s %s missing: the rest is measured", run.Path(), strings.Join(sum.Missing, ", "), isAre(len(sum.Missing))),
		"when %s back, %s", map[bool]string{true: "it is", false: "they are"}[len(sum.Missing) == 1], goOn)
}

// measure runs a plan into a run and prints the summary on stderr. An interruption includes goOn, the command
// that continues.
func (a *app) measure(ctx context.Context, run *results.Run, plan *sweep.Plan, goOn string) (*results.Run, *sweep.Summary, error) {
	devices, _, err := a.presentDevices(plan.Devices())
	if err != nil {
		return run, nil, err
	}
	began := a.now()
	if a.goesOn != nil {
		began = a.goesOn.Began
	}
	a.began = began
	if err := a.forgetFaults(run); err != nil {
		return run, nil, err
	}
	if err := a.tellChoices(ctx, run, plan, devices); err != nil {
		if ctx.Err() != nil {
			err = hint(interruptedf("%s: no samples yet", run.Path()), "%s", goOn)
		}
		return run, nil, err
	}
	open, design, err := judgesOf(run, plan)
	if err != nil {
		return run, nil, err
	}
	first, err := firstCases(run, plan, design)
	if err != nil {
		return run, nil, err
	}
	a.warnCut(plan)
	meter := a.newMeter()
	meter.display.Start(first, plan.Screening, 0)
	runner := &sweep.Runner{Plan: plan, Devices: devices, Out: run, Observer: meter, Chooser: open, Designer: design,
		DriftTest: infer.DriftPast, Now: a.now, Began: began, CaseTimeout: a.faults.timeout}
	for _, note := range sweep.ShortNotes(plan.Notes) {
		meter.Message(note)
	}
	sum, err := runner.Run(ctx)
	meter.display.Stop()
	var interrupted *sweep.InterruptedError
	var deadline *sweep.DeadlineError
	var full *results.FullError
	switch {
	case errors.As(err, &interrupted):
		return run, sum, hint(&commandError{code: exitInterrupted, err: interrupted}, "%s", goOn)
	case errors.As(err, &deadline):
		return run, sum, deadlineError(deadline)
	case errors.Is(err, kernels.ErrDeviceLost):
		return run, sum, hint(err, "all samples are stored; %s", goOn)
	case errors.As(err, &full):
		return run, sum, hint(err, "all samples are stored; free some space, then %s", goOn)
	case err != nil:
		return run, sum, err
	}
	switch {
	case sum.Samples == 0 && sum.Status == sweep.StatusComplete:
		a.notef("%s: all samples are already measured", sum.Status)
	case sum.Status == sweep.StatusDeadline:
		a.notef("stopped by the deadline of %s after %d of %d samples, %.0f %% of the time in kernels; %s continues",
			report.Duration(plan.Deadline), sum.Done, sum.Planned, 100*sum.Efficiency, goOn)
	default:
		a.notef("%s: %d samples in %s, %.0f %% of the time in kernels", sum.Status, sum.Samples, report.Duration(sum.Wall),
			100*sum.Efficiency)
	}
	if k := sum.Known; k.Rows > 0 {
		a.notef("%s", knownText(k))
	}
	if outside := outsideKernels(sum); outside != "" {
		a.notef("not in kernels: %s", outside)
	}
	if sum.Failures > 0 {
		a.warnf("%s failed", plural(sum.Failures, "case", "cases"))
	}
	return run, sum, nil
}

// leastOutside is the share of a sweep's time above which its causes are listed.
const leastOutside = 0.005

func outsideKernels(sum *sweep.Summary) string {
	var words []string
	for _, p := range sum.Times.Largest(max(leastOutside*sum.Wall.Seconds(), 1e-3)) {
		words = append(words, p.Name+" "+report.Duration(time.Duration(p.Seconds*1e9)))
	}
	return strings.Join(words, ", ")
}

func (a *app) resumeSweep(path string) string {
	return commandLine(slices.Concat([]string{"sweep", "--resume", "--out", path}, a.faults.args(), a.brought.args()))
}
