package main

import (
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// designer lets the rules choose the rows of a sweep's inferred series.
type designer struct{ rules rules.Designer }

var _ sweep.Designer = designer{}

// Seeds implements [sweep.Designer].
func (d designer) Seeds(s sweep.PlannedSeries, choices results.Choices) (sweep.Batches, error) {
	return d.rules.Seeds(s.SeriesKey, s.Ms, choices), nil
}

// More implements [sweep.Designer].
func (d designer) More(plan *sweep.Plan, choices map[results.SeriesKey]results.Choices, cases []results.Case, samples []results.Sample) ([]results.Case, int, error) {
	more, known, err := d.rules.Look(asked(plan), choices, cases, samples)
	return more, known.Inferred, err
}

// asked are the Ms of the inferred series that a plan's shard has.
func asked(plan *sweep.Plan) map[results.SeriesKey][]int {
	out := map[results.SeriesKey][]int{}
	for _, s := range plan.Own() {
		if s.Infer {
			out[s.SeriesKey] = s.Ms
		}
	}
	return out
}
