package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/fleet"
	"github.com/gemmaudit/gemmaudit/sweep"
)

const (
	// checkRounds is the number of samples in a screening, of checkBlock each.
	checkRounds = 7
	checkBlock  = 4 * time.Millisecond
	// checkShare is the share of the remaining budget planned for the cases. The rest allows for wrong
	// estimates and slow machines.
	checkShare = 0.6
	// sustainShare is the share of the budget for running cases alone, if the baseline did.
	sustainShare = 1.0 / 3
)

type checkPlan struct {
	plan *sweep.Plan // nil if no device has a case to compare
	// alone lists the cases to run alone.
	alone []results.Case
	// unjudged lists devices without baseline data.
	unjudged []fleet.Check
	warnings []rules.Warning
}

// planCheck chooses baseline cases for each device, as many as fit the budget, and the same ones for equal
// devices.
func (a *app) planCheck(ctx context.Context, b *fleet.Baseline, devices []kernels.Device, budget time.Duration,
	began time.Time) (*checkPlan, error) {
	specs := make([]kernels.Spec, len(devices))
	for i, d := range devices {
		specs[i] = d.Spec()
	}
	meta := results.Meta{Gemmaudit: buildVersion(), Fingerprint: results.ReadFingerprint(specs, buildVersion())}
	p := &checkPlan{}
	offered := map[string][]results.Case{} // by device, most informative first
	together := true
	for _, d := range devices {
		id := d.Spec().ID
		g, model := b.For(meta, id)
		var cases []results.Case
		reason := fmt.Sprintf("the baseline has no %s", model)
		if g != nil {
			var missing []string
			cases, missing = casesHere(g.Telling(), d)
			reason = "the baseline has no kernel of this machine"
			if len(missing) > 0 {
				p.warnings = append(p.warnings,
					rules.Warning{Subject: id, Text: fmt.Sprintf("not on this machine, not compared: %s", strings.Join(missing, ", "))})
			}
		}
		if len(cases) == 0 {
			p.unjudged = append(p.unjudged, fleet.Check{Device: id, Card: cmp.Or(d.Spec().UUID, meta.Fingerprint.Hostname+"/"+id),
				Host: meta.Fingerprint.Hostname, Model: model, Verdict: fleet.Unjudged, Reason: reason})
			continue
		}
		offered[id] = cases
		together = together && g.SustainedOf == results.PhaseSustained
	}
	if len(offered) == 0 {
		return p, nil
	}
	ceilings, err := a.measureCeilings(ctx, devices)
	if err != nil {
		return nil, err
	}
	left := budget - a.now().Sub(began)
	share := 1.0
	if together {
		share -= sustainShare
	}
	est, caches := sweep.NewPredictor(ceilings), cacheSizes(devices)
	takes := func(n int) time.Duration {
		t := est.Plan(planOf(offered, n, budget), nil, caches)
		return t.SetUp + t.Expected
	}
	longest := 0
	for _, cases := range offered {
		longest = max(longest, len(cases))
	}
	most := time.Duration(checkShare * share * float64(left))
	// Try at least one case, because estimates can be wrong.
	n := max(1, sort.Search(longest, func(i int) bool { return takes(i+1) > most }))
	p.plan = planOf(offered, n, budget)
	if err := p.plan.Validate(); err != nil {
		return nil, err
	}
	if together {
		p.alone = firstOf(offered, min(n, max(1, int(sustainShare*float64(left)/float64(sweep.SustainTime)))))
	}
	return p, nil
}

// casesHere returns the baseline cases that a device can run, and the kernels of the others. A run has one
// regime: the most informative case's.
func casesHere(telling []fleet.BaselineCase, d kernels.Device) (cases []results.Case, missing []string) {
	for _, c := range telling {
		key := c.Series
		key.Device = d.Spec().ID
		if len(cases) > 0 && key.Regime != cases[0].Regime {
			continue
		}
		if !runsHere(d, key, c.M) {
			if !slices.Contains(missing, key.Kernel) {
				missing = append(missing, key.Kernel)
			}
			continue
		}
		cases = append(cases, results.Case{SeriesKey: key, M: c.M})
	}
	return cases, missing
}

func runsHere(d kernels.Device, key results.SeriesKey, m int) bool {
	kernel, err := kernels.Find(d, key.Operation, key.Kernel)
	if err != nil {
		return false
	}
	if t, ok := d.(kernels.Threaded); ok && key.Threads > t.Threads() {
		return false
	}
	return kernel.Supports(kernels.Task{Subject: key.Subject, M: m, Threads: key.Threads, PackInside: key.PackInside}) == nil
}

func firstOf(offered map[string][]results.Case, n int) []results.Case {
	var out []results.Case
	for _, id := range slices.Sorted(maps.Keys(offered)) {
		out = append(out, offered[id][:min(n, len(offered[id]))]...)
	}
	return out
}

// planOf plans the first n cases of each device. The budget counts from the start of the check.
func planOf(offered map[string][]results.Case, n int, budget time.Duration) *sweep.Plan {
	p := &sweep.Plan{
		Schema: sweep.PlanSchema, Screening: checkRounds, Rounds: checkRounds, Seed: 1, Distribution: kernels.Normal,
		BlockTarget: checkBlock, MinLaunches: 1, Sentinel: sweep.DefaultSentinel(), Deadline: budget,
	}
	p.Sentinel.DriftBound = rules.Default().DriftBound
	at := map[results.SeriesKey]int{}
	for _, c := range firstOf(offered, n) {
		p.Regime = c.Regime
		i, ok := at[c.SeriesKey]
		if !ok {
			i = len(p.Series)
			at[c.SeriesKey] = i
			p.Series = append(p.Series, sweep.PlannedSeries{SeriesKey: c.SeriesKey})
		}
		p.Series[i].Ms = append(p.Series[i].Ms, c.M)
	}
	for i := range p.Series {
		slices.Sort(p.Series[i].Ms)
	}
	return p
}

// sustain runs cases alone until the time is up.
func (p *checkPlan) sustain(ctx context.Context, a *app, run *results.Run, left time.Duration) error {
	if len(p.alone) == 0 || left < sweep.SustainTime {
		return nil
	}
	measurer, err := a.newMeasurer(run)
	if err != nil {
		return err
	}
	_, err = limited(ctx, left, func(inner context.Context) ([]results.Sample, error) {
		samples, err := measurer.Sustain(inner, p.alone, sweep.SustainSpan)
		if ctx.Err() == nil && inner.Err() != nil && errors.Is(err, context.Cause(inner)) {
			err = nil // time is up: cases that ran count
		}
		return samples, err
	})
	return errors.Join(err, a.leave(measurer))
}
