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
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
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
	output  report.Format
	trust   simulateOptions
}

func newSelftestCommand(a *app) *cobra.Command {
	opts := &selftestOptions{app: a}
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Check every kernel's results, then the noise floor",
		Example: examples(
			"gemmaudit selftest",
			"gemmaudit selftest --kernel amx,tiled --dtype bf16",
			"gemmaudit selftest --noise=false                   # only correctness",
			"gemmaudit selftest --kernel ./mine.so              # a kernel of yours",
			"gemmaudit selftest --pairs 200 --shape m64n4096k4096",
			"gemmaudit selftest --simulate                      # verdicts, on 1000 machines of known truth",
			"gemmaudit selftest --simulate --machines 50 --noise-kind clock --worst 10",
		),
		Long: `Correctness: every kernel and data type of this machine is compared with a float64
reference, element by element, |err| ≤ u_out·|ref| + c·√K·u_acc·Σ|a||b|, and exactly on
whole numbers; with tails of M, N and K, poisoned padding, and two runs bitwise equal; with
infinities, NaN, sums that overflow, subnormals, and int8 sums past 2^24. Two columns say what is
no failure: whether the bits of a row depend on M or on the number of threads, by computing the
same rows with both changed; and whether subnormal operands count ("kept") or are taken for zero.
So is every way in which a device computes attention: one row and many, windows, and caches
that have wrapped around, on normal, peaked and level scores; and every way in which it computes
softmax and its logarithm: one column to many, causal masks, on normal, peaked and level rows and
on rows with infinities and NaN.

A kernel of yours is a shared library with the C interface of gemmaudit_kernel.h (see
examples/README.md). It runs in this process: a fault in it ends the program, and it can do
whatever you can do.

Noise floor: one case is measured against itself under two names, interleaved, many times.
How often the two are called different is the rate of false alarms of this machine.

Verdicts (--simulate): the sweeper and the rules run on simulated machines whose true times
are known, under many kinds of noise. What they get wrong is counted, and the upper 95 %
limit of each rate is compared with its bound. No device is used; docs/trust.md explains the
tables.` + exitHelp(
			"0  every kernel is right and the false alarms stay within their level",
			"1  a kernel's result is wrong, there are more false alarms than allowed, or a rate passes its bound",
			"3  the device or a library failed, so that kernels could not be checked",
			"4  too few machines were simulated to compare every rate with its bound"),
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
	flags.StringSliceVar(&opts.kernels, "kernel", nil, "only these kernels; attention, softmax, or one way as in attention:flash, and the path of a --kernel-file as in ./mine.so")
	broughtFlags(a, cmd)
	flags.StringSliceVar(&opts.dtypes, "dtype", nil, "only these data types")
	flags.BoolVar(&opts.noise, "noise", true, "measure the noise floor")
	flags.IntVar(&opts.pairs, "pairs", 40, "A/A pairs of the noise floor")
	flags.IntVar(&opts.rounds, "rounds", 10, "samples of each name of a pair")
	flags.DurationVar(&opts.block, "block", 5*time.Millisecond, "time of one sample of the noise floor")
	flags.StringVar(&opts.shape, "shape", "m64n1024k1024", "product of the noise floor")
	flags.Uint64Var(&opts.seed, "seed", 1, "seed of the operands, or of the simulated machines")
	opts.trust.register(cmd)
	outputFlag(cmd, &opts.output)
	complete(cmd, "kernel", a.completeKernels(func() []string { return append(a.kernelNames(), attentionKernel, softmaxKernel) }))
	complete(cmd, "dtype", listOf(a.dtypeNames))
	complete(cmd, "shape", completeShapes)
	for _, free := range []string{"pairs", "rounds", "block", "seed"} {
		complete(cmd, free, cobra.NoFileCompletions)
	}
	return cmd
}

func (o *selftestOptions) run(ctx context.Context) error {
	a := o.app
	if o.block <= 0 || o.block > time.Minute {
		return usagef("--block: %v, expected above 0 and at most 1m", o.block)
	}
	for _, n := range []struct {
		flag         string
		value, least int
	}{{"pairs", o.pairs, 1}, {"rounds", o.rounds, 5}} {
		switch {
		case n.value < n.least:
			return usagef("--%s: %d, expected at least %d", n.flag, n.value, n.least)
		case n.value > mostNoise:
			return usagef("--%s: %d, expected at most %d", n.flag, n.value, mostNoise)
		}
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
		dtypes = nil
		for _, name := range o.dtypes {
			d, err := kernels.ParseDType(name)
			if err != nil {
				return usagef("--dtype: %w", err)
			}
			dtypes = append(dtypes, d)
		}
	}
	devices, err := a.devices()
	if err != nil {
		return err
	}
	if o.kernels, err = a.kernelsNamed(devices, o.kernels); err != nil {
		return err
	}
	if err := o.checkAttention(devices); err != nil {
		return err
	}
	if err := o.checkSoftmax(devices); err != nil {
		return err
	}
	// What can't be measured in the end is no reason to have the gate run first.
	var noise *results.Case
	if o.noise {
		if noise, err = o.noiseCase(devices[0], shape, dtypes); err != nil {
			return err
		}
	}
	test := &report.Selftest{}
	failures, err := o.checks(ctx, devices, dtypes, test)
	if err != nil {
		return err
	}
	if noise != nil && !errors.Is(errors.Join(failures...), kernels.ErrDeviceLost) {
		if test.Noise, err = o.noiseFloor(ctx, devices[0], *noise); err != nil {
			failures = append(failures, err)
		}
	}
	if err := a.wrapPrint(report.WriteSelftest(a.stream(a.stdout), o.output, test)); err != nil {
		return err
	}
	if err != nil && ctx.Err() != nil {
		return err
	}
	return a.conclude(selftestEvidence(test, failures))
}

// checks compares every kernel with the reference, into test. failures are what kept kernels from
// being checked; a device that is lost is not asked again. err ends the command.
func (o *selftestOptions) checks(ctx context.Context, devices []kernels.Device, dtypes []kernels.DType, test *report.Selftest) (failures []error, err error) {
devices:
	for _, d := range devices {
		checks, err := o.checksOf(d, dtypes)
		if err != nil {
			return nil, err
		}
		for _, g := range checks {
			for _, kernel := range g.kernels {
				o.app.notef("checking %s/%s/%s", d.Spec().ID, kernel, g.dtype)
			}
			found, problems := g.run(ctx)
			for i, kernel := range g.kernels {
				check := report.CheckStep{Device: d.Spec().ID, Kernel: kernel, DType: g.dtype}
				if ctx.Err() != nil {
					return nil, interruptedf("selftest stopped at %s/%s/%s", check.Device, check.Kernel, g.dtype)
				}
				failure := outcome(&check, found[i], problems[i])
				check.Known = knownFault(d, kernel, problems[i])
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

// attentionKernel is what attention is called among the kernels. One of several ways in which a
// device computes it is called "attention:flash".
const attentionKernel = "attention"

// kernelChecks are the checks of one data type of one kernel, or of several that have
// operands and references in common.
type kernelChecks struct {
	kernels []string
	dtype   kernels.DType
	run     func(context.Context) ([]kernels.CheckSummary, []error) // of each kernel
}

// checksOf are the checks of a device: those of its products, then those of attention.
func (o *selftestOptions) checksOf(d kernels.Device, dtypes []kernels.DType) ([]kernelChecks, error) {
	gemms, err := chooseGemms(d, o.kernels)
	if err != nil {
		return nil, err
	}
	var checks []kernelChecks
	for _, g := range gemms {
		for _, dtype := range dtypes {
			checks = append(checks, kernelChecks{[]string{g.Name()}, dtype, func(ctx context.Context) ([]kernels.CheckSummary, []error) {
				s, err := o.checkGemm(ctx, d, g, dtype)
				return []kernels.CheckSummary{s}, []error{err}
			}})
		}
	}
	if names, ways := o.attentions(d); len(ways) > 0 {
		for _, dtype := range dtypes {
			checks = append(checks, kernelChecks{names, dtype, func(ctx context.Context) ([]kernels.CheckSummary, []error) {
				return kernels.CheckAttentions(ctx, d, ways, dtype, o.seed)
			}})
		}
	}
	return append(checks, o.softmaxChecks(d, dtypes)...), nil
}

// checkGemm is the correctness check of a kernel of products, and what its rows' bits depend on. Those are
// looked at where a result was wrong, too.
func (o *selftestOptions) checkGemm(ctx context.Context, d kernels.Device, g kernels.Gemm, dtype kernels.DType) (kernels.CheckSummary, error) {
	summary, err := kernels.CheckKernel(ctx, d, g, dtype, o.seed)
	var wrong *kernels.CheckError
	if err != nil && !errors.As(err, &wrong) || summary.Passed == 0 {
		return summary, err
	}
	rows, failed := kernels.RowBitsOf(ctx, d, g, dtype, o.seed)
	summary.Rows = rows
	if err == nil {
		err = failed
	}
	return summary, err
}

// attentions are the ways in which a device computes attention, of those that were asked for.
func (o *selftestOptions) attentions(d kernels.Device) (names []string, ways []func(kernels.Attention) (kernels.Launch, error)) {
	a, ok := d.(kernels.Attender)
	if !ok { // simulated kernels of attention are listed too, and compute nothing
		return nil, nil
	}
	for _, k := range kernels.AttentionKernels(d) {
		names, ways = append(names, attentionKernel+":"+k.Name()), append(ways, k.Attend)
	}
	if len(ways) == 0 {
		names, ways = []string{attentionKernel}, append(ways, a.Attend)
	}
	if len(o.kernels) == 0 || slices.Contains(o.kernels, attentionKernel) {
		return names, ways
	}
	for i := len(names) - 1; i >= 0; i-- {
		if !slices.Contains(o.kernels, names[i]) {
			names, ways = slices.Delete(names, i, i+1), slices.Delete(ways, i, i+1)
		}
	}
	return names, ways
}

// isAttention says whether a name of --kernel is one of attention.
func isAttention(name string) bool {
	return name == attentionKernel || strings.HasPrefix(name, attentionKernel+":")
}

// checkAttention returns an error when attention was asked for and no device has it.
func (o *selftestOptions) checkAttention(devices []kernels.Device) error {
	for _, name := range o.kernels {
		if !isAttention(name) {
			continue
		}
		var have []string
		one := selftestOptions{kernels: []string{name}}
		if slices.ContainsFunc(devices, func(d kernels.Device) bool {
			all, _ := (&selftestOptions{}).attentions(d)
			have = append(have, all...)
			_, ways := one.attentions(d)
			return len(ways) > 0
		}) {
			continue
		}
		if len(have) == 0 {
			return usagef("--kernel: %s has no attention", devices[0].Spec().ID)
		}
		return usagef("--kernel: unknown kernel %q on %s: expected one of %s", name, devices[0].Spec().ID, strings.Join(have, ", "))
	}
	return nil
}

// selftestEvidence is what the exit code follows from. What failed says nothing of a kernel's results; and where no
// kernel was checked, none is known to be right.
func selftestEvidence(test *report.Selftest, failures []error) rules.Evidence {
	wrong, known, checked := 0, 0, 0
	for _, check := range test.Checks {
		if check.Wrong {
			wrong++
		}
		if check.Known != "" {
			known++
		}
		if check.Passed || check.Failure != "" {
			checked++
		}
	}
	e := rules.Evidence{Broken: groundsOf(failures...)}
	if wrong > 0 {
		text := plural(wrong, "kernel", "kernels") + " failed the comparison with the reference"
		if known > 0 {
			text += fmt.Sprintf(", %d by a known fault of a library", known)
		}
		e.Proven = append(e.Proven, text)
	} else if n := test.Noise; n != nil && n.Rate.Lo > n.Level {
		e.Proven = append(e.Proven, fmt.Sprintf("%d of %d A/A pairs were called different, more than the level of %g allows", n.FalseFlags, n.Comparisons, n.Level))
		e.ProvenHint = "`gemmaudit doctor` shows what disturbs this machine"
	}
	if len(test.Checks) > 0 && checked == 0 {
		e.Open = append(e.Open, rules.Ground{Text: "no kernel was compared with the reference: " + test.Checks[0].Skipped})
	}
	return e
}

// chooseGemms returns the kernels of a device by name, all without names. Neither attention nor
// softmax is among them.
func chooseGemms(d kernels.Device, names []string) ([]kernels.Gemm, error) {
	if len(names) == 0 {
		return d.Gemms(), nil
	}
	var out []kernels.Gemm
	for _, name := range names {
		if isAttention(name) || isSoftmax(name) || bringsSoftmax(d, name) {
			continue
		}
		g, err := kernels.FindGemm(d, name)
		if err != nil {
			return nil, planError(err)
		}
		out = append(out, g)
	}
	return out, nil
}

// outcome fills in what came of a kernel's checks. failure is what kept it from being checked.
func outcome(check *report.CheckStep, summary kernels.CheckSummary, err error) (failure error) {
	check.Cases, check.WorstRatio, check.Subnormals = summary.Passed, summary.Margin, summary.Subnormals
	if rows := summary.Rows; len(rows.Ms) > 0 {
		check.RowBits = &report.RowBits{Ms: rows.Ms, ByM: append([]int{}, rows.ByM...), Threads: rows.Threads, ByThreads: rows.ByThreads}
	}
	var wrong *kernels.CheckError
	var attention *kernels.AttentionError
	var softmax *kernels.SoftmaxError
	switch {
	case errors.As(err, &wrong), errors.As(err, &attention), errors.As(err, &softmax):
		check.Failure, check.Wrong = err.Error(), true
	case err != nil:
		check.Failure = err.Error()
		return err
	case summary.Passed == 0:
		check.Skipped = "no problem of the check is supported"
		if len(summary.Skipped) > 0 {
			check.Skipped = skipReason(summary.Skipped[0])
		}
	default:
		check.Passed = true
	}
	return nil
}

// knownFault describes the known fault of a library by which a check failed; empty where it did not, or where that is news.
func knownFault(d kernels.Device, kernel string, err error) string {
	var wrong *kernels.CheckError
	if !errors.As(err, &wrong) {
		return ""
	}
	f, _ := d.Spec().KnownFault(kernel, wrong.Problem.DType, wrong.Check)
	return f.Text
}

// skipReason is the reason of a refusal without the names that stand next to it.
func skipReason(err error) string {
	var unsupported *kernels.Unsupported
	if errors.As(err, &unsupported) {
		return unsupported.Reason
	}
	return err.Error()
}

// mostNoise is far above the pairs, and the rounds of each, that anybody waits for.
const mostNoise = 100_000

// noiseCase is the case of the noise floor: the shape in the first data type that
// a kernel supports, on the first such kernel. nil when there is none.
func (o *selftestOptions) noiseCase(d kernels.Device, shape kernels.Shape, dtypes []kernels.DType) (*results.Case, error) {
	gemms, err := chooseGemms(d, o.kernels)
	if err != nil {
		return nil, err
	}
	for _, dtype := range dtypes {
		i := slices.IndexFunc(gemms, func(g kernels.Gemm) bool {
			return g.Supports(kernels.Problem{Shape: shape, DType: dtype}) == nil
		})
		if i < 0 {
			continue
		}
		c := &results.Case{M: shape.M, SeriesKey: results.SeriesKey{
			Device: d.Spec().ID, Kernel: gemms[i].Name(), Subject: kernels.Product(dtype, shape.N, shape.K), Regime: results.Engine,
		}}
		if need, free := sweep.LeastMemory(d, *c); need > free {
			return nil, hint(usagef("--shape: %v needs at least %d bytes of memory, %s has %d left", c, need, c.Device, free),
				"a smaller shape, or --noise=false")
		}
		return c, nil
	}
	return nil, nil
}

// noiseFloor measures A/A pairs of a case.
func (o *selftestOptions) noiseFloor(ctx context.Context, d kernels.Device, c results.Case) (*report.Noise, error) {
	o.app.notef("noise floor: %d A/A pairs of %v", o.pairs, c)
	measurer, err := sweep.NewMeasurer(sweep.MeasureConfig{Devices: []kernels.Device{d}, BlockTarget: o.block, Observer: o.app.newMeter(), Now: o.app.now})
	if err != nil {
		return nil, err
	}
	floor, err := measurer.NoiseFloor(ctx, c, o.pairs, o.rounds, rules.Different)
	if err := errors.Join(err, measurer.Close()); err != nil {
		return nil, err
	}
	return &report.Noise{
		Cases: 1, Rounds: o.rounds, Spread: floor.Spread(),
		Comparisons: o.pairs, FalseFlags: floor.Flagged,
		Rate: rules.RateInterval(floor.Flagged, o.pairs), Level: rules.NoiseLevel,
	}, nil
}
