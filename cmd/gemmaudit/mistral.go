package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/mistral"
	"github.com/gemmaudit/gemmaudit/kernels/mistral/checkpoint"
	"github.com/gemmaudit/gemmaudit/kernels/mistral/tokenizer"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
)

func newMistralCommand(a *app) *cobra.Command {
	return commandGroup("mistral", newGenerateCommand(a), newChatCommand(a), newDecodeBenchCommand(a),
		newPerplexityCommand(a), newValidateCommand(a))
}

type modelOptions struct {
	app   *app
	dtype string
	// weights is the weight format of the products, empty for the stored format.
	weights string
	kernel  string
	table   string
	window  int
	batch   int
	unfused bool   // decode without fused operations
	out     string // for commands that measure
	// threads is the number of CPU threads, 0 for all.
	threads int
	// shape is a model to fill with random weights, nil to read a checkpoint.
	shape *checkpoint.Config
}

func (o *modelOptions) flags(cmd *cobra.Command, families bool) {
	flags := cmd.Flags()
	addFlag(cmd, &o.dtype, "dtype", "", "type of weights and activations: fp32, fp16, bf16 (default: the model's)",
		fixed("fp32", "fp16", "bf16"))
	if !families {
		flags.StringVar(&o.kernel, "kernel", "auto",
			"`name` of the kernel for all products (see gemmaudit devices), or the path of your own")
		complete(cmd, "kernel", o.app.completeKernels(o.app.kernelNames))
	}
	addFlag(cmd, &o.weights, "weights", "", "weight `format`: plain, int4:128, int8:column, int4:64:zero (default: as stored)",
		fixed("plain", "int4:128", "int4:64", "int4:32", "int4:column", "int4:128:zero", "int8:128", "int8:column"))
	broughtFlags(o.app, cmd)
	addFlag(cmd, &o.table, "table", "", "apply a JSON lookup table to the products of prompts", filesWith("json"))
	flags.IntVar(&o.window, "window", 0, "attention window in tokens (default: the model's)")
	flags.IntVar(&o.batch, "batch", mistral.DefaultBatch, "maximum tokens of a prompt in one pass")
	flags.IntVar(&o.threads, "threads", 0, threadsUsage)
}

// modelCommand is a command on the model in a folder.
func modelCommand(name string, run func(ctx context.Context, dir string) error) *cobra.Command {
	return &cobra.Command{
		Use:  name + " MODEL",
		Args: exactArgs("MODEL"),
		RunE: func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), args[0]) },
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
	session  *mistral.Session
}

func (l *loaded) threads() int {
	if cpu, ok := l.device.(kernels.Threaded); ok {
		return cpu.Threads()
	}
	return 0
}

func (l *loaded) heldAs() string {
	if w := l.Weights(); w.Bits > 0 {
		return w.String()
	}
	return ""
}

func (l *loaded) Close() error {
	var errs []error
	if l.session != nil {
		errs = append(errs, l.session.Close())
	}
	if l.Model != nil {
		errs = append(errs, l.Model.Close())
	}
	if l.own {
		errs = append(errs, l.device.Close())
	}
	return errors.Join(errs...)
}

// badModel marks errors in a model's files as errors of the command line; system and device errors stay as
// they are.
func badModel(err error) error {
	var bad *checkpoint.Error
	var large *mistral.TooLarge
	var overflow *mistral.Overflow
	var format *mistral.FormatError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &large):
		return hint(&commandError{code: exitDevice, err: err}, "use a smaller type, fewer tokens, or another --device")
	case errors.As(err, &bad), errors.As(err, &overflow), errors.As(err, &format):
		return usage(err)
	}
	return err
}

// counted is the value of a numeric flag, with its minimum.
type counted struct {
	flag         string
	value, least int
}

// mostCounted limits numeric flags: positions are int32 on devices, also the sum of two.
const mostCounted = 1 << 30

func within(most int, numbers ...counted) error {
	for _, n := range numbers {
		if n.value < n.least {
			return usagef("--%s: %d, expected at least %d", n.flag, n.value, n.least)
		}
		if n.value > most {
			return usagef("--%s: %d, expected at most %d", n.flag, n.value, most)
		}
	}
	return nil
}

// holdsText rejects the timings format before measuring.
func holdsText(subject string, f report.Format) error {
	if f != report.Bench {
		return nil
	}
	return usage(&report.UnsupportedFormat{Format: f, Subject: subject, Reason: "it has no timings"})
}

func (o *modelOptions) inRange() error {
	return within(mostCounted, counted{"window", o.window, 0}, counted{"batch", o.batch, 1}, counted{"threads", o.threads, 0})
}

func (o *modelOptions) open(dir string) (*checkpoint.Checkpoint, error) {
	if err := o.inRange(); err != nil {
		return nil, err
	}
	c, err := checkpoint.Open(dir)
	return c, badModel(err)
}

// openWords reads the tokenizer next to a model: tokenizer.json, else tekken.json. It rejects a tokenizer
// with more tokens than the model.
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
			return nil, hint(usagef("%s: %d tokens, but the model's vocabulary has %d", path, t.Vocab(), vocab),
				"the tokenizer belongs to another model")
		}
		return t, nil
	}
	return nil, hint(usagef("%s is missing, and so is tekken.json", filepath.Join(dir, "tokenizer.json")),
		"a Hugging Face model folder has one of them next to config.json")
}

// load loads the weights onto the selected device. positions is the number of tokens that sessions will see.
// keepRaw keeps the stored weights, for use by other kernels.
// c is nil for a shape of random weights.
func (o *modelOptions) load(ctx context.Context, dir string, c *checkpoint.Checkpoint, positions int, keepRaw bool) (_ *loaded, err error) {
	a := o.app
	var config checkpoint.Config
	if o.shape != nil {
		config = *o.shape
	} else {
		config = c.Config()
	}
	l := &loaded{name: filepath.Base(filepath.Clean(dir)), from: c,
		sessions: mistral.SessionOptions{Positions: positions, Window: o.window, Batch: o.batch, Unfused: o.unfused}}
	options := mistral.Options{Kernel: o.kernel, KeepRaw: keepRaw}
	options.DType = parsed(&err, "dtype", o.dtype, kernels.ParseDType)
	if !slices.Contains([]kernels.DType{"", kernels.FP32, kernels.FP16, kernels.BF16}, options.DType) {
		return nil, usagef("--dtype: %s, expected fp32, fp16 or bf16", options.DType)
	}
	if weights := parsed(&err, "weights", o.weights, kernels.ParseWeights); o.weights != "" {
		options.Weights = &weights
	}
	if err != nil {
		return nil, err
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
	if limit := config.Context; positions > limit {
		a.notef("%d tokens exceed the model's context of %d; each token sees only the last ones", positions, limit)
	}
	if l.table != nil {
		a.tableConditions(l, o.table)
	}
	options.Session = l.sessions
	bar := a.newLoadMeter(l.name)
	options.Progress = bar.update
	start := time.Now()
	if o.shape != nil {
		l.Model, err = mistral.Random(ctx, l.device, config, options)
	} else {
		l.Model, err = mistral.Load(ctx, l.device, c, options)
	}
	if err != nil {
		bar.close()
		return nil, badModel(err)
	}
	bar.close()
	held := ""
	if w := l.heldAs(); w != "" {
		held = " with weights " + w
	}
	a.notef("%s: %s in %s%s on %s in %s", l.name, report.Bytes(l.Model.Bytes()), l.DType(), held, l.device.Spec().ID,
		report.Duration(time.Since(start)))
	return l, nil
}

// start loads the weights and makes a session of positions tokens, which closes with the model.
func (o *modelOptions) start(ctx context.Context, dir string, c *checkpoint.Checkpoint, positions int) (*loaded, *mistral.Session, error) {
	l, err := o.load(ctx, dir, c, positions, false)
	if err != nil {
		return nil, nil, err
	}
	if l.session, err = l.NewSession(l.sessions); err != nil {
		return nil, nil, errors.Join(badModel(err), l.Close())
	}
	return l, l.session, nil
}

func onThreads(d kernels.Device, threads int) (kernels.Device, error) {
	cpu, ok := d.(kernels.Threaded)
	if !ok {
		return nil, hint(usagef("--threads: %s (%s) is not a CPU", d.Spec().ID, d.Spec().Name), "omit it, or use --device cpu")
	}
	fewer, err := cpu.WithThreads(threads)
	if err != nil && threads > cpu.Threads() {
		return nil, usagef("--threads: %w", err)
	}
	return fewer, err
}

func (a *app) oneKernelNamed(d kernels.Device, name string) (string, error) {
	names, err := a.kernelsNamed([]kernels.Device{d}, []string{name})
	if err != nil {
		return "", err
	}
	if len(names) > 1 {
		return "", usagef("--kernel: %s has %d versions, expected one of %s", name, len(names), strings.Join(names, ", "))
	}
	return names[0], nil
}

func knownKernel(d kernels.Device, name string) error {
	if _, err := kernels.FindProduct(d, name); err != nil {
		return hint(usagef("--kernel: %w", err), "`gemmaudit devices` lists the kernels of each device")
	}
	return nil
}

func (a *app) tableConditions(l *loaded, path string) {
	here := conditionsHere(l.device, l.table)
	here.Threads = l.threads()
	differences := remedy.CompareValidators(l.table.Validators, here)
	if len(differences) == 0 {
		return
	}
	var words []string
	for _, f := range differences {
		words = append(words, fmt.Sprintf("%s %q, here %q", f.Name, f.A, f.B))
	}
	a.warnf("%s was measured under different conditions: %s", path, strings.Join(words, "; "))
}

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

// update prints at most once a second on a terminal, every ten seconds elsewhere.
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
