package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// planFlags are the flags that say what is measured; `sweep` and `run` share
// them. Values are parsed by options, so that a completion or a help text never
// fails on them.
type planFlags struct {
	preset       string
	operations   []string
	shapes       []string
	shapesFrom   []string
	models       []string
	tp           []int
	layout       string
	weights      []string
	batches      string
	dtypes       []string
	kernels      []string
	algos        int
	infer        bool
	regime       string
	distribution string
	threads      int
	packInside   bool
	rounds       int
	roundsFor    string
	block        time.Duration
	deadline     time.Duration
	traffic      string
	clock        float64
	shard        string
	seed         uint64

	ofTargets string                 // the preset where targets are given and it is not
	changed   func(flag string) bool // whether a flag is on the command line
	note      func(format string, args ...any)
}

// defaultPreset is cheap enough for who has not looked at the others.
const defaultPreset = "quick"

// The choices of --rounds-for.
const (
	roundsForOpen = "open"
	roundsForAll  = "all"
)

// planFlag declares one flag of a plan: for sweep, run and choices, and for what --resume does with it.
type planFlag struct {
	name, help string
	// to is where its value goes: a pointer to a string, a number, a duration, a bool or a list. def is the
	// default where it is not the type's zero.
	to  func(f *planFlags) any
	def any
	// resume is what --resume does with it; empty for [fromPlan].
	resume resumption
	// timing says that it changes how something is timed, and nothing about which kernels would run: choices has no use for it.
	timing bool
	// offers completes its value; nil offers nothing.
	offers func(a *app) completionFunc
}

// always offers the same, whatever the machine.
func always(f completionFunc) func(*app) completionFunc {
	return func(*app) completionFunc { return f }
}

// declaredPlanFlags are the flags of a plan.
var declaredPlanFlags = []planFlag{
	{name: "preset", def: defaultPreset, to: func(f *planFlags) any { return &f.preset },
		help: "what is not chosen by other flags: " + strings.Join(sweep.PresetNames(), ", "),
		offers: always(func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			var out []cobra.Completion
			for _, p := range sweep.Presets() {
				out = append(out, cobra.CompletionWithDesc(p.Name, p.Description))
			}
			return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		})},
	{name: "op", def: []string{kernels.GEMM.String()}, to: func(f *planFlags) any { return &f.operations },
		help: "operation: gemm, attention-prefill, attention-decode, attention for both, softmax, log-softmax (repeatable)",
		offers: always(listOf(func() []string {
			names := []string{"attention"}
			for _, o := range sweep.Operations() {
				names = append(names, cobra.CompletionWithDesc(o.String(), o.Title()))
			}
			return names
		}))},
	{name: "shape", to: func(f *planFlags) any { return &f.shapes },
		help:   "weights as n14336k4096, 8 such n4096k4096x8, attention q32kv8d128w4096, softmax c4096 or causal c512q512; m512c4096 fixes M",
		offers: always(completeShapes)},
	{name: "shapes-from", to: func(f *planFlags) any { return &f.shapesFrom },
		help:   "tunableop_untuned*.csv of PyTorch's TunableOp: a workload's products at their Ms, the 16384 named most (repeatable)",
		offers: always(filesWith("csv"))},
	{name: "model", to: func(f *planFlags) any { return &f.models },
		help:   "model's products: NAME[:PROJECTION[+PROJECTION]], or the path of a Hugging Face config.json (repeatable)",
		offers: always(completeModels)},
	{name: "tp", def: []int{1}, to: func(f *planFlags) any { return &f.tp },
		help:   "ranks of tensor parallelism that share the --model; 1,2,4,8 sweeps the shapes of each",
		offers: always(fixed("1", "2", "4", "8", "1,2,4,8"))},
	{name: "layout", def: kernels.Transposed.String(), to: func(f *planFlags) any { return &f.layout },
		help: "how weights are stored: nk ([N,K], as engines hold them) or kn ([K,N], as torch.mm gets them)",
		offers: always(fixed(
			cobra.CompletionWithDesc(kernels.Transposed.String(), "[N,K], as a linear layer stores its weight"),
			cobra.CompletionWithDesc(kernels.RowMajor.String(), "[K,N], as torch.mm gets it")))},
	{name: "weights", def: []string{"plain"}, to: func(f *planFlags) any { return &f.weights },
		help:   "weights: plain, or quantised as int4:128 (groups of K), int8:column, int4:64:zero (repeatable)",
		offers: always(fixed("plain", "int4:128", "int4:64", "int4:32", "int4:column", "int4:128:zero", "int8:128", "int8:column", "plain,int4:128"))},
	{name: "batch", to: func(f *planFlags) any { return &f.batches },
		help:   "values of M: 1,2,4 or 4:32768:4 or pow2 or pow2:64:4096, separated by commas",
		offers: always(fixed("pow2", "pow2:4096", "1:16", "4:32768:4", "1,2,4,8,16,32"))},
	{name: "dtype", to: func(f *planFlags) any { return &f.dtypes },
		help:   "data types: fp32, tf32, fp16, bf16, fp8, int8",
		offers: func(a *app) completionFunc { return listOf(a.dtypeNames) }},
	{name: "kernel", to: func(f *planFlags) any { return &f.kernels },
		help: "kernels and libraries, as the devices command lists them, ladder for all of ours, or a --kernel-file as in ./mine.so",
		offers: func(a *app) completionFunc {
			return a.completeKernels(func() []string {
				return append(a.kernelNames(), cobra.CompletionWithDesc(sweep.LadderKernels, "each of our own kernels"))
			})
		}},
	{name: "algos", to: func(f *planFlags) any { return &f.algos },
		help:   "also measure the next N algorithms of each library, as cublaslt:1, cublaslt:2",
		offers: always(fixed("1", "3", "8"))},
	{name: "infer", timing: true, to: func(f *planFlags) any { return &f.infer },
		help: "measure some rows of each long series and infer the others from them (on with --preset overnight)"},
	{name: "regime", def: string(results.Engine), timing: true, to: func(f *planFlags) any { return &f.regime },
		help: "where operands come from: engine (weights from memory), cold (all from memory), hot (caches)",
		offers: always(fixed(
			cobra.CompletionWithDesc(string(results.Engine), "weights from memory, activations may sit in cache"),
			cobra.CompletionWithDesc(string(results.Cold), "every operand from memory"),
			cobra.CompletionWithDesc(string(results.Hot), "every operand may sit in cache")))},
	{name: "distribution", def: string(kernels.Normal), timing: true, to: func(f *planFlags) any { return &f.distribution },
		help:   "content of the operands: normal, integers, zeros",
		offers: always(fixed(string(kernels.Normal), string(kernels.Integers), string(kernels.Zeros)))},
	{name: "threads", to: func(f *planFlags) any { return &f.threads },
		help: "threads of a CPU, 0 for one a core", offers: always(cobra.NoFileCompletions)},
	{name: "pack-inside", to: func(f *planFlags) any { return &f.packInside },
		help: "pack the weights inside the timing, as a framework with unprepared weights does"},
	{name: "rounds", timing: true, to: func(f *planFlags) any { return &f.rounds },
		help: "most samples of a case, 0 for the preset's; every case gets 7 where that is not less", offers: always(cobra.NoFileCompletions)},
	{name: "rounds-for", timing: true, to: func(f *planFlags) any { return &f.roundsFor },
		help: "what rounds after the screening measure: open (cases without a clear verdict) or all (default open)",
		offers: always(fixed(
			cobra.CompletionWithDesc(roundsForOpen, "cases without a clear verdict, their references and some control cases"),
			cobra.CompletionWithDesc(roundsForAll, "every case")))},
	{name: "block", timing: true, to: func(f *planFlags) any { return &f.block },
		help: "time of one sample, 0 for the preset's", offers: always(cobra.NoFileCompletions)},
	{name: "clock", timing: true, to: func(f *planFlags) any { return &f.clock },
		help: "reference clock in MHz at which times are judged, 0 for the sentinels' median clock", offers: always(cobra.NoFileCompletions)},
	{name: "deadline", timing: true, resume: renewed, to: func(f *planFlags) any { return &f.deadline },
		help:   "stop measuring after this long, as in 8h; 0 for the preset's, which does not cut what other flags ask for",
		offers: always(fixed("10m", "1h", "8h"))},
	{name: "traffic", timing: true, to: func(f *planFlags) any { return &f.traffic },
		help:   "CSV of m,weight, how often each M is served: with a deadline the heaviest are measured first",
		offers: always(filesWith("csv"))},
	{name: "shard", timing: true, to: func(f *planFlags) any { return &f.shard },
		help:   "part of the plan to measure, as in 3/8, or none for all of it (default what a job's variables say)",
		offers: always(fixed("1/2", "2/2", shardNone))},
	{name: "seed", def: uint64(1), timing: true, to: func(f *planFlags) any { return &f.seed },
		help: "seed of the order and of the operands", offers: always(cobra.NoFileCompletions)},
}

// register adds the flags to cmd. The default of --preset is quick, and ofTargets
// where --shape or --model say what is measured.
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

// register adds the flag.
func (d planFlag) register(flags *pflag.FlagSet, f *planFlags) {
	switch to := d.to(f).(type) {
	case *string:
		flags.StringVar(to, d.name, or[string](d.def), d.help)
	case *[]string:
		flags.StringSliceVar(to, d.name, or[[]string](d.def), d.help)
	case *int:
		flags.IntVar(to, d.name, or[int](d.def), d.help)
	case *[]int:
		flags.IntSliceVar(to, d.name, or[[]int](d.def), d.help)
	case *uint64:
		flags.Uint64Var(to, d.name, or[uint64](d.def), d.help)
	case *float64:
		flags.Float64Var(to, d.name, or[float64](d.def), d.help)
	case *bool:
		flags.BoolVar(to, d.name, or[bool](d.def), d.help)
	case *time.Duration:
		flags.DurationVar(to, d.name, or[time.Duration](d.def), d.help)
	default:
		panic(fmt.Sprintf("--%s: there is no flag for a %T", d.name, to))
	}
}

// or is a default of type T, its zero where none is declared.
func or[T any](def any) T {
	v, _ := def.(T)
	return v
}

// options parses the flags. Every error is one of the command line and names
// the flag, the value and what was expected.
func (f *planFlags) options() (sweep.Options, error) {
	if !f.changed("preset") && len(f.shapes)+len(f.models)+len(f.shapesFrom) > 0 {
		f.preset = f.ofTargets
	}
	o := sweep.Options{
		Preset: f.preset, Kernels: f.kernels, Algorithms: f.algos, Threads: f.threads, PackInside: f.packInside,
		Rounds: f.rounds, Seed: f.seed, BlockTarget: f.block, Deadline: f.deadline, ReferenceClock: f.clock,
		Sentinel: sweep.DefaultSentinel(),
	}
	o.Sentinel.DriftBound = rules.Default().DriftBound
	if f.changed("infer") {
		o.Infer = &f.infer
	}
	bad := func(flag string, err error) (sweep.Options, error) { return sweep.Options{}, badFlag(flag, err) }
	preset, err := sweep.FindPreset(f.preset)
	if err != nil {
		return bad("preset", err)
	}
	switch f.roundsFor {
	case "":
	case roundsForOpen:
		o.Screening = preset.Screening
	case roundsForAll:
		if o.Screening = f.rounds; f.rounds == 0 {
			o.Screening = preset.Rounds
		}
	default:
		return bad("rounds-for", fmt.Errorf("unknown choice %q: expected open or all", f.roundsFor))
	}
	if len(f.tp) == 0 {
		return bad("tp", errors.New("there is no number: expected ranks, as in 1,2,4,8"))
	}
	if o.Operations, err = sweep.ParseOperations(f.operations); err != nil {
		return bad("op", err)
	}
	for _, operation := range o.Operations {
		for _, s := range f.shapes {
			target, err := sweep.ParseTarget(operation, s)
			if err != nil {
				return bad("shape", err)
			}
			o.Targets = append(o.Targets, target)
		}
		for _, m := range f.models {
			for _, tp := range f.tp {
				targets, err := sweep.ModelTargets(operation, m, tp)
				if err != nil {
					return bad("model", err)
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
		return bad("tp", fmt.Errorf("%d ranks of no model: expected --model with it", tp))
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
		weights, err := kernels.ParseQuantisation(w)
		if err != nil {
			return bad("weights", err)
		}
		if f.changed("weights") && !slices.Contains(o.Weights, weights) {
			o.Weights = append(o.Weights, weights)
		}
	}
	if f.batches != "" {
		if o.Batches, err = sweep.ParseBatches(f.batches); err != nil {
			return bad("batch", err)
		}
	}
	if f.traffic != "" {
		if o.Traffic, err = results.ReadTraffic(f.traffic); err != nil {
			return bad("traffic", err)
		}
	}
	for _, d := range f.dtypes {
		dtype, err := kernels.ParseDType(d)
		if err != nil {
			return bad("dtype", err)
		}
		o.DTypes = append(o.DTypes, dtype)
	}
	if len(f.shapesFrom) > 0 {
		if err := f.workload(&o); err != nil {
			return sweep.Options{}, err
		}
	}
	if o.Regime, err = sweep.ParseRegime(f.regime); err != nil {
		return bad("regime", err)
	}
	o.Distribution = kernels.Distribution(f.distribution)
	if !slices.Contains([]kernels.Distribution{kernels.Normal, kernels.Integers, kernels.Zeros}, o.Distribution) {
		return bad("distribution", fmt.Errorf("unknown distribution %q: expected normal, integers or zeros", f.distribution))
	}
	for _, n := range []struct {
		flag  string
		value int
		least int
	}{{"threads", f.threads, 0}, {"rounds", f.rounds, 0}} {
		if n.value < n.least {
			return bad(n.flag, fmt.Errorf("%d, expected at least %d", n.value, max(n.least, 1)))
		}
	}
	if err := f.checkTimes(); err != nil {
		return o, err
	}
	if f.clock != 0 && !(f.clock >= leastClock && f.clock <= mostClock) {
		return bad("clock", fmt.Errorf("%g MHz, expected 0 or %d to %d", f.clock, leastClock, mostClock))
	}
	if f.algos < 0 || f.algos > kernels.MaxCandidates {
		return bad("algos", fmt.Errorf("%d, expected 0 to %d", f.algos, kernels.MaxCandidates))
	}
	if f.shard != "" && f.shard != shardNone {
		if o.Shard, err = sweep.ParseShard(f.shard); err != nil {
			return bad("shard", err)
		}
	}
	return o, nil
}

// refuseWithResume returns an error when a flag says what is measured although a
// run file does; goOn is the command without it.
func (f *planFlags) refuseWithResume(goOn string) error {
	for _, name := range flagsOfRun() {
		if f.changed(name) {
			return hint(usagef("--%s can't be combined with --resume: the plan is the run file's", name),
				"`%s`, with --deadline if you like", goOn)
		}
	}
	return nil
}

// renewDeadline gives the plan of a run that is gone on with the deadline of the command
// line. Without one the plan keeps its own.
func (f *planFlags) renewDeadline(plan *sweep.Plan) error {
	if !f.changed("deadline") {
		return nil
	}
	if err := f.checkTimes(); err != nil {
		return err
	}
	plan.Deadline = f.deadline
	return nil
}

// checkTimes refuses times that lie in the past.
func (f *planFlags) checkTimes() error {
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{{"block", f.block}, {"deadline", f.deadline}} {
		if d.value < 0 {
			return badFlag(d.flag, fmt.Errorf("%v, expected a time above 0, as in 8h", d.value))
		}
	}
	return nil
}

// badFlag is an error of a flag's value. What a parser calls the thing that it
// read is replaced by the name of the flag.
func badFlag(flag string, err error) error {
	var syntax *sweep.SyntaxError
	if errors.As(err, &syntax) {
		named := *syntax
		named.What = "--" + flag
		return usage(&named)
	}
	return usage(fmt.Errorf("--%s: %w", flag, err))
}

// completeShapes offers the shapes of the built-in models' projections.
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

// completeModels offers models, and their projections behind the colon; a path
// is completed as a file.
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

// leastClock and mostClock bound a reference clock in MHz, as the rules do.
const leastClock, mostClock = 100, sweep.MaxClock
