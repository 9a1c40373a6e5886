package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/mistral"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/rules/stats"
	"github.com/gemmaudit/gemmaudit/sweep/passes"
)

type validateOptions struct {
	modelOptions
	families   []string
	prompt     string
	promptFile string
	reference  int
	rows       int
	context    int
	rounds     int
	batches    []int
	output     report.Format
	kept       *passes.Record
}

// validationPrompt is the default prompt: prose, code, digits and other scripts.
const validationPrompt = "A matrix product is as fast as its slowest tile. for (int k = 0; k < K; k += 32) acc += a[k] * b[k]; 7 × 9 = " +
	"63. Où est la bibliothèque?"

func newValidateCommand(a *app) *cobra.Command {
	opts := &validateOptions{modelOptions: modelOptions{app: a}}
	cmd := modelCommand("validate", opts.run)
	opts.flags(cmd, true)
	opts.outFlag(cmd)
	flags := cmd.Flags()
	addFlag(cmd, &opts.families, "kernel", nil, "only these kernels, or the path of your own (default: all of the device)",
		listOf(a.kernelNames))
	flags.StringVarP(&opts.prompt, "prompt", "p", "", "prompt (default: a line of prose, code and other scripts)")
	addFlag(cmd, &opts.promptFile, "prompt-file", "", "file with the prompt", workloadFiles)
	flags.IntVar(&opts.reference, "reference-tokens", 32, "tokens to compare with float64, 0 for none")
	flags.IntVar(&opts.rows, "rows", 512, "tokens of the timed prompt, 0 for none")
	flags.IntVar(&opts.context, "context", 512, "tokens before the timed one")
	flags.IntVar(&opts.rounds, "rounds", 9, "samples of each time, at least 6 for the interval of a gain")
	flags.IntSliceVar(&opts.batches, "batches", nil, "prompt sizes for --table (default: the sizes of its proofs)")
	outputFlag(cmd, &opts.output)
	return cmd
}

func (o *validateOptions) run(ctx context.Context, dir string) (ended error) {
	a := o.app
	if err := holdsText("model validation", o.output); err != nil {
		return err
	}
	if err := within(mostCounted, counted{"reference-tokens", o.reference, 0}, counted{"rows", o.rows, 0},
		counted{"context", o.context, 1}, counted{"rounds", o.rounds, 1}); err != nil {
		return err
	}
	if o.reference == 1 {
		return usagef("--reference-tokens: 1, expected 0 or at least 2")
	}
	if o.table != "" && o.rounds < stats.LeastPairs {
		return usagef("--rounds: %d, expected at least %d for the interval of a table's gain", o.rounds, stats.LeastPairs)
	}
	if err := o.checkOut(); err != nil {
		return err
	}
	c, err := o.open(dir)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := o.checkKept(c.Config()); err != nil {
		return err
	}
	words, err := openWords(dir, c)
	if err != nil {
		return err
	}
	if err := oneText(o.prompt, o.promptFile); err != nil {
		return err
	}
	text, err := a.readText(cmp.Or(o.prompt, validationPrompt), o.promptFile, o.promptFile == "")
	if err != nil {
		return err
	}
	tokens := words.Encode(text)
	if len(tokens) < 2 {
		return usagef("the prompt is %s long: expected at least 2", plural(len(tokens), "token", "tokens"))
	}
	if o.reference > 0 && len(tokens) > o.reference {
		tokens = tokens[:o.reference]
	}
	if err := o.checkBatches(c.Config().Context); err != nil {
		return err
	}
	positions := max(len(tokens), o.rows, o.context+2)
	if o.table != "" {
		positions = max(positions, min(c.Config().Context, o.batch), slices.Max(append(o.batches, 0)))
	}
	o.batch = max(o.batch, o.rows, slices.Max(append(o.batches, 0)))
	device, err := a.oneDevice()
	if err != nil {
		return err
	}
	if o.families, err = a.kernelsNamed([]kernels.Device{device}, o.families); err != nil {
		return err
	}
	families, err := familiesOf(device, o.families)
	if err != nil {
		return err
	}
	o.kernel = families[0]
	l, err := o.load(ctx, dir, c, positions, true)
	if err != nil {
		return err
	}
	defer l.Close()
	ceilings, err := l.device.Ceilings(ctx)
	if err != nil {
		return o.stopped(ctx, devicef("measure %s: %w", l.device.Spec().ID, err))
	}
	if o.kept, err = o.record(ctx, l); err != nil {
		return o.stopped(ctx, err)
	}
	defer func() { ended = errors.Join(ended, o.kept.Close(err)) }()
	v := &report.ModelValidation{Kernels: []report.KernelCheck{}, Passes: []report.PassProfile{},
		ValidatedModel: report.ValidatedModel{Model: l.name, Device: l.device.Spec().ID, Name: l.device.Spec().Name, DType: l.DType(),
			Weights: l.heldAs(),
			Threads: l.threads(), Tokens: len(tokens)}}
	v.Bound = mistral.LogitBound(l.DType())
	err = o.measure(ctx, l, families, tokens, ceilings, v)
	if err != nil && (ctx.Err() == nil || len(v.Kernels) == 0) {
		return o.stopped(ctx, err)
	}
	if err := a.wrapPrint(report.WriteModelValidation(a.stream(a.stdout), o.output, v)); err != nil {
		return err
	}
	if err != nil {
		return interruptedf("stopped after %s", plural(len(v.Kernels), "kernel", "kernels"))
	}
	return a.conclude(v.Evidence())
}

func familiesOf(d kernels.Device, named []string) ([]string, error) {
	for _, name := range named {
		if err := knownKernel(d, name); err != nil {
			return nil, err
		}
	}
	if len(named) > 0 {
		return named, nil
	}
	for _, g := range kernels.Products(d) {
		named = append(named, g.Name())
	}
	return named, nil
}

// measure fills in the validation; after an error it holds the results so far.
func (o *validateOptions) measure(ctx context.Context, l *loaded, families []string, tokens []int32, ceilings kernels.Ceilings,
	v *report.ModelValidation) error {
	var reference *mistral.Expected
	if o.reference > 0 {
		o.app.notef("computing %d tokens in float64", len(tokens))
		var err error
		if reference, err = l.Reference(ctx, l.from, tokens, o.window); err != nil {
			return err
		}
		if l.Rounded(l.from) {
			stored, err := mistral.Reference(ctx, l.from, tokens, o.window)
			if err != nil {
				return err
			}
			v.FullPrecision = mistral.ReferencePerplexity(stored.Logits, tokens)
		}
		if v.Reference = mistral.ReferencePerplexity(reference.Logits, tokens); math.IsNaN(v.Reference) || math.IsInf(v.Reference, 0) {
			return usagef("%s: logits are not finite in float64 either: a weight is NaN, infinite or too large", l.name)
		}
	}
	for _, name := range families {
		if err := o.checkKernel(ctx, l, name, tokens, reference, ceilings, v); err != nil {
			return err
		}
		if err := l.Release(name); err != nil {
			return err
		}
	}
	if l.table == nil {
		return nil
	}
	for _, name := range families {
		if err := errors.Join(o.prefills(ctx, l, name, v), l.Release(name)); err != nil {
			return err
		}
	}
	if len(v.Prefills) == 0 {
		o.app.warnf("%s changes no prompt of %s in %s with these kernels", o.table, l.name, l.DType())
	}
	return nil
}

// timingBudget limits the timing of a kernel that was not requested by name.
const timingBudget = 3 * time.Minute

func (o *validateOptions) checkKernel(ctx context.Context, l *loaded, name string, tokens []int32, reference *mistral.Expected,
	ceilings kernels.Ceilings, v *report.ModelValidation) error {
	a := o.app
	check := report.KernelCheck{Kernel: name, Passed: true}
	skip := func(err error) error {
		var unsupported *kernels.Unsupported
		if !errors.As(err, &unsupported) {
			return fmt.Errorf("kernel %s: %w", name, err)
		}
		check = report.KernelCheck{Kernel: name, Skipped: unsupported.Reason}
		v.Kernels = append(v.Kernels, check)
		return nil
	}
	if err := l.Use(name); err != nil {
		return skip(err)
	}
	options := l.sessions
	options.Table = nil
	s, err := l.NewSession(options)
	if err != nil {
		return skip(err)
	}
	defer s.Close()
	a.notef("kernel %s", name)
	start := time.Now()
	found, err := s.Compare(ctx, tokens, reference, v.Bound)
	if err != nil {
		return skip(err)
	}
	check.Passed, check.NotFinite, check.Perplexity = found.Passed, found.NotFinite, found.Perplexity
	check.Error, check.RMS, check.Agreement = found.Error, found.RMS, found.Agreement
	check.Choices, check.Rounded, check.Wrong = found.Choices, found.Rounded, found.Wrong
	// Each round runs a pass twice: in parts and as a whole.
	expected := time.Since(start) / time.Duration(len(tokens)) * time.Duration(2*(o.rounds+1)*o.rows)
	if len(o.families) == 0 && expected > timingBudget {
		check.Untimed = fmt.Sprintf("not timed, because it takes about %s; use --kernel %s", report.Duration(expected), name)
	}
	v.Kernels = append(v.Kernels, check)
	if o.rows == 0 || check.Untimed != "" {
		return nil
	}
	peak, _ := ceilings.Peak(l.DType())
	for _, ready := range []func() ([]mistral.Timing, error){
		func() ([]mistral.Timing, error) { return s.PromptTimings(min(o.rows, s.Batch())) },
		func() ([]mistral.Timing, error) { return s.TokenTimings(ctx, o.context) },
	} {
		timings, err := ready()
		if err != nil {
			return fmt.Errorf("kernel %s: %w", name, err)
		}
		times, err := o.timePass(ctx, name, timings)
		if err != nil {
			return fmt.Errorf("kernel %s: %w", name, err)
		}
		v.Passes = append(v.Passes, report.NewPassProfile(times, peak, ceilings.ReadBandwidth))
	}
	return nil
}

// timePass times a pass, the first of timings, and its parts.
func (o *validateOptions) timePass(ctx context.Context, kernel string, timings []mistral.Timing) (report.PassTimes, error) {
	seconds, err := o.kept.Time(ctx, kernel, timings, o.rounds)
	if err != nil {
		return report.PassTimes{}, err
	}
	whole := timings[0]
	out := report.PassTimes{Kernel: kernel, Rows: whole.Rows, Context: whole.Context, Seconds: seconds[0]}
	for i, t := range timings[1:] {
		out.Parts = append(out.Parts, report.PartTimes{
			Part: string(t.Part), Launches: t.Launches, Seconds: seconds[i+1], FLOPs: t.FLOPs, Bytes: t.Bytes,
		})
	}
	return out, nil
}
