package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/sweep"
)

type sustainFlags struct {
	on    bool
	limit time.Duration // 0 for the preset's, or sustainLimit
}

// sustainLimit is the default time limit for running cases alone.
const sustainLimit = 2 * time.Minute

func (f *sustainFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.on, "sustained", false, "also run confirmed findings and paying remedies alone for 0.6 s each, with clock and energy")
	addFlag(cmd, &f.limit, "sustained-limit", 0, "time limit of --sustained (default: from the preset, else 2m)", fixed("30s", "2m", "10m"))
}

func (f sustainFlags) check() error {
	switch {
	case f.limit < 0:
		return usagef("--sustained-limit: %v, expected above 0", f.limit)
	case f.limit > 0 && !f.on:
		return usagef("--sustained-limit needs --sustained")
	}
	return nil
}

// sustain runs the cases behind findings and paying remedies alone, beginning with the most time at
// stake, within most. It stores the samples in the phase sustained and fills in the derived values.
// found may be nil.
func (a *app) sustain(ctx context.Context, run *results.Run, cfg rules.Config, audit *rules.Audit, found *remedy.Result,
	most time.Duration) error {
	all := remedy.ToSustain(audit, found)
	if len(all) == 0 {
		return nil
	}
	cases := sweep.Affordable(all, most)
	a.notef("running %s in a loop (sustained)", plural(len(cases), "case", "cases"))
	samples, err := a.runAlone(ctx, run, cases, most)
	if err != nil {
		return err
	}
	if left := sweep.NotSustained(all, cases, samples); left > 0 {
		audit.Warnings = append(audit.Warnings, rules.Warning{Subject: "run", Text: fmt.Sprintf(
			"%d of %d findings and remedies did not run sustained: they failed, or the limit of %v was reached", left, len(all), most)})
	}
	data, err := infer.LoadData(run)
	if err != nil {
		return err
	}
	data = data.Along(cfg.Basis())
	audit.AddSustained(data, cfg)
	if found != nil {
		found.AddSustained(data, cfg)
	}
	return nil
}

// runAlone runs cases of a run alone, one after the other, until the time is up. Cases that ran count.
func (a *app) runAlone(ctx context.Context, run *results.Run, cases []results.Case, most time.Duration) ([]results.Sample, error) {
	measurer, err := a.newMeasurer(run)
	if err != nil {
		return nil, err
	}
	samples, err := limited(ctx, most, func(inner context.Context) ([]results.Sample, error) {
		samples, err := measurer.Sustain(inner, cases, sweep.SustainSpan)
		if inner.Err() != nil && errors.Is(err, context.Cause(inner)) {
			err = nil
		}
		return samples, err
	})
	return samples, errors.Join(err, a.leave(measurer))
}
