package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/outcome"
	"github.com/gemmaudit/gemmaudit/sweep"
	"github.com/gemmaudit/gemmaudit/sweep/health"
)

type doctorOptions struct {
	app    *app
	output report.Format
	strict bool
	probe  time.Duration
}

func newDoctorCommand(a *app) *cobra.Command {
	opts := &doctorOptions{app: a}
	cmd := &cobra.Command{
		Use:  "doctor",
		RunE: func(cmd *cobra.Command, _ []string) error { return opts.run(cmd.Context()) },
	}
	outputFlag(cmd, &opts.output)
	cmd.Flags().BoolVar(&opts.strict, "strict", false, "exit 1 if there is a warning or a problem")
	cmd.Flags().DurationVar(&opts.probe, "resolution", 10*time.Second, "time to estimate the smallest detectable loss on a CPU; 0 to skip")
	return cmd
}

// probeRows is the maximum number of samples per row in the presets' runs.
const probeRows = 35

// probeMs holds the M of the timed products, a projection of the quick preset.
var probeMs = []int{16, 64, 128}

// resolution times blocks on the host and judges them; nil without a host device, or if --resolution is 0.
func (o *doctorOptions) resolution(ctx context.Context) (*health.Finding, error) {
	devices := o.app.registry().Devices()
	i := slices.IndexFunc(devices, func(d kernels.Device) bool { return d.Spec().Kind.Facts().Host })
	if i < 0 || o.probe <= 0 {
		return nil, nil
	}
	m, err := sweep.NewMeasurer(sweep.MeasureConfig{Devices: devices[i : i+1], Now: o.app.now, BlockTarget: 4 * time.Millisecond})
	if err != nil {
		return nil, err
	}
	var requests []results.Request
	for _, rows := range probeMs {
		requests = append(requests, results.Request{Phase: results.PhaseConfirm, Case: results.Case{M: rows, SeriesKey: results.SeriesKey{
			Device: devices[i].Spec().ID, Kernel: "auto", Regime: results.Engine,
			Subject: kernels.Product(kernels.FP32, 1024, 4096)}}})
	}
	limited, cancel := context.WithTimeout(ctx, o.probe)
	samples, err := m.Measure(limited, requests, 1<<16)
	cancel()
	if err = errors.Join(err, m.Close()); err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
		return nil, err
	}
	s := infer.TellSteadiness(samples, probeRows, rules.Default().Basis())
	if s.Resolution == 0 {
		blocks := 0
		for _, of := range samples {
			blocks += len(of)
		}
		f := health.NoResolution(blocks, o.probe)
		return &f, nil
	}
	f := health.Resolution(s.Resolution, infer.ResolutionText(s.Resolution), s.Scatter.Location == infer.LocationLow)
	return &f, nil
}

var healthLevels = map[health.Severity]string{
	health.OK: "ok", health.Note: "note", health.Warning: "warning", health.Error: "problem",
}

func (o *doctorOptions) run(ctx context.Context) error {
	if o.app.device != "auto" {
		if _, err := o.app.devices(); err != nil { // the others are closed
			return err
		}
	}
	found := health.Check(health.Live(o.app.registry()))
	resolution, err := o.resolution(ctx)
	if err != nil {
		return err
	}
	if resolution != nil {
		found.Add(*resolution)
	}
	rows := make([]report.Health, len(found.Findings))
	for i, f := range found.Findings {
		rows[i] = report.Health{Name: f.Check, Level: healthLevels[f.Severity], Found: f.Seen, Hint: f.Hint,
			Consequence: resolution != nil && f.Check == resolution.Check}
	}
	if err := o.app.wrapPrint(report.WriteDoctor(o.app.stream(o.app.stdout), o.output, rows)); err != nil {
		return err
	}
	var e outcome.Evidence
	if bad := found.Count(health.Warning) + found.Count(health.Error); o.strict && bad > 0 {
		e.Proven = append(e.Proven, plural(bad, "thing", "things")+" would spoil a measurement here")
	}
	return o.app.conclude(e)
}
