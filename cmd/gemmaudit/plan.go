package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// planFor turns options into a plan for the selected devices, with a predictor of its time. It measures
// ceilings for that.
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
	if round := est.Plan(plan, nil, sweep.CacheSizes(devices)).First; plan.Deadline > 0 && round > plan.Deadline {
		return nil, nil, deadlineError(&sweep.DeadlineError{Deadline: plan.Deadline, Round: round})
	}
	return plan, est, nil
}

// planned makes a plan from the flags of a command; adjust may change its options.
func (a *app) planned(ctx context.Context, f *planFlags, adjust func(*sweep.Options)) (*sweep.Plan, *sweep.Predictor, error) {
	if _, err := a.labels.labels(); err != nil {
		return nil, nil, err
	}
	if err := a.shardOfJob(f); err != nil {
		return nil, nil, err
	}
	options, err := f.options()
	if err != nil {
		return nil, nil, err
	}
	adjust(&options)
	return a.planFor(ctx, options)
}

// noteTypes names the data types that nobody asked for: each takes its share of the time.
func (a *app) noteTypes(f *planFlags, plan *sweep.Plan) {
	var types []string
	for _, s := range plan.Series {
		if t := string(s.Subject.DType); !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	if len(types) > 1 && len(f.dtypes)+len(f.shapesFrom) == 0 {
		a.notef("measuring %s; --dtype %s measures one type", strings.Join(types, " and "), types[0])
	}
}

// cutBy is the subject of a warning about [sweep.Plan].Cut.
const cutBy = "deadline"

// warnCut warns despite --quiet: the sweep measures less than the command line asks for.
func (a *app) warnCut(plan *sweep.Plan) {
	if plan.Cut != nil {
		a.warnf("%s: %v", cutBy, plan.Cut)
	}
}

func checkThreads(devices []kernels.Device, threads int) error {
	for _, d := range devices {
		if t, ok := d.(kernels.Threaded); ok && threads > t.Threads() {
			return usagef("--threads: %d, expected at most the %d of %s, or 0 for all", threads, t.Threads(), d.Spec().ID)
		}
	}
	return nil
}

// deadlineError is the error for a deadline shorter than one round.
func deadlineError(err *sweep.DeadlineError) error {
	return hint(usagef("--deadline: %w", err), "use a longer --deadline, fewer values of --batch, or a smaller --preset")
}

// planError sorts a plan's errors: a missing kernel is the machine's error, and all others except
// interruptions are the command line's.
func planError(err error) error {
	if errors.Is(err, context.Canceled) {
		return interruptedf("interrupted while planning")
	}
	var unavailable *kernels.UnavailableError
	if errors.As(err, &unavailable) {
		return hint(devicef("%w", err), "`gemmaudit devices` lists the kernels of this machine, and why others are missing")
	}
	return hint(usage(err), "`gemmaudit devices` lists kernels and data types, `gemmaudit sweep --help` other values")
}

// measureCeilings returns the peaks and bandwidths of devices by ID. It measures devices in parallel, as in
// the sweep; a host may have sixteen.
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

// describePlan describes a plan for a dry run. If the plan infers rows, it queries the launches.
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
		if seeds, err = plan.Seeds(designerOf(rules.Default(), plan, nil, kernels.Specs(devices)), told.Choices); err != nil {
			return nil, err
		}
	}
	total := est.Plan(plan, seeds, sweep.CacheSizes(a.registry().Devices()))
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
	if plan.Cut != nil {
		p.Skipped = append(p.Skipped, report.PlanSkip{What: cutBy, Reason: plan.Cut.String()})
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
		p.Settings = append(p.Settings,
			report.PlanSetting{Name: "traffic", Value: fmt.Sprintf("%s from %d to %d", plural(len(t), "M", "Ms"), t[0].M, t[len(t)-1].M)})
	}
	if r := plan.Recorded; len(r) > 0 {
		calls := 0.0
		for _, product := range r {
			calls += product.Calls
		}
		p.Settings = append(p.Settings,
			report.PlanSetting{Name: "recorded", Value: fmt.Sprintf("%s with %.0f calls", plural(len(r), "product", "products"), calls)})
	}
	return p, nil
}

func roundsText(plan *sweep.Plan) string {
	if plan.Screening == plan.Rounds {
		return fmt.Sprintf("%d for every case", plan.Rounds)
	}
	return fmt.Sprintf("%d for every case, up to %d where a verdict is open", plan.Screening, plan.Rounds)
}

// shardNone is the value of --shard that measures the whole plan despite a job's variables.
const shardNone = "none"

// shardOfJob sets the shard from a job's variables, unless the command line sets one. It reports this even
// with --quiet: an unexpected shard would miss most of the plan.
func (a *app) shardOfJob(f *planFlags) error {
	if f.shard != "" {
		return nil
	}
	of, from, err := sweep.ShardOfJob(a.env)
	if err != nil {
		return hint(usage(err), "set the part with --shard 3/8, or measure all with --shard none")
	}
	if from != "" {
		f.shard = of.String()
		fmt.Fprintf(a.stderr, "measuring shard %v of the plan, from %s; --shard none measures all\n", of, from)
	}
	return nil
}

// workload adds the products of recorded workloads to the plan, and notes the lines that it skips.
func (f *planFlags) workload(o *sweep.Options) error {
	name := "--shapes-from"
	if !f.changed("shapes-from") {
		name = strings.Join(f.shapesFrom, ", ") // which are arguments
	}
	library, left, err := o.AddWorkload(f.shapesFrom, f.changed("layout"))
	if err != nil && !errors.Is(err, sweep.ErrNoProduct) {
		return err
	}
	f.library = library
	for _, why := range slices.Sorted(maps.Keys(left)) {
		f.note("%s: %s skipped: %s", name, plural(left[why], "line", "lines"), why)
	}
	if err != nil {
		return usagef("%s: %w", name, err)
	}
	return nil
}
