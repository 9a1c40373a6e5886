package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/choose"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/sweep"
)

func designerOf(cfg rules.Config, plan *sweep.Plan, ceilings map[string]kernels.Ceilings, devices []kernels.Spec) choose.Designer {
	return choose.Designer{Config: cfg, Ceilings: ceilings, Devices: devices, Looks: infer.LooksAt(plan.Screening, plan.Rounds),
		Seed: plan.Seed}
}

// tellChoices queries the launches of a plan's inferred series and stores them in its run. It returns early if
// the run has them or began without them.
func (a *app) tellChoices(ctx context.Context, run *results.Run, plan *sweep.Plan, devices []kernels.Device) error {
	if !plan.Infers() {
		return nil
	}
	if cases, err := run.Cases(); err != nil || len(cases) > 0 {
		return err
	}
	told, err := a.askChoices(ctx, plan, devices)
	if err != nil {
		return err
	}
	return told.Store(run)
}

// askChoices queries the launches of a plan's inferred series and reports the time taken.
func (a *app) askChoices(ctx context.Context, plan *sweep.Plan, devices []kernels.Device) (sweep.Told, error) {
	began := a.now()
	said := began
	inferred, all := results.Inferred(plan.Own()), 0
	for _, ms := range inferred {
		all += len(ms)
	}
	told, err := sweep.AskChoices(ctx, devices, plan, sweep.Asking{
		CaseTimeout: a.faults.timeout,
		Of:          func(s sweep.PlannedSeries) bool { return inferred[s.SeriesKey] != nil },
		Progress: func(asked int) {
			if now := a.now(); now.Sub(said) >= askedEvery {
				said = now
				a.notef("asked for the kernel at %d of %d sizes", asked, all)
			}
		},
	})
	if err != nil {
		return told, err
	}
	stretches := 0
	for _, c := range told.Choices {
		stretches += len(c)
	}
	if len(told.Choices) > 0 {
		a.notef("kernels of %s known in %s: %s", plural(len(told.Choices), "series", "series"),
			report.Duration(a.now().Sub(began)), plural(stretches, "stretch of M", "stretches of M"))
	}
	if len(told.Untold) > 0 {
		key := slices.SortedFunc(maps.Keys(told.Untold),
			func(a, b results.SeriesKey) int { return strings.Compare(a.String(), b.String()) })[0]
		a.notef("kernels of %s unknown for some sizes; a coarse grid is measured instead: %v: %s",
			plural(len(told.Untold), "series", "series"), key, told.Untold[key])
	}
	return told, nil
}

// firstCases counts the cases of a plan's screening, before the designer requests more.
func firstCases(run *results.Run, plan *sweep.Plan, d sweep.Designer) (int, error) {
	n := len(plan.Cases())
	if d == nil {
		return n, nil
	}
	choices, err := run.Choices()
	if err != nil {
		return 0, err
	}
	seeds, err := plan.Seeds(d, choices)
	for _, ms := range seeds {
		n += len(ms)
	}
	return n, err
}

func knownText(k sweep.Known) string {
	return fmt.Sprintf("%s: %d measured, %d inferred, %d open", plural(k.Rows, "row", "rows"), k.Measured, k.Inferred, k.Open())
}
