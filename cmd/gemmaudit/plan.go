package main

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// planFor turns options into a plan for the selected devices, and returns what
// estimates its time. Ceilings are measured for that.
func (a *app) planFor(ctx context.Context, o sweep.Options) (*sweep.Plan, *sweep.Predictor, error) {
	devices, err := a.devices()
	if err != nil {
		return nil, nil, err
	}
	if err := checkThreads(devices, o.Threads); err != nil {
		return nil, nil, err
	}
	if o.Kernels, err = a.kernelsNamed(devices, o.Kernels); err != nil {
		return nil, nil, err
	}
	ceilings, err := a.measureCeilings(ctx, devices)
	if err != nil {
		return nil, nil, err
	}
	est := sweep.NewPredictor(ceilings)
	var plan *sweep.Plan
	if silent := a.answered("plan", func() { plan, err = sweep.NewPlan(ctx, devices, o, est) }); silent != nil {
		return nil, nil, silent
	}
	if err != nil {
		return nil, nil, planError(err)
	}
	if round := est.Plan(plan, nil, cacheSizes(devices)).First; plan.Deadline > 0 && round > plan.Deadline {
		return nil, nil, deadlineError(&sweep.DeadlineError{Deadline: plan.Deadline, Round: round})
	}
	return plan, est, nil
}

// checkThreads refuses more threads than a device has.
func checkThreads(devices []kernels.Device, threads int) error {
	for _, d := range devices {
		if t, ok := d.(kernels.Threaded); ok && threads > t.Threads() {
			return usagef("--threads: %d, expected at most %d, which is what %s has, or 0 for all", threads, t.Threads(), d.Spec().ID)
		}
	}
	return nil
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
// machine's, everything else but an interruption the command line's.
func planError(err error) error {
	if errors.Is(err, context.Canceled) {
		return interruptedf("stopped while it was planned what to measure")
	}
	var unavailable *kernels.UnavailableError
	if errors.As(err, &unavailable) {
		return hint(devicef("%w", err), "`gemmaudit devices` lists what runs here and why the rest does not")
	}
	return hint(usage(err), "`gemmaudit devices` lists kernels and data types, `gemmaudit sweep --help` the rest")
}

// measureCeilings returns the peaks and bandwidths of devices by id. Devices are
// measured side by side, as they will be swept: a host may have sixteen.
func (a *app) measureCeilings(ctx context.Context, devices []kernels.Device) (map[string]kernels.Ceilings, error) {
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
	var err error
	if silent := a.answered("measure ceilings", func() { err = group.Wait() }); silent != nil {
		return nil, silent
	}
	if err != nil {
		return nil, err
	}
	out := map[string]kernels.Ceilings{}
	for i, d := range devices {
		out[d.Spec().ID] = ceilings[i]
	}
	return out, nil
}

// describePlan words a plan for a dry run. For a plan that infers rows it asks what would run.
func (a *app) describePlan(ctx context.Context, plan *sweep.Plan, est *sweep.Predictor) (*report.Plan, error) {
	var seeds sweep.Seeds
	if plan.Infers() {
		devices, err := a.planDevices(plan)
		if err != nil {
			return nil, err
		}
		told, err := a.askChoices(ctx, plan, devices)
		if err != nil {
			return nil, err
		}
		specs := make([]kernels.Spec, len(devices))
		for i, d := range devices {
			specs[i] = d.Spec()
		}
		if seeds, err = plan.Seeds(designerOf(rules.Default(), plan, nil, specs), told.Choices); err != nil {
			return nil, err
		}
	}
	total := est.Plan(plan, seeds, cacheSizes(a.registry().Devices()))
	p := &report.Plan{
		Cases: total.Cases, Rounds: plan.Rounds, Samples: total.Samples, Regime: plan.Regime, Seed: plan.Seed,
		Open: plan.Screening < plan.Rounds, Deadline: report.Seconds(plan.Deadline), Estimate: report.Seconds(total.Expected),
	}
	if plan.Infers() {
		p.Inference = &report.PlanInference{Rows: total.Rows, Measured: total.Cases, Inferred: total.Rows - total.Cases,
			Screening: report.Seconds(total.Screening), EveryRow: report.Seconds(est.EveryRow(plan))}
	}
	if plan.Shard.Count > 1 {
		p.Shard = plan.Shard.String()
	}
	for _, s := range plan.Own() {
		ms := s.Ms
		if s.Infer {
			ms = seeds[s.SeriesKey]
		}
		row := report.PlanSeries{Series: s.SeriesKey, From: s.Name, Cases: len(ms), FromM: ms[0], ToM: ms[len(ms)-1]}
		if p.Inference != nil {
			row.Rows, row.FromM, row.ToM = len(s.Ms), s.Ms[0], s.Ms[len(s.Ms)-1]
		}
		for _, m := range ms {
			row.Estimate += report.Seconds(est.Case(plan, s.Case(m)))
		}
		p.Series = append(p.Series, row)
	}
	for _, note := range plan.Notes {
		skip := report.PlanSkip{What: note.What, Reason: note.Why}
		if note.Part != (sweep.ModelPart{}) {
			skip.Part = note.Part
		}
		p.Skipped = append(p.Skipped, skip)
	}
	p.Settings = []report.PlanSetting{
		{Name: "preset", Value: plan.Preset},
		{Name: "distribution", Value: string(plan.Distribution)},
		{Name: "block", Value: report.Duration(plan.BlockTarget)},
		{Name: "rounds", Value: roundsText(plan)},
		{Name: "set-up", Value: report.Duration(total.SetUp)},
		{Name: "one round", Value: report.Duration(total.Round)},
	}
	if t := plan.Traffic; len(t) > 0 {
		p.Settings = append(p.Settings, report.PlanSetting{Name: "traffic", Value: fmt.Sprintf("%s from %d to %d", plural(len(t), "M", "Ms"), t[0].M, t[len(t)-1].M)})
	}
	return p, nil
}

// roundsText says which rounds measure what.
func roundsText(plan *sweep.Plan) string {
	if plan.Screening == plan.Rounds {
		return fmt.Sprintf("%d for every case", plan.Rounds)
	}
	return fmt.Sprintf("%d for every case, up to %d where a verdict is open", plan.Screening, plan.Rounds)
}
