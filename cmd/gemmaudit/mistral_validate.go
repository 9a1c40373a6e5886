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
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/sweep"
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
	kept       *passRecord
}

// validationPrompt is what families compute when no prompt is given: prose, code,
// figures and other scripts.
const validationPrompt = "A matrix product is as fast as its slowest tile. for (int k = 0; k < K; k += 32) acc += a[k] * b[k]; 7 × 9 = 63. Où est la bibliothèque?"

func newValidateCommand(a *app) *cobra.Command {
	opts := &validateOptions{modelOptions: modelOptions{app: a}}
	cmd := &cobra.Command{
		Use:   "validate MODEL",
		Short: "Compare every kernel's logits with float64, and see where the time goes",
		Example: examples(
			"gemmaudit mistral validate ./Mistral-7B-v0.3",
			"gemmaudit mistral validate ./model --kernel auto,cublas --rows 4096 --context 4000",
			"gemmaudit mistral validate ./model --table gemm.json --kernel cublas   # does the table shorten prompts?",
			"gemmaudit mistral validate ./model --reference-tokens 0 -o json        # only times",
		),
		Long: `Every kernel of the device computes the same prompt. Its logits are compared with a
reference in float64, computed on the host from the stored weights by code that shares
nothing with the kernels; allowed is an error of 0.001 of the logits' range in fp32, 0.02 in
fp16 and bf16. The reference of a model of 7 billion parameters takes about ten seconds a
token and core: --reference-tokens bounds it. With --weights int4:128 and the like the reference
takes the numbers that the integers stand for, and its perplexity stands beside that of the
weights as they are stored, which takes as long again.

Then a prompt of --rows tokens and one token behind --context others are timed, whole and
part by part over all layers, with MFU and the rate at which weights are read.

With --table, prompts of sizes at which the table changes a product of the kernel are timed
with it and without, interleaved; each gain has a 95 % interval of its own. Of more than 16
sizes half are those that promise most, the rest spread over the others.

A kernel that would take minutes to time is left out of the times unless it is named.

-o csv is one table of everything, -o jsonl a line for each: "record" says whether it is the
model, a family, a pass (in CSV a row for each part of it) or a prompt with the table and
without.

--out keeps every sample in a run file, as a sweep does: prompts and tokens are operations of
their own, and the phase says which part of a pass was timed. Prompts that a table changes are
those of the kernel "NAME+table", in the phase remedy, as those without are. Where weights are
integers, their format is behind the kernel's name: "auto+int4:128".` + exitHelp(
			"0  every kernel is within the bound",
			"1  a kernel's result is wrong",
			"4  no kernel runs the model in this type",
			"3  the device or a library failed"),
		Args: exactArgs("MODEL"),
		RunE: func(cmd *cobra.Command, args []string) error { return opts.run(cmd.Context(), args[0]) },
	}
	opts.flags(cmd, true)
	opts.outFlag(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&opts.families, "kernel", nil, "only these kernels, or the path of a --kernel-file (default: all of the device)")
	flags.StringVarP(&opts.prompt, "prompt", "p", "", "text to compute (default: a line of prose, code and other scripts)")
	flags.StringVar(&opts.promptFile, "prompt-file", "", "a file with the text to compute")
	flags.IntVar(&opts.reference, "reference-tokens", 32, "tokens of the text that are compared with float64, 0 for none")
	flags.IntVar(&opts.rows, "rows", 512, "tokens of the prompt that is timed, 0 for none")
	flags.IntVar(&opts.context, "context", 512, "tokens before the one that is timed")
	flags.IntVar(&opts.rounds, "rounds", 9, "samples of each time; the interval of a gain takes 6")
	flags.IntSliceVar(&opts.batches, "batches", nil, "prompt sizes at which the table is tried (default: those it has proofs for)")
	outputFlag(cmd, &opts.output)
	complete(cmd, "kernel", listOf(a.kernelNames))
	complete(cmd, "prompt-file", nil)
	for _, free := range []string{"prompt", "reference-tokens", "rows", "context", "rounds", "batches"} {
		complete(cmd, free, cobra.NoFileCompletions)
	}
	return cmd
}

// The errors of logits that are allowed, relative to the range of the reference's.
const (
	boundFP32   = 1e-3
	boundHalves = 2e-2
)

func (o *validateOptions) run(ctx context.Context, dir string) (ended error) {
	a := o.app
	if err := holdsText("model validation", o.output); err != nil {
		return err
	}
	if err := within(counted{"reference-tokens", o.reference, 0}, counted{"rows", o.rows, 0},
		counted{"context", o.context, 1}, counted{"rounds", o.rounds, 1}); err != nil {
		return err
	}
	if o.reference == 1 {
		return usagef("--reference-tokens: 1, expected 0, or at least the 2 that a perplexity takes")
	}
	if o.table != "" && o.rounds < rules.LeastPairs {
		return usagef("--rounds: %d, expected at least %d for the interval of a table's gain", o.rounds, rules.LeastPairs)
	}
	if err := o.checkOut(); err != nil {
		return err
	}
	c, err := o.open(dir)
	if err != nil {
		return err
	}
	defer c.Close()
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
	defer func() { ended = errors.Join(ended, o.kept.close(err)) }()
	v := &report.ModelValidation{Kernels: []report.KernelCheck{}, Passes: []report.PassProfile{},
		ValidatedModel: report.ValidatedModel{Model: l.name, Device: l.device.Spec().ID, Name: l.device.Spec().Name, DType: l.DType(), Weights: l.heldAs(),
			Threads: l.threads(), Tokens: len(tokens), Bound: boundHalves}}
	if l.DType() == kernels.FP32 {
		v.Bound = boundFP32
	}
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
	return a.conclude(validationEvidence(v))
}

// familiesOf are the kernels that are named, all of the device when none is.
func familiesOf(d kernels.Device, named []string) ([]string, error) {
	for _, name := range named {
		if err := knownKernel(d, name); err != nil {
			return nil, err
		}
	}
	if len(named) > 0 {
		return named, nil
	}
	for _, g := range d.Gemms() {
		named = append(named, g.Name())
	}
	return named, nil
}

// measure fills in the validation; on an error it holds what was done before.
func (o *validateOptions) measure(ctx context.Context, l *loaded, families []string, tokens []int32, ceilings kernels.Ceilings, v *report.ModelValidation) error {
	var reference [][]float64
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
			v.FullPrecision = referencePerplexity(stored, tokens)
		}
		if v.Reference = referencePerplexity(reference, tokens); math.IsNaN(v.Reference) || math.IsInf(v.Reference, 0) {
			return usagef("%s: in float64, too, logits are not numbers: a weight is NaN, infinite or too large", l.name)
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
		o.app.warnf("%s changes no prompt of %s in %s with the kernels that were tried", o.table, l.name, l.DType())
	}
	return nil
}

// validationEvidence is what the exit code follows from.
func validationEvidence(v *report.ModelValidation) rules.Evidence {
	failed, ran := 0, 0
	for _, f := range v.Kernels {
		if f.Skipped == "" {
			ran++
			if !f.Passed {
				failed++
			}
		}
	}
	var e rules.Evidence
	if failed > 0 {
		e.Proven = append(e.Proven, plural(failed, "kernel computes", "kernels compute")+" wrong logits")
	}
	if ran == 0 {
		e.Open = append(e.Open, rules.Ground{Text: fmt.Sprintf("no kernel ran the model in %s", v.DType)})
	}
	return e
}

// timingBudget is for how long passes of a kernel that was not asked for by name are timed.
const timingBudget = 3 * time.Minute

// checkKernel runs one kernel over the prompt and times its passes.
func (o *validateOptions) checkKernel(ctx context.Context, l *loaded, name string, tokens []int32, reference [][]float64, ceilings kernels.Ceilings, v *report.ModelValidation) error {
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
	if err := compareLogits(ctx, s, l.Config().Vocab, tokens, reference, v.Bound, &check); err != nil {
		return skip(err)
	}
	// A part alone and the whole: each round runs a pass twice.
	expected := time.Since(start) / time.Duration(len(tokens)) * time.Duration(2*(o.rounds+1)*o.rows)
	if len(o.families) == 0 && expected > timingBudget {
		check.Untimed = fmt.Sprintf("timing it would take about %s: --kernel %s does", report.Duration(expected), name)
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

// passSeed is the seed of the orders in which the decoder's measurements take turns.
const passSeed = 1

// timePass times a pass, the first of timings, and its parts in rounds, each in an order of
// its own as a sweep's, after one in the order given that does not count.
func (o *validateOptions) timePass(ctx context.Context, kernel string, timings []mistral.Timing) (report.PassTimes, error) {
	seconds := make([][]float64, len(timings))
	for i := range timings {
		if _, err := timings[i].Run(ctx); err != nil {
			return report.PassTimes{}, err
		}
	}
	for round := range o.rounds {
		for _, i := range sweep.RoundOrder(passSeed, round, len(timings), nil) {
			o.kept.begin()
			span, err := timings[i].Run(ctx)
			if err != nil {
				return report.PassTimes{}, err
			}
			if err := o.kept.keepTiming(kernel, timings[i], round, span); err != nil {
				return report.PassTimes{}, err
			}
			seconds[i] = append(seconds[i], span.Seconds)
		}
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

// compareLogits fills in what a kernel made of the prompt.
func compareLogits(ctx context.Context, s *mistral.Session, vocab int, tokens []int32, reference [][]float64, bound float64, check *report.KernelCheck) error {
	loss, squares, same, count := 0., 0., 0, 0
	low, high := math.Inf(1), math.Inf(-1)
	for _, row := range reference {
		low, high = math.Min(low, slices.Min(row)), math.Max(high, slices.Max(row))
	}
	span := high - low
	if span == 0 {
		span = 1 // all logits are the same
	}
	err := s.All(ctx, tokens, func(first int, logits []float32) error {
		for i := range len(logits) / vocab {
			row, at := logits[i*vocab:(i+1)*vocab], first+i
			for _, x := range row {
				if x-x != 0 {
					check.NotFinite++
				}
			}
			if at+1 < len(tokens) {
				loss += mistral.NegativeLogLikelihood(row, tokens[at+1])
			}
			if reference == nil {
				continue
			}
			want := reference[at]
			best := 0
			for j, x := range want {
				if d := math.Abs(float64(row[j])-x) / span; d < math.Inf(1) {
					check.Error = max(check.Error, d)
					squares += d * d
					count++
				}
				if x > want[best] {
					best = j
				}
			}
			if mistral.Likeliest(row) == int32(best) {
				same++
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	check.Passed = check.NotFinite == 0 && check.Error <= bound
	if check.NotFinite == 0 {
		check.Perplexity = math.Exp(loss / float64(len(tokens)-1))
	}
	if count > 0 {
		check.RMS = math.Sqrt(squares / float64(count))
		check.Agreement = float64(same) / float64(len(tokens))
	}
	return nil
}

// referencePerplexity is that of the float64 logits.
func referencePerplexity(logits [][]float64, tokens []int32) float64 {
	loss := 0.
	for i, row := range logits[:len(tokens)-1] {
		loss += mistral.NegativeLogLikelihood(row, tokens[i+1])
	}
	return math.Exp(loss / float64(len(tokens)-1))
}
