package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// sustainFlags are --sustained and how long it may take.
type sustainFlags struct {
	on    bool
	limit time.Duration // 0 for the preset's, or sustainLimit
}

// sustainLimit is how long running cases by themselves may take where nothing else is said.
const sustainLimit = 2 * time.Minute

func (f *sustainFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.on, "sustained", false, "also run the cases of confirmed findings and of paying remedies, each by itself for 0.6 s: time, clock and energy per launch")
	flags.DurationVar(&f.limit, "sustained-limit", 0, "time that --sustained may take, the largest time at stake first (default: by the preset, else 2m)")
	complete(cmd, "sustained-limit", fixed("30s", "2m", "10m"))
}

// check returns a usage error for a limit that can't be.
func (f sustainFlags) check() error {
	switch {
	case f.limit < 0:
		return usagef("--sustained-limit: %v, expected above 0", f.limit)
	case f.limit > 0 && !f.on:
		return usagef("--sustained-limit goes with --sustained")
	}
	return nil
}

// sustain runs what findings and remedies that pay rest on alone for a while, those with the
// most time at stake first, for most at most. Samples are stored under the phase sustained;
// what follows from them is filled in. found may be nil.
func (a *app) sustain(ctx context.Context, run *results.Run, cfg rules.Config, audit *rules.Audit, found *rules.SplitsResult, most time.Duration) error {
	all := rules.ToSustain(audit, found)
	if len(all) == 0 {
		return nil
	}
	cases := affordable(all, most)
	a.notef("running %s sustained", plural(len(cases), "case", "cases"))
	measurer, err := a.newMeasurer(run)
	if err != nil {
		return err
	}
	samples, err := limited(ctx, most, func(ctx context.Context) ([]results.Sample, error) {
		samples, err := measurer.Sustain(ctx, cases, sweep.SustainSpan)
		if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
			err = nil // the time was up: what has run counts
		}
		return samples, err
	})
	if err := errors.Join(err, a.leave(measurer)); err != nil {
		return err
	}
	if left := leftOut(all, cases, samples); left > 0 {
		audit.Warnings = append(audit.Warnings, rules.Warning{Subject: "run", Text: fmt.Sprintf(
			"%d of %d findings and remedies did not run sustained: the limit of %v was reached, or they failed", left, len(all), most)})
	}
	data, err := rules.LoadData(run)
	if err != nil {
		return err
	}
	audit.AddSustained(data, cfg)
	if found != nil {
		found.AddSustained(data, cfg)
	}
	return nil
}

// affordable are the cases, each once, of as many elements from the first on as fit into
// most.
func affordable(all [][]results.Case, most time.Duration) []results.Case {
	var out []results.Case
	for _, together := range all {
		with := slices.Clone(out)
		for _, c := range together {
			if placeOf(with, c) < 0 {
				with = append(with, c)
			}
		}
		if len(out) > 0 && time.Duration(len(with))*sweep.SustainTime > most {
			break
		}
		out = with
	}
	return out
}

// placeOf is where a case that runs the same stands in a list, -1 for nowhere.
func placeOf(cases []results.Case, c results.Case) int {
	return slices.IndexFunc(cases, func(o results.Case) bool {
		return o.Key() == c.Key()
	})
}

// leftOut counts the elements of which some case has no sample; samples are parallel to
// cases.
func leftOut(all [][]results.Case, cases []results.Case, samples []results.Sample) int {
	n := 0
	for _, together := range all {
		if slices.ContainsFunc(together, func(c results.Case) bool {
			at := placeOf(cases, c)
			return at < 0 || at >= len(samples) || samples[at].Launches == 0
		}) {
			n++
		}
	}
	return n
}
