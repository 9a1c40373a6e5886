// Package nodecheck plans the check of a node: the cases of a fleet's baseline that its devices repeat within a
// time budget.
package nodecheck

import (
	"cmp"
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
	// rounds is the number of samples in a screening, of block each.
	rounds = 7
	block  = 4 * time.Millisecond
	// planShare is the share of the remaining budget planned for the cases. The rest allows for wrong
	// estimates and slow machines.
	planShare = 0.6
	// sustainShare is the share of the budget for running cases alone, if the baseline did.
	sustainShare = 1.0 / 3
)

// Offer holds the baseline cases that the devices of a node can repeat.
type Offer struct {
	// Cases lists the cases by device, most informative first. Devices without a case are missing.
	Cases map[string][]results.Case
	// Unjudged lists devices without baseline data.
	Unjudged []fleet.Check
	Warnings []rules.Warning

	alone bool // the baseline has cases that ran alone
}

// Choose finds the baseline's cases for devices on the machine of a fingerprint.
func Choose(b *fleet.Baseline, here results.Fingerprint, devices []kernels.Device) *Offer {
	meta := results.Meta{Gemmaudit: here.Gemmaudit, Fingerprint: here}
	o := &Offer{Cases: map[string][]results.Case{}, alone: true}
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
				o.Warnings = append(o.Warnings,
					rules.Warning{Subject: id, Text: fmt.Sprintf("not on this machine, not compared: %s", strings.Join(missing, ", "))})
			}
		}
		if len(cases) == 0 {
			o.Unjudged = append(o.Unjudged, fleet.Check{Device: id, Card: cmp.Or(d.Spec().UUID, here.Hostname+"/"+id),
				Host: here.Hostname, Model: model, Verdict: fleet.Unjudged, Reason: reason})
			continue
		}
		o.Cases[id] = cases
		o.alone = o.alone && g.SustainedOf == results.PhaseSustained
	}
	return o
}

// Plan plans as many cases as fit what is left of the budget, and the same ones for equal devices. alone are
// the cases to run alone afterwards.
func (o *Offer) Plan(est *sweep.Predictor, caches map[string]int64, budget, left time.Duration) (
	plan *sweep.Plan, alone []results.Case, err error) {
	share := 1.0
	if o.alone {
		share -= sustainShare
	}
	takes := func(n int) time.Duration {
		t := est.Plan(planOf(o.Cases, n, budget), nil, caches)
		return t.SetUp + t.Expected
	}
	longest := 0
	for _, cases := range o.Cases {
		longest = max(longest, len(cases))
	}
	most := time.Duration(planShare * share * float64(left))
	// Try at least one case, because estimates can be wrong.
	n := max(1, sort.Search(longest, func(i int) bool { return takes(i+1) > most }))
	if o.alone {
		alone = firstOf(o.Cases, min(n, max(1, int(sustainShare*float64(left)/float64(sweep.SustainTime)))))
	}
	plan = planOf(o.Cases, n, budget)
	return plan, alone, plan.Validate()
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
		Schema: sweep.PlanSchema, Screening: rounds, Rounds: rounds, Seed: 1, Distribution: kernels.Normal,
		BlockTarget: block, MinLaunches: 1, Sentinel: sweep.DefaultSentinel(), Deadline: budget,
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
