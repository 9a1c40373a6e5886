package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/mistral/checkpoint"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/sweep"
	"github.com/gemmaudit/gemmaudit/sweep/passes"
)

func (o *modelOptions) outFlag(cmd *cobra.Command) {
	addFlag(cmd, &o.out, "out", "", "keep every sample in this run `file` (default: none)", filesWith("db"))
	o.app.labels.register(cmd)
}

func (o *modelOptions) checkOut() error {
	labels, err := o.app.labels.labels()
	switch {
	case err != nil:
		return err
	case o.out == "" && len(labels) > 0:
		return usagef("--label needs --out")
	case o.out == "":
		return nil
	}
	if _, err := os.Lstat(o.out); err == nil {
		return errExists(o.out, "give another --out")
	}
	return nil
}

// checkKept refuses --out for models whose passes run files can't describe.
func (o *modelOptions) checkKept(c checkpoint.Config) error {
	if o.out != "" && c.Experts > 0 {
		return hint(usagef("--out: a run file can't describe the passes of a model with experts"), "omit it, or use -o json")
	}
	return nil
}

func (o *modelOptions) record(ctx context.Context, l *loaded) (*passes.Record, error) {
	if o.out == "" {
		return nil, nil
	}
	labels, err := o.app.labels.labels()
	if err != nil {
		return nil, err
	}
	spec := l.device.Spec()
	ceilings, err := l.device.Ceilings(ctx)
	if err != nil {
		return nil, devicef("measure %s: %w", spec.ID, err)
	}
	run, err := results.Create(o.out, results.Meta{
		Created: o.app.now(), Command: o.app.command, Gemmaudit: buildVersion(),
		Fingerprint: fingerprintOf([]kernels.Device{l.device}),
		Labels:      labels,
		Ceilings:    map[string]kernels.Ceilings{spec.ID: ceilings},
		Regime:      results.Engine, Distribution: kernels.Normal, Seed: passes.Seed,
	})
	if err != nil {
		return nil, err
	}
	if err := run.SetState(sweep.StateStatus, sweep.StatusRunning); err != nil {
		return nil, errors.Join(err, run.Close())
	}
	c := l.Config()
	window := c.Window
	if o.window > 0 {
		window = o.window
	}
	subject := kernels.Subject{DType: l.DType(), Dims: kernels.Dims{
		Layers: c.Layers, Hidden: c.Hidden, Inner: c.Inner, Vocab: c.Vocab,
		QueryHeads: c.Heads.Query, KVHeads: c.Heads.KV, HeadDim: c.Heads.Dim, Window: window,
	}}
	series := results.SeriesKey{Device: spec.ID, Subject: subject, Regime: results.Engine, Threads: l.threads()}
	return passes.NewRecord(run, series, l.heldAs(), o.app.now), nil
}
