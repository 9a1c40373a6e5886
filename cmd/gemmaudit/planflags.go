package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/importing"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// planFlags are the flags shared by `sweep` and `run` that define the measurements. options parses the
// values, so completion and help never fail on them.
type planFlags struct {
	set sweep.Options // by flags without a syntax of their own

	operations   []string
	shapes       []string
	shapesFrom   []string
	models       []string
	tp           []int
	layout       string
	weights      []string
	ep           int
	routings     []string
	epilogues    []string
	batches      string
	tokens       string
	dtypes       []string
	infer        bool
	regime       string
	distribution string
	roundsFor    string
	traffic      string
	shard        string

	library   string                 // that computed the shapesFrom products, if the file names it
	ofTargets string                 // the default preset if targets are given
	changed   func(flag string) bool // whether a flag is on the command line
	note      func(format string, args ...any)
}

// defaultPreset finishes in under two minutes.
const defaultPreset = "quick"

// The choices of --rounds-for.
const (
	roundsForOpen = "open"
	roundsForAll  = "all"
)

// planFlag declares one flag of a plan for sweep, run and choices, and its behavior under --resume.
type planFlag struct {
	name, help string
	// to returns the value's destination: a pointer to a string, a number, a duration, a bool or a list. def
	// is the default, if not zero.
	to  func(f *planFlags) any
	def any
	// resume is the behavior under --resume; empty for [fromPlan].
	resume resumption
	// timing means that the flag changes only the timing, not the kernels that run: choices omits it.
	timing bool
	// offers completes the value; it may be nil.
	offers func(a *app) completionFunc
}

func always(f completionFunc) func(*app) completionFunc {
	return func(*app) completionFunc { return f }
}

var declaredPlanFlags = []planFlag{
	{name: "preset", def: defaultPreset, to: func(f *planFlags) any { return &f.set.Preset },
		help: "defaults for flags you leave out: " + strings.Join(sweep.PresetNames(), ", "),
		offers: always(func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			var out []cobra.Completion
			for _, p := range sweep.Presets() {
				out = append(out, cobra.CompletionWithDesc(p.Name, p.Description))
			}
			return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		})},
	{name: "op", def: []string{kernels.Projections.Operation().String()}, to: func(f *planFlags) any { return &f.operations },
		help: "gemm, grouped, fused, attention[-prefill, -decode], [log-]softmax (repeatable)",
		offers: always(listOf(func() []string {
			names := []string{"attention"}
			for _, o := range sweep.Operations() {
				names = append(names, cobra.CompletionWithDesc(o.String(), o.Title()))
			}
			return names
		}))},
	{name: "shape", to: func(f *planFlags) any { return &f.shapes },
		help: "n4096k4096, m64n4096k4096 (fixes M), n4000:4352:8k64 (range), n64k64x8 (batched), n64k64g8 (experts), q32kv8d128 " +
			"(attention), c512q512 (softmax)",
		offers: always(completeShapes)},
	{name: "shapes-from", to: func(f *planFlags) any { return &f.shapesFrom },
		help:   "products of a workload, the 16384 most frequent: a trace, log or CSV (repeatable)",
		offers: always(workloadFiles)},
	{name: "neighbours", to: func(f *planFlags) any { return &f.set.Neighbours },
		help: "also measure the sizes that pads and splits of --shapes-from need"},
	{name: "model", to: func(f *planFlags) any { return &f.models },
		help:   "products of a model: name or config.json, :q_proj+o_proj for some (repeatable)",
		offers: always(completeModels)},
	{name: "tp", def: []int{1}, to: func(f *planFlags) any { return &f.tp },
		help:   "tensor-parallel ranks of --model; 1,2,4,8 measures the shapes of each",
		offers: always(fixed("1", "2", "4", "8", "1,2,4,8"))},
	{name: "ep", def: 1, to: func(f *planFlags) any { return &f.ep },
		help:   "expert-parallel ranks of --model: each holds that part of the experts, undivided by --tp",
		offers: always(fixed("1", "2", "4", "8"))},
	{name: "routing", def: []string{"skew:100"}, to: func(f *planFlags) any { return &f.routings },
		help: "rows of experts: even; skew:S (tokens draw experts, weights rank^-(S/100)); a CSV of m,group,rows (repeatable)",
		offers: always(listOf(func() []string {
			return []string{cobra.CompletionWithDesc("even", "equal numbers of rows"),
				cobra.CompletionWithDesc("skew:0", "each token draws experts with equal chances"),
				cobra.CompletionWithDesc("skew:100", "the expert of rank r is drawn 1/r as often as the first")}
		}))},
	{name: "epilogue", def: []string{kernels.Bias.String()}, to: func(f *planFlags) any { return &f.epilogues },
		help: "fused products: bias, relu, gelu, gelu-tanh, silu, gated, residual or bias+gelu (repeatable; implies --op fused), or " +
			"model: what the layers of --model do",
		offers: always(listOf(func() []string {
			words := []string{cobra.CompletionWithDesc(modelEpilogues, "what the layers of --model do")}
			for _, e := range kernels.Epilogues() {
				words = append(words, e.String())
			}
			return words
		}))},
	{name: "top-k", to: func(f *planFlags) any { return &f.set.TopK },
		help: "experts of a token, 0 for the model's or 2"},
	{name: "tokens", to: func(f *planFlags) any { return &f.tokens },
		help: "like --batch, but counts tokens: a grouped product has --top-k rows for each"},
	{name: "layout", def: kernels.Transposed.String(), to: func(f *planFlags) any { return &f.layout },
		help: "weight layout: nk ([N,K], as in engines) or kn ([K,N], as in torch.mm)",
		offers: always(fixed(
			cobra.CompletionWithDesc(kernels.Transposed.String(), "[N,K], as in a linear layer"),
			cobra.CompletionWithDesc(kernels.RowMajor.String(), "[K,N], as in torch.mm")))},
	{name: "weights", def: []string{"plain"}, to: func(f *planFlags) any { return &f.weights },
		help: "plain, or quantized: int4:128 (groups), int4:64:zero, int8:column, fp8:128x128 (blocks) (repeatable)",
		offers: always(fixed("plain", "int4:128", "int4:64", "int4:32", "int4:column", "int4:128:zero", "int8:128", "int8:column",
			"plain,int4:128"))},
	{name: "batch", to: func(f *planFlags) any { return &f.batches },
		help:   "values of M: 1,2,4 or 4:32768:4 (from:to:step) or pow2 or pow2:64:4096",
		offers: always(fixed("pow2", "pow2:4096", "1:16", "4:32768:4", "1,2,4,8,16,32"))},
	{name: "dtype", to: func(f *planFlags) any { return &f.dtypes },
		help:   "fp32, tf32, fp16, bf16, fp8, int8 (default bf16; on a CPU also fp32)",
		offers: func(a *app) completionFunc { return listOf(a.dtypeNames) }},
	{name: "kernel", to: func(f *planFlags) any { return &f.set.Kernels },
		help: "kernels and libraries (see gemmaudit devices), or ./mine.py for your own",
		offers: func(a *app) completionFunc {
			return a.completeKernels(func() []string {
				return append(a.kernelNames(), cobra.CompletionWithDesc(sweep.LadderKernels, "each of our own kernels"))
			})
		}},
	{name: "algos", to: func(f *planFlags) any { return &f.set.Algorithms },
		help:   "also measure the next N algorithms of each library, as cublaslt:1",
		offers: always(fixed("1", "3", "8"))},
	{name: "infer", timing: true, to: func(f *planFlags) any { return &f.infer },
		help: "measure some sizes of long series and interpolate the others (default with overnight)"},
	{name: "regime", def: string(results.Engine), timing: true, to: func(f *planFlags) any { return &f.regime },
		help: "memory state of the operands: engine (weights from memory), cold (all), hot (caches)",
		offers: always(fixed(
			cobra.CompletionWithDesc(string(results.Engine), "weights from memory, activations may be cached"),
			cobra.CompletionWithDesc(string(results.Cold), "every operand from memory"),
			cobra.CompletionWithDesc(string(results.Hot), "every operand may be cached")))},
	{name: "distribution", def: string(kernels.Normal), timing: true, to: func(f *planFlags) any { return &f.distribution },
		help:   "values of the operands: normal, integers, zeros",
		offers: always(fixed(string(kernels.Normal), string(kernels.Integers), string(kernels.Zeros)))},
	{name: "threads", to: func(f *planFlags) any { return &f.set.Threads },
		help: threadsUsage},
	{name: "pack-inside", to: func(f *planFlags) any { return &f.set.PackInside },
		help: "include packing of the weights in the time"},
	{name: "rounds", timing: true, to: func(f *planFlags) any { return &f.set.Rounds },
		help: "maximum samples of a case, 0 for the preset's"},
	{name: "rounds-for", timing: true, to: func(f *planFlags) any { return &f.roundsFor },
		help: "cases to measure after the first 7 rounds: open (no clear verdict) or all (default open)",
		offers: always(fixed(
			cobra.CompletionWithDesc(roundsForOpen, "cases without a clear verdict, their references and some control cases"),
			cobra.CompletionWithDesc(roundsForAll, "every case")))},
	{name: "block", timing: true, to: func(f *planFlags) any { return &f.set.BlockTarget },
		help: "time of one sample, 0 for the preset's"},
	{name: "clock", timing: true, to: func(f *planFlags) any { return &f.set.ReferenceClock },
		help: "clock in MHz for comparing times, 0 for the median clock of the sentinels"},
	{name: "deadline", timing: true, resume: renewed, to: func(f *planFlags) any { return &f.set.Deadline },
		help:   "time limit for measuring, as in 8h; 0 for the preset's",
		offers: always(fixed("10m", "1h", "8h"))},
	{name: "traffic", timing: true, to: func(f *planFlags) any { return &f.traffic },
		help:   "CSV of m,weight: how often each M is served; with a deadline the most frequent come first",
		offers: always(filesWith("csv"))},
	{name: "shard", timing: true, to: func(f *planFlags) any { return &f.shard },
		help:   "part of the plan to measure, as in 3/8, or none (default: from the variables of the job)",
		offers: always(fixed("1/2", "2/2", shardNone))},
	{name: "seed", def: uint64(1), timing: true, to: func(f *planFlags) any { return &f.set.Seed },
		help: "seed of the order and of the operands"},
}

func workloadFiles(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

func (f *planFlags) registerSome(a *app, cmd *cobra.Command, names ...string) {
	flags := cmd.Flags()
	f.ofTargets, f.changed, f.note = defaultPreset, flags.Changed, a.notef
	for _, d := range declaredPlanFlags {
		if !slices.Contains(names, d.name) {
			d.register(pflag.NewFlagSet("", pflag.ContinueOnError), f)
			continue
		}
		d.register(flags, f)
		if d.offers != nil {
			complete(cmd, d.name, d.offers(a))
		}
	}
	broughtFlags(a, cmd)
}

// register adds the flags to cmd. The default of --preset is quick, and ofTargets with --shape or --model.
func (f *planFlags) register(a *app, cmd *cobra.Command, ofTargets string) {
	flags := cmd.Flags()
	f.ofTargets, f.changed, f.note = ofTargets, flags.Changed, a.notef
	for _, d := range declaredPlanFlags {
		d.register(flags, f)
		if d.offers != nil {
			complete(cmd, d.name, d.offers(a))
		}
	}
	if ofTargets != defaultPreset {
		flags.Lookup("preset").Usage += "; with --shape or --model " + ofTargets + " unless given"
	}
	broughtFlags(a, cmd)
}

func (d planFlag) register(flags *pflag.FlagSet, f *planFlags) {
	declare(flags, d.to(f), d.name, d.def, d.help)
}

// options parses the flags. Errors are errors of the command line and name the flag, the value and the
// expected values.
func (f *planFlags) options() (sweep.Options, error) {
	if !f.changed("preset") && len(f.shapes)+len(f.models)+len(f.shapesFrom) > 0 {
		f.set.Preset = f.ofTargets
	}
	o := f.set
	o.Sentinel = sweep.DefaultSentinel()
	o.Sentinel.DriftBound = rules.Default().DriftBound
	if f.changed("infer") {
		o.Infer = &f.infer
	}
	bad := func(flag string, err error) (sweep.Options, error) { return sweep.Options{}, badFlag(flag, err) }
	preset, err := sweep.FindPreset(f.set.Preset)
	if err != nil {
		return bad("preset", err)
	}
	switch f.roundsFor {
	case "":
	case roundsForOpen:
		o.Screening = preset.Screening
	case roundsForAll:
		if o.Screening = f.set.Rounds; f.set.Rounds == 0 {
			o.Screening = preset.Rounds
		}
	default:
		return bad("rounds-for", fmt.Errorf("unknown choice %q: expected open or all", f.roundsFor))
	}
	if len(f.tp) == 0 {
		return bad("tp", errors.New("no value: expected ranks, as in 1,2,4,8"))
	}
	if o.Operations, err = sweep.ParseOperations(f.operations); err != nil {
		return bad("op", err)
	}
	if err := cmp.Or(f.fuse(&o), f.route(&o)); err != nil {
		return sweep.Options{}, err
	}
	for _, operation := range o.Operations {
		for _, s := range f.shapes {
			of := operation
			if !f.changed("op") && (!f.changed("epilogue") || f.fusesLayers()) {
				of = sweep.OperationOf(s)
			}
			targets, err := sweep.ParseTargets(of, s)
			if err != nil {
				return bad("shape", err)
			}
			o.Targets = append(o.Targets, targets...)
		}
		for _, m := range f.models {
			for _, tp := range f.tp {
				targets, err := sweep.ModelTargets(operation, m, tp, f.ep)
				if err != nil {
					return bad("model", err)
				}
				if f.fusesLayers() {
					var notes []sweep.Note
					targets, notes = sweep.FuseLayers(targets)
					o.Notes = append(o.Notes, notes...)
				}
				o.Targets = append(o.Targets, targets...)
			}
		}
	}
	for _, m := range f.models {
		notes, err := sweep.ModelNotes(m)
		if err != nil {
			return bad("model", err)
		}
		o.Notes = append(o.Notes, notes...)
	}
	if tp := slices.Max(f.tp); tp != 1 && len(f.models) == 0 {
		return bad("tp", fmt.Errorf("%d ranks need --model", tp))
	}
	if o.Layout, err = kernels.ParseLayout(f.layout); err != nil {
		return bad("layout", err)
	}
	if i := slices.IndexFunc(o.Operations, kernels.Operation.HasWeights); i < 0 {
		for _, name := range []string{"layout", "pack-inside"} {
			if f.changed(name) {
				return bad(name, fmt.Errorf("%v has no weights", o.Operations[0]))
			}
		}
	}
	for _, w := range f.weights {
		weights, err := kernels.ParseWeights(w)
		if err != nil {
			return bad("weights", err)
		}
		if f.changed("weights") && !slices.Contains(o.Weights, weights) {
			o.Weights = append(o.Weights, weights)
		}
	}
	o.Batches = parsed(&err, "batch", f.batches, sweep.ParseBatches)
	if f.tokens != "" {
		o.Batches, o.Tokens = parsed(&err, "tokens", f.tokens, sweep.ParseBatches), true
	}
	o.Traffic = parsed(&err, "traffic", f.traffic, importing.ReadTraffic)
	o.DTypes = parsedList(&err, "dtype", f.dtypes, kernels.ParseDType)
	if err != nil {
		return sweep.Options{}, err
	}
	if len(f.shapesFrom) > 0 {
		if err := f.workload(&o); err != nil {
			return sweep.Options{}, err
		}
	}
	if o.Neighbours && len(f.shapesFrom) == 0 {
		return bad("neighbours", errors.New("needs --shapes-from"))
	}
	if o.Regime = parsed(&err, "regime", f.regime, sweep.ParseRegime); err != nil {
		return sweep.Options{}, err
	}
	o.Distribution = kernels.Distribution(f.distribution)
	if !slices.Contains([]kernels.Distribution{kernels.Normal, kernels.Integers, kernels.Zeros}, o.Distribution) {
		return bad("distribution", fmt.Errorf("unknown distribution %q: expected normal, integers or zeros", f.distribution))
	}
	for _, n := range []struct {
		flag  string
		value int
		least int
	}{{"threads", f.set.Threads, 0}, {"rounds", f.set.Rounds, 0}} {
		if n.value < n.least {
			return bad(n.flag, fmt.Errorf("%d, expected at least %d", n.value, max(n.least, 1)))
		}
	}
	if err := f.checkTimes(); err != nil {
		return o, err
	}
	if f.set.ReferenceClock != 0 && !(f.set.ReferenceClock >= leastClock && f.set.ReferenceClock <= mostClock) {
		return bad("clock", fmt.Errorf("%g MHz, expected 0 or %d to %d", f.set.ReferenceClock, leastClock, mostClock))
	}
	if f.set.Algorithms < 0 || f.set.Algorithms > kernels.MaxCandidates {
		return bad("algos", fmt.Errorf("%d, expected 0 to %d", f.set.Algorithms, kernels.MaxCandidates))
	}
	if f.shard != shardNone {
		o.Shard = parsed(&err, "shard", f.shard, sweep.ParseShard)
	}
	return o, err
}

// refuseWithResume returns an error if a flag repeats what the run file defines; goOn is the command without
// it.
func (f *planFlags) refuseWithResume(goOn string) error {
	for _, name := range flagsOfRun() {
		if f.changed(name) {
			return hint(usagef("--%s can't be combined with --resume: the plan is in the run file", name),
				"`%s`, optionally with --deadline", goOn)
		}
	}
	return nil
}

// renewDeadline applies the command line's deadline to the plan of a resumed run. Without one, the plan keeps
// its own.
func (f *planFlags) renewDeadline(plan *sweep.Plan) error {
	if !f.changed("deadline") {
		return nil
	}
	if err := f.checkTimes(); err != nil {
		return err
	}
	plan.Deadline = f.set.Deadline
	return nil
}

func (f *planFlags) checkTimes() error {
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{{"block", f.set.BlockTarget}, {"deadline", f.set.Deadline}} {
		if d.value < 0 {
			return badFlag(d.flag, fmt.Errorf("%v, expected a time above 0, as in 8h", d.value))
		}
	}
	return nil
}

// badFlag is an error of a flag's value. It replaces the parser's name for the value by the flag's name.
func badFlag(flag string, err error) error {
	var syntax *sweep.SyntaxError
	if errors.As(err, &syntax) {
		named := *syntax
		named.What = "--" + flag
		return usage(&named)
	}
	return usage(fmt.Errorf("--%s: %w", flag, err))
}

// parsed returns what parse makes of a flag's text: the zero value for an empty text, and after an earlier
// failure. Its own failure names the flag.
func parsed[T any](failed *error, flag, text string, parse func(string) (T, error)) (value T) {
	if *failed != nil || text == "" {
		return value
	}
	value, err := parse(text)
	if err != nil {
		*failed = badFlag(flag, err)
	}
	return value
}

// parsedList is parsed for each of several texts.
func parsedList[T any](failed *error, flag string, texts []string, parse func(string) (T, error)) (values []T) {
	for _, text := range texts {
		value, err := parse(text)
		if err != nil && *failed == nil {
			*failed = badFlag(flag, err)
		}
		values = append(values, value)
	}
	return values
}

func completeShapes(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var out []cobra.Completion
	seen := map[string]bool{}
	for _, name := range sweep.ModelNames() {
		targets, err := sweep.ParseModel(name, 1)
		if err != nil {
			continue
		}
		for _, t := range targets {
			shape := fmt.Sprintf("n%dk%d", t.N, t.K)
			if !seen[shape] {
				seen[shape] = true
				out = append(out, cobra.CompletionWithDesc(shape, t.Name))
			}
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// completeModels offers models, their projections after a colon, and files for a path.
func completeModels(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if strings.ContainsAny(typed, `/\`) || strings.HasPrefix(typed, ".") {
		return []cobra.Completion{"json"}, cobra.ShellCompDirectiveFilterFileExt
	}
	if name, selector, ok := strings.Cut(typed, ":"); ok {
		names := sweep.ProjectionNames()
		if m, err := sweep.FindModel(name); err == nil {
			names = m.ProjectionNames()
		}
		prefix := name + ":"
		if i := strings.LastIndexByte(selector, '+'); i >= 0 {
			prefix += selector[:i+1]
		}
		var out []cobra.Completion
		for _, p := range append([]string{"all"}, names...) {
			out = append(out, prefix+p)
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveKeepOrder
	}
	return sweep.ModelNames(), cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveKeepOrder
}

// leastClock and mostClock bound a reference clock in MHz, as in the rules.
const leastClock, mostClock = 100, sweep.MaxClock
