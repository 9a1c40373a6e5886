package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/mistral"
	"github.com/gemmaudit/gemmaudit/kernels/mistral/checkpoint"
	"github.com/gemmaudit/gemmaudit/kernels/mistral/tokenizer"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
)

// newMistralCommand assembles the commands that run a model.
func newMistralCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mistral",
		Short: "Generate with a Mistral or Llama model on the audited kernels",
		Example: examples(
			"gemmaudit mistral generate ./Mistral-7B-v0.3 --prompt 'The capital of France is'",
			"gemmaudit mistral bench ./Mistral-7B-v0.3              # tokens a second and what bounds them",
			"gemmaudit mistral bench ./Mistral-7B-v0.3 --weights int4:128",
			"gemmaudit mistral validate ./Mistral-7B-v0.3 --table gemm.json",
			"gemmaudit mistral perplexity ./Mistral-7B-v0.3 book.txt --kernel cublas",
		),
		Long: `Loads a model as Hugging Face stores it (a folder with config.json, tokenizer.json and
safetensors) and runs it with the very kernels that an audit times, on a GPU or a CPU, so
that a verdict on a product can be followed to the tokens a second that it costs.

Mistral v0.1 to v0.3 and Llama 2 and 3 are understood by their config.json; anything
unknown in it is an error, not a guess. Weights come in fp32, fp16 or bf16 and
run in any of the three. Weights of 4 or 8 bits are read as GPTQ, AWQ (gemm) and
compressed-tensors (pack-quantized) store them, in groups or whole rows, with zero points
or without, but not in act-order. They keep their codes where the kernel takes them so;
scales keep their type where it does, and are else rounded to that of the activations.
Where it takes no such weights, and with --weights plain, they run as the numbers that
they stand for.

--weights int4:128 rounds the weights of all projections to the nearest integers while it
loads them, in groups of 128, but keeps codes that are stored. The embedding and norms stay
plain, and so does lm_head unless the checkpoint has it as integers.

Tokenizers are tokenizer.json with BPE over characters, as Llama 2 and Mistral v0.1 to v0.3
have it, or over bytes, as Llama 3, Qwen 2 and GPT-2 have it, and where that file is
missing tekken.json, as Mistral Nemo and Small have it. Special tokens that are spelt out
in a prompt count as such with tokenizer.json, as text with tekken.json.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(newGenerateCommand(a), newDecodeBenchCommand(a), newPerplexityCommand(a), newValidateCommand(a))
	return cmd
}

// modelOptions are the flags of all commands that load a model.
type modelOptions struct {
	app   *app
	dtype string
	// weights is how those of products are held, empty for as they are stored.
	weights string
	kernel  string
	table   string
	window  int
	batch   int
	out     string // of those commands that measure
	// threads of a CPU, 0 for all.
	threads int
}

func (o *modelOptions) flags(cmd *cobra.Command, families bool) {
	flags := cmd.Flags()
	flags.StringVar(&o.dtype, "dtype", "", "type of weights and activations: fp32, fp16, bf16 (default: the model's)")
	if !families {
		flags.StringVar(&o.kernel, "kernel", "auto", "`name` of the kernel of all products, as gemmaudit devices lists them, or the path of a --kernel-file")
		complete(cmd, "kernel", o.app.completeKernels(o.app.kernelNames))
	}
	flags.StringVar(&o.weights, "weights", "", "`format` of the products' weights: plain, or as in int4:128, int8:column and int4:64:zero (default: as they are stored)")
	complete(cmd, "weights", fixed("plain", "int4:128", "int4:64", "int4:32", "int4:column", "int4:128:zero", "int8:128", "int8:column"))
	broughtFlags(o.app, cmd)
	flags.StringVar(&o.table, "table", "", "lookup table in JSON: products of prompts are split, padded or swapped as it says")
	flags.IntVar(&o.window, "window", 0, "tokens that a token sees, itself included (default: the model's)")
	flags.IntVar(&o.batch, "batch", mistral.DefaultBatch, "most tokens of a prompt in one pass")
	flags.IntVar(&o.threads, "threads", 0, "threads of a CPU, 0 for one a core; bandwidth and peaks are measured with the same number")
	complete(cmd, "dtype", fixed("fp32", "fp16", "bf16"))
	complete(cmd, "table", filesWith("json"))
	for _, free := range []string{"window", "batch", "threads"} {
		complete(cmd, free, cobra.NoFileCompletions)
	}
}

// loaded is a model on a device, ready for sessions.
type loaded struct {
	*mistral.Model
	name     string
	device   kernels.Device
	from     *checkpoint.Checkpoint
	table    *table.Table
	sessions mistral.SessionOptions
	own      bool // the device was opened for this model
}

// threads is how many threads of a CPU the model runs on, 0 elsewhere.
func (l *loaded) threads() int {
	if cpu, ok := l.device.(kernels.Threaded); ok {
		return cpu.Threads()
	}
	return 0
}

// heldAs is how the products' weights are held, empty for plain ones.
func (l *loaded) heldAs() string {
	if w := l.Weights(); w.Bits > 0 {
		return w.String()
	}
	return ""
}

// Close releases the weights, and the device where it was opened for them.
func (l *loaded) Close() error {
	var errs []error
	if l.Model != nil {
		errs = append(errs, l.Model.Close())
	}
	if l.own {
		errs = append(errs, l.device.Close())
	}
	return errors.Join(errs...)
}

// badModel makes what is wrong with a model's files an error of the command line; what
// the system or a device did stays one of those.
func badModel(err error) error {
	var bad *checkpoint.Error
	var large *mistral.TooLarge
	var overflow *mistral.Overflow
	var format *mistral.FormatError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &large):
		return hint(&commandError{code: exitDevice, err: err}, "a type of fewer bytes, fewer tokens, or another --device")
	case errors.As(err, &bad), errors.As(err, &overflow), errors.As(err, &format):
		return usage(err)
	}
	return err
}

// counted is a flag's number of something, with the least that it may be.
type counted struct {
	flag         string
	value, least int
}

// mostCounted bounds all of them: positions are int32 on devices, also the sum of two.
const mostCounted = 1 << 30

// within refuses the first number that is out of bounds.
func within(numbers ...counted) error {
	for _, n := range numbers {
		if n.value < n.least {
			return usagef("--%s: %d, expected at least %d", n.flag, n.value, n.least)
		}
		if n.value > mostCounted {
			return usagef("--%s: %d, expected at most %d", n.flag, n.value, mostCounted)
		}
	}
	return nil
}

// holdsText refuses the format of timings before anything is measured for it.
func holdsText(subject string, f report.Format) error {
	if f != report.Bench {
		return nil
	}
	return usage(&report.UnsupportedFormat{Format: f, Subject: subject, Reason: "it holds no timings"})
}

// open reads the model's files, but not its weights.
func (o *modelOptions) open(dir string) (*checkpoint.Checkpoint, error) {
	if err := within(counted{"window", o.window, 0}, counted{"batch", o.batch, 1}, counted{"threads", o.threads, 0}); err != nil {
		return nil, err
	}
	c, err := checkpoint.Open(dir)
	return c, badModel(err)
}

// openWords reads the tokenizer that lies next to a model: tokenizer.json, or tekken.json
// where there is none. A tokenizer with more tokens than the model has is refused.
func openWords(dir string, c *checkpoint.Checkpoint) (*tokenizer.Tokenizer, error) {
	for _, name := range []string{"tokenizer.json", "tekken.json"} {
		path := filepath.Join(dir, name)
		t, err := tokenizer.Open(path)
		switch vocab := c.Config().Vocab; {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, usage(err)
		case t.Vocab() > vocab:
			return nil, hint(usagef("%s: %d tokens, the model's vocabulary has %d", path, t.Vocab(), vocab),
				"a model may have more tokens than its tokenizer, not fewer: this is another model's")
		}
		return t, nil
	}
	return nil, hint(usagef("%s is missing, and so is tekken.json", filepath.Join(dir, "tokenizer.json")),
		"a model's folder, as Hugging Face stores it, has one of them next to config.json")
}

// load brings the weights to the selected device. positions is how many tokens sessions
// will see; keepRaw lets other kernels be used later.
func (o *modelOptions) load(ctx context.Context, dir string, c *checkpoint.Checkpoint, positions int, keepRaw bool) (_ *loaded, err error) {
	a := o.app
	l := &loaded{name: filepath.Base(filepath.Clean(dir)), from: c,
		sessions: mistral.SessionOptions{Positions: positions, Window: o.window, Batch: o.batch}}
	options := mistral.Options{Kernel: o.kernel, KeepRaw: keepRaw}
	if o.dtype != "" {
		d, err := kernels.ParseDType(o.dtype)
		if err != nil {
			return nil, usagef("--dtype: %w", err)
		}
		switch d {
		case kernels.FP32, kernels.FP16, kernels.BF16:
		default:
			return nil, usagef("--dtype: %s, expected fp32, fp16 or bf16", d)
		}
		options.DType = d
	}
	if o.weights != "" {
		q, err := kernels.ParseQuantisation(o.weights)
		if err != nil {
			return nil, usagef("--weights: %w", err)
		}
		options.Weights = &q
	}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	if o.table != "" {
		if l.table, err = readTable(o.table); err != nil {
			return nil, err
		}
		l.sessions.Table = l.table
		options.KeepRaw = options.KeepRaw || namesKernels(l.table)
	}
	if l.device, err = a.oneDevice(); err != nil {
		return nil, err
	}
	if options.Kernel, err = o.app.oneKernelNamed(l.device, o.kernel); err != nil {
		return nil, err
	}
	if o.threads > 0 {
		if l.device, err = onThreads(l.device, o.threads); err != nil {
			return nil, err
		}
		l.own = true
	}
	if err := knownKernel(l.device, options.Kernel); err != nil {
		return nil, err
	}
	if limit := c.Config().Context; positions > limit {
		a.notef("%d tokens are more than the model's context of %d, for which it was not made: each sees no more than the last of them", positions, limit)
	}
	if l.table != nil {
		a.tableConditions(l, o.table)
	}
	options.Session = l.sessions
	bar := a.newLoadMeter(l.name)
	options.Progress = bar.update
	start := time.Now()
	if l.Model, err = mistral.Load(ctx, l.device, c, options); err != nil {
		bar.close()
		return nil, badModel(err)
	}
	bar.close()
	held := ""
	if w := l.heldAs(); w != "" {
		held = " with weights " + w
	}
	a.notef("%s: %s in %s%s on %s in %s", l.name, report.Bytes(l.Model.Bytes()), l.DType(), held, l.device.Spec().ID, report.Duration(time.Since(start)))
	return l, nil
}

// onThreads is a CPU on so many threads.
func onThreads(d kernels.Device, threads int) (kernels.Device, error) {
	cpu, ok := d.(kernels.Threaded)
	if !ok {
		return nil, hint(usagef("--threads: %s (%s) has no threads to choose: expected a CPU", d.Spec().ID, d.Spec().Name), "leave it out, or give --device cpu")
	}
	fewer, err := cpu.WithThreads(threads)
	if err != nil && threads > cpu.Threads() {
		return nil, usagef("--threads: %w", err)
	}
	return fewer, err
}

// oneKernelNamed is the kernel that --kernel selects, see [app.kernelsNamed].
func (a *app) oneKernelNamed(d kernels.Device, name string) (string, error) {
	names, err := a.kernelsNamed([]kernels.Device{d}, []string{name})
	if err != nil {
		return "", err
	}
	if len(names) > 1 {
		return "", usagef("--kernel: %s is there in %d versions, expected one of %s", name, len(names), strings.Join(names, ", "))
	}
	return names[0], nil
}

// knownKernel refuses a kernel that a device does not have.
func knownKernel(d kernels.Device, name string) error {
	if _, err := kernels.FindGemm(d, name); err != nil {
		return hint(usagef("--kernel: %w", err), "`gemmaudit devices` lists the kernels of each device")
	}
	return nil
}

// tableConditions warns where a table was measured under other conditions.
func (a *app) tableConditions(l *loaded, path string) {
	here := conditionsHere(l.device, l.table)
	here.Threads = l.threads()
	differences := rules.CompareValidators(l.table.Validators, here)
	if len(differences) == 0 {
		return
	}
	var words []string
	for _, f := range differences {
		words = append(words, fmt.Sprintf("%s %q, here %q", f.Name, f.A, f.B))
	}
	a.warnf("%s was measured under other conditions: %s", path, strings.Join(words, "; "))
}

// namesKernels says whether a table has another kernel for some product.
func namesKernels(t *table.Table) bool {
	for _, s := range t.Series {
		if s.Default.Kind == table.Kernel {
			return true
		}
		for _, i := range s.Intervals {
			if i.Action.Kind == table.Kernel || i.Action.Kind == table.Algorithm {
				return true
			}
		}
	}
	return false
}

// loadMeter shows how much of a model is on its device.
type loadMeter struct {
	app   *app
	name  string
	live  bool
	shown time.Time
	drawn bool
}

func (a *app) newLoadMeter(name string) *loadMeter {
	return &loadMeter{app: a, name: name, live: a.stream(a.stderr).Style.Live, shown: a.now()}
}

// update shows a state at most once a second on a terminal, every ten seconds elsewhere.
func (m *loadMeter) update(done, total int64) {
	every := 10 * time.Second
	if m.live {
		every = time.Second
	}
	now := m.app.now()
	if m.app.quiet || now.Sub(m.shown) < every {
		return
	}
	m.shown = now
	text := fmt.Sprintf("%s: %s of %s loaded (%d %%)", m.name, report.Bytes(done), report.Bytes(total), 100*done/max(total, 1))
	if m.live {
		fmt.Fprintf(m.app.stderr, "\r\x1b[K%s", oneLine(text))
		m.drawn = true
		return
	}
	fmt.Fprintln(m.app.stderr, oneLine(text))
}

func (m *loadMeter) close() {
	if m.drawn {
		fmt.Fprint(m.app.stderr, "\r\x1b[K")
	}
}
