package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/mistral"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// passRecord keeps every sample of a decoder's measurements in a run file. nil keeps none.
type passRecord struct {
	run     *results.Run
	now     func() time.Time
	series  results.SeriesKey // but for the operation and the kernel
	weights string            // how those of products are held, behind the kernel's name; empty for plain ones
	cases   map[results.CaseKey]results.Case
	started time.Time // of the measurement that is kept next
	seq     int64
}

// outFlag adds --out.
func (o *modelOptions) outFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.out, "out", "", "run `file` in which every sample is kept (default: none)")
	complete(cmd, "out", filesWith("db"))
	o.app.labels.register(cmd)
}

// checkOut refuses a run file that exists, before a model is loaded for it.
func (o *modelOptions) checkOut() error {
	labels, err := o.app.labels.labels()
	switch {
	case err != nil:
		return err
	case o.out == "" && len(labels) > 0:
		return usagef("--label: expected together with --out: a label is of a run")
	case o.out == "":
		return nil
	}
	if _, err := os.Lstat(o.out); err == nil {
		return hint(devicef("%q exists and is not overwritten", o.out), "give another --out")
	}
	return nil
}

// record creates the run file of --out.
func (o *modelOptions) record(ctx context.Context, l *loaded) (*passRecord, error) {
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
		Fingerprint: results.ReadFingerprint([]kernels.Spec{spec}, buildVersion()),
		Labels:      labels,
		Ceilings:    map[string]kernels.Ceilings{spec.ID: ceilings},
		Regime:      results.Engine, Distribution: kernels.Normal, Seed: passSeed,
	})
	if err != nil {
		return nil, err
	}
	if err := run.SetState(sweep.StateStatus, sweep.StatusRunning); err != nil {
		return nil, errors.Join(err, run.Close())
	}
	if err := recordConstants(run, []kernels.Device{l.device}); err != nil {
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
	weights := ""
	if held := l.heldAs(); held != "" {
		weights = "+" + held
	}
	return &passRecord{run: run, now: o.app.now, weights: weights, cases: map[results.CaseKey]results.Case{},
		series: results.SeriesKey{Device: spec.ID, Subject: subject, Regime: results.Engine, Threads: l.threads()}}, nil
}

// close ends the run. failure is what the command ended with.
func (r *passRecord) close(failure error) error {
	if r == nil {
		return nil
	}
	status := sweep.StatusComplete
	if failure != nil {
		status = sweep.StatusInterrupted
	}
	return errors.Join(r.run.SetState(sweep.StateStatus, status), r.run.Close())
}

// begin notes when the measurement that is kept next begins.
func (r *passRecord) begin() {
	if r != nil {
		r.started = r.now()
	}
}

// keep stores what a kernel took for launches passes of an operation with m tokens, since
// begin.
func (r *passRecord) keep(o kernels.Operation, kernel string, m int, phase results.Phase, round, launches int, span kernels.Span) error {
	if r == nil {
		return nil
	}
	c := results.Case{SeriesKey: r.series, M: m}
	c.Kernel, c.Operation = kernel+r.weights, o
	known, ok := r.cases[c.Key()]
	if !ok {
		stored, err := r.run.AddCases([]results.Case{c})
		if err != nil {
			return err
		}
		known = stored[0]
		r.cases[c.Key()] = known
	}
	err := r.run.Append(results.Sample{
		CaseID: known.ID, Phase: phase, Round: round, Seq: r.seq, StartedUnixMicro: r.started.UnixMicro(),
		Launches: launches, US: 1e6 * span.Seconds / float64(launches), ClockMHz: span.ClockMHz, Disturbance: span.Disturbance.String(),
	})
	r.seq++
	return err
}

// partPhase is the phase of the samples of one part of a pass, the sweep's that of the whole.
func partPhase(p mistral.Part) results.Phase {
	if p == "" {
		return results.PhaseSweep
	}
	return results.Phase("part:" + string(p))
}

// keepTiming is keep for a pass, or a part of one.
func (r *passRecord) keepTiming(kernel string, t mistral.Timing, round int, span kernels.Span) error {
	if t.Rows == 1 && t.Context > 0 {
		return r.keep(kernels.DecoderToken, kernel, t.Context, partPhase(t.Part), round, 1, span)
	}
	return r.keep(kernels.DecoderPrompt, kernel, t.Rows, partPhase(t.Part), round, 1, span)
}
