package main

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/rules"
)

type decodeBenchOptions struct {
	modelOptions
	contexts []int
	tokens   int
	rounds   int
	unfused  bool
	output   report.Format
}

func newDecodeBenchCommand(a *app) *cobra.Command {
	opts := &decodeBenchOptions{modelOptions: modelOptions{app: a}}
	cmd := &cobra.Command{
		Use:   "bench MODEL",
		Short: "Measure tokens a second, and the share of bandwidth that they use",
		Example: examples(
			"gemmaudit mistral bench ./Mistral-7B-v0.3",
			"gemmaudit mistral bench ./model --context 1,512,16384 --kernel cublas",
			"gemmaudit mistral bench ./model --device cpu --dtype bf16 --rounds 7 --tokens 16 -o json",
		),
		Long: `For each length of context: a prompt of so many random tokens, then tokens decoded greedily
behind it, by the host's clock, everything included that generating takes. Contexts are
measured in rounds, in random order; rates are medians with 95 % intervals.

Bytes a token are the weights, read once, and the keys and values that the token sees.
Their rate is compared with the read and copy bandwidth measured on the device.`,
		Args: exactArgs("MODEL"),
		RunE: func(cmd *cobra.Command, args []string) error { return opts.run(cmd.Context(), args[0]) },
	}
	opts.flags(cmd, false)
	flags := cmd.Flags()
	flags.IntSliceVar(&opts.contexts, "context", []int{128, 1024, 4096}, "tokens before those that are decoded")
	flags.IntVarP(&opts.tokens, "tokens", "n", 64, "tokens to decode, a sample")
	flags.IntVar(&opts.rounds, "rounds", 9, "samples of each context")
	flags.BoolVar(&opts.unfused, "unfused", false, "decode with every operation by itself")
	outputFlag(cmd, &opts.output)
	for _, free := range []string{"context", "tokens", "rounds"} {
		complete(cmd, free, cobra.NoFileCompletions)
	}
	return cmd
}

func (o *decodeBenchOptions) run(ctx context.Context, dir string) error {
	a := o.app
	for _, n := range []struct {
		flag         string
		value, least int
	}{{"tokens", o.tokens, 1}, {"rounds", o.rounds, rules.LeastPairs}, {"context", slices.Min(append(o.contexts, math.MaxInt)), 1}} {
		if n.value < n.least {
			return usagef("--%s: %d, expected at least %d", n.flag, n.value, n.least)
		}
	}
	c, err := o.open(dir)
	if err != nil {
		return err
	}
	defer c.Close()
	longest := slices.Max(o.contexts)
	if limit := c.Config().Context; longest+o.tokens > limit {
		return usagef("--context: %d and %d tokens behind it are more than the model's context of %d", longest, o.tokens, limit)
	}
	l, err := o.load(ctx, dir, c, longest+o.tokens, false)
	if err != nil {
		return err
	}
	defer l.Model.Close()
	ceilings, err := l.device.Ceilings(ctx)
	if err != nil {
		return devicef("measure %s: %w", l.device.Spec().ID, err)
	}
	l.sessions.Unfused = o.unfused
	s, err := l.NewSession(l.sessions)
	if err != nil {
		return badModel(err)
	}
	defer s.Close()
	prefill, decode := make([][]float64, len(o.contexts)), make([][]float64, len(o.contexts))
	for i, n := range o.contexts { // code, launches, clocks
		if _, _, err := s.Rate(ctx, n, min(o.tokens, 8)); err != nil {
			return badModel(err)
		}
		a.notef("warmed up at %d of %v tokens", n, o.contexts[:i+1])
	}
	for round := range o.rounds {
		for _, i := range rand.Perm(len(o.contexts)) {
			p, d, err := s.Rate(ctx, o.contexts[i], o.tokens)
			if err != nil {
				return badModel(err)
			}
			prefill[i] = append(prefill[i], float64(o.contexts[i])/p)
			decode[i] = append(decode[i], float64(o.tokens)/d)
		}
		a.notef("round %d of %d", round+1, o.rounds)
	}
	b := &report.DecodeBench{
		Model: l.name, Device: l.device.Spec().ID, Name: l.device.Spec().Name, DType: l.DType(), Kernel: l.Kernel(),
		Fused: s.Fused(), ReadBandwidth: ceilings.ReadBandwidth, CopyBandwidth: ceilings.CopyBandwidth,
	}
	for i, n := range o.contexts {
		b.Rates = append(b.Rates, report.DecodeRate{
			Context: n, Tokens: o.tokens, Samples: o.rounds,
			Prefill: rules.Centre(prefill[i]), Decode: rules.Centre(decode[i]), TokenBytes: l.TokenBytes(n + o.tokens/2),
		})
	}
	return a.wrapPrint(report.WriteDecodeBench(a.stream(a.stdout), o.output, b))
}
