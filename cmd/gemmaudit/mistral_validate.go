package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/mistral"
	"github.com/gemmaudit/gemmaudit/kernels/mistral/checkpoint"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
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
}

// validationPrompt is what families compute when no prompt is given: prose, code,
// figures and other scripts.
const validationPrompt = "A matrix product is as fast as its slowest tile. for (int k = 0; k < K; k += 32) acc += a[k] * b[k]; 7 × 9 = 63. Où est la bibliothèque?"

func newValidateCommand(a *app) *cobra.Command {
	opts := &validateOptions{modelOptions: modelOptions{app: a}}
	cmd := &cobra.Command{
		Use:   "validate MODEL",
		Short: "Hold a model's logits against float64, kernel by kernel, and see where the time goes",
		Example: examples(
			"gemmaudit mistral validate ./Mistral-7B-v0.3",
			"gemmaudit mistral validate ./model --kernel auto,cublas --rows 4096 --context 4000",
			"gemmaudit mistral validate ./model --table gemm.json --kernel cublas   # does the table shorten prompts?",
			"gemmaudit mistral validate ./model --reference-tokens 0 -o json        # times alone",
		),
		Long: `Every kernel family of the device computes the same prompt. Its logits are held against a
reference in float64, computed on the host from the stored weights by code that shares
nothing with the kernels; allowed is an error of 0.001 of the logits' range in fp32, 0.02 in
fp16 and bf16. The reference of a model of 7 billion parameters takes about ten seconds a
token and core: --reference-tokens bounds it.

Then a prompt of --rows tokens and one token behind --context others are timed, whole and
part by part over all layers, with MFU and the rate at which weights are read.

With --table, prompts of the sizes at which the table changes something are timed with it
and without, interleaved; the gain has a 95 % interval.` + exitHelp(
			"0  every family is within the bound",
			"1  a family computed something else",
			"3  the device or a library failed"),
		Args: exactArgs("MODEL"),
		RunE: func(cmd *cobra.Command, args []string) error { return opts.run(cmd.Context(), args[0]) },
	}
	opts.flags(cmd, true)
	flags := cmd.Flags()
	flags.StringSliceVar(&opts.families, "kernel", nil, "only these kernels (default: all of the device)")
	flags.StringVarP(&opts.prompt, "prompt", "p", "", "text to compute (default: a line of prose, code and other scripts)")
	flags.StringVar(&opts.promptFile, "prompt-file", "", "a file with the text to compute")
	flags.IntVar(&opts.reference, "reference-tokens", 32, "tokens of the text that are held against float64, 0 for none")
	flags.IntVar(&opts.rows, "rows", 512, "tokens of the prompt that is timed, 0 for none")
	flags.IntVar(&opts.context, "context", 512, "tokens before the one that is timed")
	flags.IntVar(&opts.rounds, "rounds", 9, "samples of each time")
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

func (o *validateOptions) run(ctx context.Context, dir string) error {
	a := o.app
	for _, n := range []struct {
		flag         string
		value, least int
	}{{"reference-tokens", o.reference, 0}, {"rows", o.rows, 0}, {"context", o.context, 1}, {"rounds", o.rounds, 1}} {
		if n.value < n.least {
			return usagef("--%s: %d, expected at least %d", n.flag, n.value, n.least)
		}
	}
	if o.table != "" && o.rounds < rules.LeastPairs {
		return usagef("--rounds: %d, expected at least %d for the interval of a table's gain", o.rounds, rules.LeastPairs)
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
	text, err := a.readText(cmp.Or(o.prompt, validationPrompt), o.promptFile, o.promptFile == "")
	if err != nil {
		return err
	}
	tokens, err := words.encode(text, true)
	if err != nil {
		return err
	}
	if o.reference > 0 && len(tokens) > o.reference {
		tokens = tokens[:o.reference]
	}
	if len(tokens) < 2 {
		return usagef("the prompt has %d tokens: expected at least 2", len(tokens))
	}
	batches, err := o.tableBatches(c.Config())
	if err != nil {
		return err
	}
	o.batch = max(o.batch, o.rows, slices.Max(append(batches, 0)))
	positions := max(len(tokens), o.rows, o.context+2, slices.Max(append(batches, 0)))
	o.kernel = "auto"
	if len(o.families) == 1 {
		o.kernel = o.families[0]
	}
	l, err := o.load(ctx, dir, c, positions, true)
	if err != nil {
		return err
	}
	defer l.Model.Close()
	ceilings, err := l.device.Ceilings(ctx)
	if err != nil {
		return devicef("measure %s: %w", l.device.Spec().ID, err)
	}
	v := &report.ModelValidation{Model: l.name, Device: l.device.Spec().ID, Name: l.device.Spec().Name, DType: l.DType(),
		Tokens: len(tokens), Bound: boundHalves, Families: []report.FamilyCheck{}, Passes: []report.PassProfile{}}
	if l.DType() == kernels.FP32 {
		v.Bound = boundFP32
	}
	var reference [][]float64
	if o.reference > 0 {
		a.notef("computing %d tokens in float64", len(tokens))
		if reference, err = mistral.Reference(ctx, c, tokens); err != nil {
			return badModel(err)
		}
		v.Reference = referencePerplexity(reference, tokens)
	}
	families := o.families
	if len(families) == 0 {
		for _, g := range l.device.Gemms() {
			families = append(families, g.Name())
		}
	}
	for _, name := range families {
		if err := o.family(ctx, l, name, tokens, reference, ceilings, v); err != nil {
			return badModel(err)
		}
	}
	if l.table != nil {
		if err := o.prefills(ctx, l, batches, families, v); err != nil {
			return badModel(err)
		}
	}
	if err := a.wrapPrint(report.WriteModelValidation(a.stream(a.stdout), o.output, v)); err != nil {
		return err
	}
	failed := 0
	for _, f := range v.Families {
		if f.Skipped == "" && !f.Passed {
			failed++
		}
	}
	if failed > 0 {
		return gatef("%s", plural(failed, "family computes something else", "families compute something else"))
	}
	return nil
}

// family runs one kernel family over the prompt and times its passes.
func (o *validateOptions) family(ctx context.Context, l *loaded, name string, tokens []int32, reference [][]float64, ceilings kernels.Ceilings, v *report.ModelValidation) error {
	a := o.app
	check := report.FamilyCheck{Kernel: name, Passed: true}
	skip := func(err error) error {
		var unsupported *kernels.Unsupported
		if !errors.As(err, &unsupported) {
			return fmt.Errorf("kernel %s: %w", name, err)
		}
		check.Skipped = unsupported.Reason
		v.Families = append(v.Families, check)
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
	if err := compareLogits(ctx, s, l.Config().Vocab, tokens, reference, v.Bound, &check); err != nil {
		return skip(err)
	}
	v.Families = append(v.Families, check)
	if o.rows == 0 {
		return nil
	}
	peak, _ := ceilings.Peak(l.DType())
	for _, profile := range []func() (*mistral.Profile, error){
		func() (*mistral.Profile, error) { return s.ProfilePrompt(ctx, o.rows, o.rounds) },
		func() (*mistral.Profile, error) { return s.ProfileToken(ctx, o.context, o.rounds) },
	} {
		p, err := profile()
		if err != nil {
			return fmt.Errorf("kernel %s: %w", name, err)
		}
		v.Passes = append(v.Passes, report.NewPassProfile(name, p, peak, ceilings.ReadBandwidth))
	}
	return nil
}

// compareLogits fills in what a family made of the prompt.
func compareLogits(ctx context.Context, s *mistral.Session, vocab int, tokens []int32, reference [][]float64, bound float64, check *report.FamilyCheck) error {
	loss, squares, same, count := 0., 0., 0, 0
	low, high := math.Inf(1), math.Inf(-1)
	for _, row := range reference {
		low, high = math.Min(low, slices.Min(row)), math.Max(high, slices.Max(row))
	}
	span := high - low
	err := s.All(ctx, tokens, func(first int, logits []float32) error {
		for i := range len(logits) / vocab {
			row, at := logits[i*vocab:(i+1)*vocab], first+i
			if at+1 < len(tokens) {
				loss += mistral.NegativeLogLikelihood(row, tokens[at+1])
			}
			if reference == nil {
				continue
			}
			want := reference[at]
			best := 0
			for j, x := range want {
				d := math.Abs(float64(row[j])-x) / span
				if !(d <= check.Error) { // NaN is the worst
					check.Error = d
				}
				squares += d * d
				if x > want[best] {
					best = j
				}
			}
			count += vocab
			if mistral.Likeliest(row) == int32(best) {
				same++
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	check.Perplexity = math.Exp(loss / float64(len(tokens)-1))
	if reference != nil {
		check.RMS = math.Sqrt(squares / float64(count))
		check.Agreement = float64(same) / float64(len(tokens))
		check.Passed = check.Error <= bound
	}
	return nil
}

// referencePerplexity is that of the float64 logits.
func referencePerplexity(logits [][]float64, tokens []int32) float64 {
	loss := 0.
	for i, row := range logits[:len(tokens)-1] {
		top := slices.Max(row)
		sum := 0.
		for _, x := range row {
			sum += math.Exp(x - top)
		}
		loss += top + math.Log(sum) - row[tokens[i+1]]
	}
	return math.Exp(loss / float64(len(tokens)-1))
}

// mostBatches is at how many sizes a table is tried when none are given.
const mostBatches = 12

// tableBatches are the prompt sizes at which the table is tried: those given, or those for
// which it has a proof for a product of the model.
func (o *validateOptions) tableBatches(c checkpoint.Config) ([]int, error) {
	for _, m := range o.batches {
		if m < 1 || m > c.Context {
			return nil, usagef("--batches: %d, expected 1 to the model's context of %d", m, c.Context)
		}
	}
	if o.table == "" || len(o.batches) > 0 {
		return o.batches, nil
	}
	t, err := readTable(o.table)
	if err != nil {
		return nil, err
	}
	shapes := [][2]int{
		{c.Heads.Width(), c.Hidden}, {c.Hidden, c.Heads.Query * c.Heads.Dim}, {2 * c.Inner, c.Hidden}, {c.Hidden, c.Inner},
	}
	var all []int
	for _, s := range t.Series {
		if !slices.Contains(shapes, [2]int{s.N, s.K}) {
			continue
		}
		for _, i := range s.Intervals {
			for _, p := range i.Proofs {
				if i.Action.Kind != table.Direct && p.M <= c.Context {
					all = append(all, p.M)
				}
			}
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) == 0 {
		o.app.warnf("%s changes no product of this model: its shapes are n%d k%d, n%d k%d, n%d k%d and n%d k%d", o.table,
			shapes[0][0], shapes[0][1], shapes[1][0], shapes[1][1], shapes[2][0], shapes[2][1], shapes[3][0], shapes[3][1])
	}
	// Spread over the table's range.
	var some []int
	for i := range min(len(all), mostBatches) {
		some = append(some, all[i*len(all)/min(len(all), mostBatches)])
	}
	return some, nil
}

// prefills times prompts with the table and without, a pair a round.
func (o *validateOptions) prefills(ctx context.Context, l *loaded, batches []int, families []string, v *report.ModelValidation) error {
	kernel := ""
	for _, f := range families {
		for _, s := range l.table.Series {
			if s.Kernel == f && s.DType == string(l.DType()) && kernel == "" {
				kernel = f
			}
		}
	}
	if kernel == "" || len(batches) == 0 {
		o.app.warnf("%s has nothing for %s in %s", o.table, l.name, l.DType())
		return nil
	}
	if err := l.Use(kernel); err != nil {
		return err
	}
	options := l.sessions
	options.Table = nil
	plain, err := l.NewSession(options)
	if err != nil {
		return err
	}
	defer plain.Close()
	with, err := l.NewSession(l.sessions)
	if err != nil {
		return err
	}
	defer with.Close()
	for _, m := range batches {
		g := report.TableGain{Rows: m, Kernel: kernel}
		g.Applied, g.Products = l.Applied(l.table, m)
		var direct, remedy []float64
		for round := range o.rounds + 1 {
			d, err := plain.TimePrompt(ctx, m)
			if err != nil {
				return err
			}
			r, err := with.TimePrompt(ctx, m)
			if err != nil {
				return err
			}
			if round > 0 { // the first loads code
				direct, remedy = append(direct, d), append(remedy, r)
			}
		}
		g.Gain = rules.Gain(direct, remedy)
		g.PlainUS, g.TableUS = 1e6*rules.Centre(direct).Mid, 1e6*rules.Centre(remedy).Mid
		v.Prefills = append(v.Prefills, g)
	}
	return nil
}
