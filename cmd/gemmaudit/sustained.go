package main

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// sustainedFlag adds --sustained.
func sustainedFlag(cmd *cobra.Command, sustained *bool) {
	cmd.Flags().BoolVar(sustained, "sustained", false, "also run the worst row of each confirmed finding, and what it is held against, alone for 0.6 s: time, power and energy a launch")
}

// sustain runs what findings rest on alone for a while; its samples are stored under the phase
// sustained.
func (a *app) sustain(ctx context.Context, run *results.Run, audit *rules.Audit) error {
	cases := sustainedCases(audit)
	if len(cases) == 0 {
		return nil
	}
	a.notef("running %s alone", plural(len(cases), "case", "cases"))
	measurer, err := a.newMeasurer(run)
	if err != nil {
		return err
	}
	_, err = measurer.Sustain(ctx, cases, sweep.SustainSpan)
	return errors.Join(err, measurer.Close())
}

// sustainedCases are the worst rows of confirmed findings and, of rules that hold rows of a
// series against each other, their references; each once.
func sustainedCases(audit *rules.Audit) []results.Case {
	var out []results.Case
	add := func(key results.SeriesKey, m int) {
		same := func(c results.Case) bool { return c.SeriesKey == key && c.M == m }
		if m > 0 && !slices.ContainsFunc(out, same) {
			out = append(out, results.Case{SeriesKey: key, M: m})
		}
	}
	for _, f := range audit.Findings {
		if f.Status != rules.Confirmed {
			continue
		}
		add(f.Series, f.WorstM)
		if f.Rule == rules.Monotonic {
			add(f.Series, f.ReferenceM)
		}
	}
	return out
}
