package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/selftest"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/outcome"
	"github.com/gemmaudit/gemmaudit/rules/stats"
	"github.com/gemmaudit/gemmaudit/sweep"
)

type selftestOptions struct {
	app     *app
	kernels []string
	dtypes  []string
	noise   bool
	pairs   int
	rounds  int
	block   time.Duration
	shape   string
	seed    uint64
	// deadline limits the checks and the noise floor; 0 means no limit.
	deadline time.Duration
	output   report.Format
	trust    simulateOptions
}

func newSelftestCommand(a *app) *cobra.Command {
	opts := &selftestOptions{app: a}
	cmd := &cobra.Command{
		Use: "selftest",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := opts.trust.check(cmd); err != nil {
				return err
			}
			if opts.trust.simulate {
				return opts.trust.run(cmd.Context(), a, opts.seed, opts.output)
			}
			return opts.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	addFlag(cmd, &opts.kernels, "kernel", nil, "only these kernels: names, attention, softmax, attention:flash, or the path of your own",
		a.completeKernels(func() []string { return append(a.kernelNames(), selftest.Families()...) }))
	broughtFlags(a, cmd)
	addFlag(cmd, &opts.dtypes, "dtype", nil, "only these data types", listOf(a.dtypeNames))
	flags.BoolVar(&opts.noise, "noise", true, "measure the noise floor")
	flags.IntVar(&opts.pairs, "pairs", 40, "pairs of the same case for the noise floor")
	flags.IntVar(&opts.rounds, "rounds", 10, "samples of each half of a pair")
	flags.DurationVar(&opts.block, "block", 5*time.Millisecond, "time of one sample of the noise floor")
	addFlag(cmd, &opts.deadline, "deadline", selftestTime, "stop after this long; 0 for never", fixed("1m", "10m", "0"))
	addFlag(cmd, &opts.shape, "shape", "m64n1024k1024", "product for the noise floor", completeShapes)
	flags.Uint64Var(&opts.seed, "seed", 1, "seed of the operands, or of the simulated machines")
	opts.trust.register(cmd)
	outputFlag(cmd, &opts.output)
	return cmd
}

func (o *selftestOptions) run(ctx context.Context) error {
	a := o.app
	if o.block <= 0 || o.block > time.Minute {
		return usagef("--block: %v, expected above 0 and at most 1m", o.block)
	}
	if o.deadline < 0 {
		return usagef("--deadline: %v, expected 0 or more", o.deadline)
	}
	if err := within(mostNoise, counted{"pairs", o.pairs, 1}, counted{"rounds", o.rounds, 5}); err != nil {
		return err
	}
	shape, err := sweep.ParseShape(o.shape)
	if err != nil {
		return badFlag("shape", err)
	}
	if shape.M == 0 {
		return usagef("--shape: %q has no m, expected one as in m64n1024k1024", o.shape)
	}
	dtypes := kernels.DTypes()
	if len(o.dtypes) > 0 {
		if dtypes = parsedList(&err, "dtype", o.dtypes, kernels.ParseDType); err != nil {
			return err
		}
	}
	devices, err := a.devices()
	if err != nil {
		return err
	}
	if o.kernels, err = a.kernelsNamed(devices, o.kernels); err != nil {
		return err
	}
	if err := selftest.Validate(devices, o.kernels); err != nil {
		return badFlag("kernel", err)
	}
	// If the noise floor cannot be measured, fail before the gate runs.
	var noise *results.Case
	if o.noise {
		if noise, err = o.noiseCase(devices[0], shape, dtypes); err != nil {
			return err
		}
	}
	test := &report.Selftest{}
	limit := ctx
	if o.deadline > 0 {
		var cancel context.CancelFunc
		limit, cancel = context.WithTimeout(ctx, o.deadline)
		defer cancel()
	}
	failures, err := o.checks(ctx, limit, devices, dtypes, test)
	if err != nil {
		return err
	}
	var late []string
	if n := unreached(test); n > 0 {
		late = append(late, plural(n, "check was", "checks were")+" not finished")
	}
	if noise != nil && !errors.Is(errors.Join(failures...), kernels.ErrDeviceLost) {
		if limit.Err() == nil {
			test.Noise, err = o.noiseFloor(limit, devices[0], *noise)
		}
		switch {
		case limit.Err() != nil && ctx.Err() == nil && test.Noise == nil:
			late, err = append(late, "the noise floor was not measured"), nil
		case err != nil:
			failures = append(failures, err)
		}
	}
	if err := a.wrapPrint(report.WriteSelftest(a.stream(a.stdout), o.output, test)); err != nil {
		return err
	}
	if err != nil && ctx.Err() != nil {
		return err
	}
	evidence := test.Evidence(groundsOf(failures...))
	if len(late) > 0 {
		evidence.Open = append(evidence.Open,
			outcome.Ground{Text: fmt.Sprintf("%s within %s", strings.Join(late, ", "), report.Duration(o.deadline)),
				Hint: "a longer --deadline checks the rest; --kernel and --dtype check less"})
	}
	return a.conclude(evidence)
}

// selftestTime is enough for all kernels of a card, or of a CPU with other load.
const selftestTime = 15 * time.Minute

// timeUp is the reason for checks skipped by the deadline.
const timeUp = "the time was up"

func unreached(test *report.Selftest) int {
	n := 0
	for _, check := range test.Checks {
		if check.Skipped == timeUp {
			n++
		}
	}
	return n
}

// checks compares every kernel with the reference and adds the results to test. failures holds the errors
// that prevented checks; a lost device is not used again. When limit ends, the rest is skipped; err ends the
// command.
func (o *selftestOptions) checks(ctx, limit context.Context, devices []kernels.Device, dtypes []kernels.DType,
	test *report.Selftest) (failures []error, err error) {
	all := make([][]selftest.Check, len(devices))
	total, at := 0, 0
	for i, d := range devices {
		if all[i], err = selftest.Checks(d, o.kernels, dtypes, o.seed); err != nil {
			return nil, planError(err)
		}
		for _, g := range all[i] {
			total += len(g.Kernels)
		}
	}
devices:
	for k, d := range devices {
		for _, g := range all[k] {
			for i, kernel := range g.Kernels {
				if limit.Err() == nil {
					o.app.notef("checking %s/%s/%s (%d of %d)", d.Spec().ID, kernel, g.DType, at+i+1, total)
				}
			}
			at += len(g.Kernels)
			var found []kernels.CheckSummary
			var problems []error
			if limit.Err() == nil {
				found, problems = g.Run(limit)
			}
			for i, kernel := range g.Kernels {
				if ctx.Err() != nil {
					return nil, interruptedf("selftest stopped at %s/%s/%s", d.Spec().ID, kernel, g.DType)
				}
				if limit.Err() != nil && (problems == nil || errors.Is(problems[i], context.DeadlineExceeded)) {
					test.Checks = append(test.Checks,
						report.CheckStep{Device: d.Spec().ID, Kernel: kernel, DType: g.DType, Skipped: timeUp})
					continue
				}
				check, failure := report.NewCheckStep(d.Spec(), kernel, g.DType, found[i], problems[i])
				test.Checks = append(test.Checks, check)
				if failure != nil {
					failures = append(failures, failure)
				}
				if errors.Is(failure, kernels.ErrDeviceLost) {
					continue devices
				}
			}
		}
	}
	return failures, nil
}

const mostNoise = 100_000

// noiseCase is the noise floor's case: the shape with the first supported data type and kernel; nil if there
// is none.
func (o *selftestOptions) noiseCase(d kernels.Device, shape kernels.Shape, dtypes []kernels.DType) (*results.Case, error) {
	gemms, err := selftest.Products(d, o.kernels)
	if err != nil {
		return nil, planError(err)
	}
	for _, dtype := range dtypes {
		i := slices.IndexFunc(gemms, func(g kernels.Kernel) bool {
			return g.Supports(kernels.Task{Subject: kernels.Product(dtype, shape.N, shape.K), M: shape.M}) == nil
		})
		if i < 0 {
			continue
		}
		c := &results.Case{M: shape.M, SeriesKey: results.SeriesKey{
			Device: d.Spec().ID, Kernel: gemms[i].Name(), Subject: kernels.Product(dtype, shape.N, shape.K), Regime: results.Engine,
		}}
		if need, free := sweep.LeastMemory(d, *c); need > free {
			return nil, hint(usagef("--shape: %v needs at least %d bytes of memory, but %s has only %d", c, need, c.Device, free),
				"use a smaller shape, or --noise=false")
		}
		return c, nil
	}
	return nil, nil
}

func (o *selftestOptions) noiseFloor(ctx context.Context, d kernels.Device, c results.Case) (*report.Noise, error) {
	o.app.notef("noise floor: %d pairs of %v with itself", o.pairs, c)
	measurer, err := sweep.NewMeasurer(sweep.MeasureConfig{Devices: []kernels.Device{d}, BlockTarget: o.block, Observer: o.app.newMeter(),
		Now: o.app.now})
	if err != nil {
		return nil, err
	}
	floor, err := measurer.NoiseFloor(ctx, c, o.pairs, o.rounds, stats.Different)
	if err := errors.Join(err, measurer.Close()); err != nil {
		return nil, err
	}
	return &report.Noise{
		Cases: 1, Rounds: o.rounds, Spread: floor.Spread(),
		Comparisons: o.pairs, FalseFlags: floor.Flagged,
		Rate: stats.RateInterval(floor.Flagged, o.pairs), Level: stats.NoiseLevel,
	}, nil
}
