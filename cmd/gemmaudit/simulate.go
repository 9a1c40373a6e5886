package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/report/errorrates"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/trust"
)

type simulateOptions struct {
	simulate bool
	machines int
	kinds    []string
	worst    int
	keep     string
}

const mostMachines = 1_000_000

func (o *simulateOptions) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&o.simulate, "simulate", false, "test the verdicts on simulated machines with known times")
	flags.IntVar(&o.machines, "machines", 1000, "simulated machines, shared among the kinds of noise; data sets per kind of imported data")
	addFlag(cmd, &o.kinds, "noise-kind", nil, "only these kinds of noise (see docs/trust.md)", listOf(trust.AllKindNames))
	flags.IntVar(&o.worst, "worst", 0, "also list the N worst errors of each rate")
	addFlag(cmd, &o.keep, "keep", "", "keep the simulated run files in this folder (default: delete them)", folders)
}

func (o *simulateOptions) check(cmd *cobra.Command) error {
	for _, name := range []string{"machines", "noise-kind", "worst", "keep"} {
		if !o.simulate && cmd.Flags().Changed(name) {
			return usagef("--%s: expected together with --simulate", name)
		}
	}
	for _, name := range []string{"kernel", "dtype", "noise", "pairs", "rounds", "deadline", "shape", "device", "kernel-file", "library"} {
		if f := cmd.Flag(name); o.simulate && f != nil && f.Changed {
			return usagef("--%s can't be combined with --simulate", name)
		}
	}
	switch {
	case o.machines < 1 || o.machines > mostMachines:
		return usagef("--machines: %d, expected 1 to %d", o.machines, mostMachines)
	case o.worst < 0:
		return usagef("--worst: %d, expected at least 0", o.worst)
	}
	return nil
}

// setsOf is the number of data sets per kind: the same number as machines per kind of machine.
func (o *simulateOptions) setsOf(kinds, data int) int {
	if kinds == 0 {
		kinds = max(1, data)
	}
	return (o.machines + kinds - 1) / kinds
}

func (o *simulateOptions) run(ctx context.Context, a *app, seed uint64, output report.Format) error {
	kinds, data, err := trust.KindsNamed(o.kinds...)
	if err != nil {
		return badFlag("noise-kind", err)
	}
	last := time.Now()
	result, err := trust.Run(ctx, trust.Options{
		Machines: o.machines, Seed: seed, Kinds: kinds, Data: data, DataSets: o.setsOf(len(kinds), len(data)), Config: rules.Default(),
		Worst: o.worst, Keep: o.keep,
		Progress: func(done, of int) {
			if now := time.Now(); now.Sub(last) >= 5*time.Second {
				last = now
				a.notef("%d of %d machines simulated", done, of)
			}
		},
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return interruptedf("the simulation of %s was stopped", plural(o.machines, "machine", "machines"))
	case err != nil:
		return devicef("simulate: %w", err)
	}
	if err := a.wrapPrint(errorrates.Write(a.stream(a.stdout), output, result)); err != nil {
		return err
	}
	return a.conclude(result.Evidence())
}
