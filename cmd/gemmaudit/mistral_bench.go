package main

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/mistral/checkpoint"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

type decodeBenchOptions struct {
	modelOptions
	contexts []int
	tokens   int
	rounds   int
	model    string // a shape for random weights
	layers   int
	output   report.Format
}

func newDecodeBenchCommand(a *app) *cobra.Command {
	opts := &decodeBenchOptions{modelOptions: modelOptions{app: a}}
	cmd := &cobra.Command{
		Use: "bench MODEL",
		Args: func(cmd *cobra.Command, args []string) error {
			if opts.model == "" {
				return exactArgs("MODEL")(cmd, args)
			}
			if len(args) > 0 {
				return usagef("unexpected argument %q with --model", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := strings.TrimSuffix(opts.model, "/config.json")
			if len(args) > 0 {
				dir = args[0]
			}
			return opts.run(cmd.Context(), dir, cmd.Flags().Changed("context"))
		},
	}
	opts.flags(cmd, false)
	opts.outFlag(cmd)
	flags := cmd.Flags()
	flags.IntSliceVar(&opts.contexts, "context", []int{128, 1024, 4096},
		"context lengths before decoding; default lengths that do not fit the model are dropped")
	flags.IntVarP(&opts.tokens, "tokens", "n", 64, "tokens to decode per sample")
	flags.IntVar(&opts.rounds, "rounds", 9, "samples of each context, at least 6")
	addFlag(cmd, &opts.model, "model", "", "random weights in the `shape` of this model or config.json, instead of MODEL",
		fixed(checkpoint.Presets()...))
	flags.IntVar(&opts.layers, "layers", 0, "layers of --model (default: all)")
	flags.BoolVar(&opts.unfused, "unfused", false, "decode without fused operations")
	outputFlag(cmd, &opts.output)
	return cmd
}

// fitting returns the contexts that fit a model of limit tokens. By default, it returns the
// defaults that fit, and the maximum length instead of the others.
func (o *decodeBenchOptions) fitting(limit int, asked bool) ([]int, error) {
	longest := slices.Max(o.contexts)
	if longest+o.tokens <= limit {
		return o.contexts, nil
	}
	if asked || limit <= o.tokens {
		return nil, usagef("--context: %d plus %d tokens exceed the model's context of %d", longest, o.tokens, limit)
	}
	var fit []int
	for _, n := range o.contexts {
		fit = append(fit, min(n, limit-o.tokens))
	}
	return slices.Compact(fit), nil
}

func (o *decodeBenchOptions) run(ctx context.Context, dir string, asked bool) (err error) {
	a := o.app
	if len(o.contexts) == 0 {
		return usagef("--context: empty, expected numbers of tokens")
	}
	if err := holdsText("decode benchmark", o.output); err != nil {
		return err
	}
	if err := within(mostCounted, counted{"tokens", o.tokens, 1}, counted{"rounds", o.rounds, stats.LeastPairs},
		counted{"context", slices.Min(o.contexts), 1}, counted{"context", slices.Max(o.contexts), 1}); err != nil {
		return err
	}
	if err := o.checkOut(); err != nil {
		return err
	}
	c, config, err := o.openOrShape(dir)
	if err != nil {
		return err
	}
	if c != nil {
		defer c.Close()
	}
	if err := o.checkKept(config); err != nil {
		return err
	}
	contexts, err := o.fitting(config.Context, asked)
	if err != nil {
		return err
	}
	l, s, err := o.start(ctx, dir, c, slices.Max(contexts)+o.tokens)
	if err != nil {
		return err
	}
	defer l.Close()
	kept, err := o.record(ctx, l)
	if err != nil {
		return o.stopped(ctx, err)
	}
	defer func() { err = errors.Join(err, kept.Close(err)) }()
	spec := l.device.Spec()
	rates, err := kept.Rates(ctx, s, l.device, l.Kernel(), contexts, o.tokens, o.rounds,
		func(round int) { a.notef("round %d of %d", round, o.rounds) })
	if err != nil {
		return o.stopped(ctx, err)
	}
	b := &report.DecodeBench{
		Model: l.name, Parameters: config.Parameters(), Bytes: l.Model.Bytes(), Device: spec.ID, Name: spec.Name,
		DType: l.DType(), Weights: l.heldAs(), Kernel: l.Kernel(), Threads: l.threads(), Fused: s.Fused(), Version: buildVersion(),
		ReadBandwidth: stats.CentreInterval(rates.Read).Mid, CopyBandwidth: stats.CentreInterval(rates.Copied).Mid,
		BandwidthSamples: len(rates.Read), CacheBytes: spec.LastLevelCacheBytes,
	}
	if config.Experts > 0 {
		b.Active = config.ActiveParameters()
	}
	for i, n := range contexts {
		b.Rates = append(b.Rates, report.DecodeRate{
			Context: n, Tokens: o.tokens, Samples: o.rounds,
			Prefill: stats.CentreInterval(rates.Prefill[i]), Decode: stats.CentreInterval(rates.Decode[i]),
			TokenBytes: s.TokenBytes(n + o.tokens/2),
		})
	}
	return a.wrapPrint(report.WriteDecodeBench(a.stream(a.stdout), o.output, b))
}

// openOrShape opens the checkpoint in dir, or returns none and the shape of --model.
func (o *decodeBenchOptions) openOrShape(dir string) (*checkpoint.Checkpoint, checkpoint.Config, error) {
	if o.model == "" {
		if o.layers != 0 {
			return nil, checkpoint.Config{}, usagef("--layers needs --model")
		}
		c, err := o.open(dir)
		if err != nil {
			return nil, checkpoint.Config{}, err
		}
		return c, c.Config(), nil
	}
	if err := o.inRange(); err != nil {
		return nil, checkpoint.Config{}, err
	}
	config, known := checkpoint.Preset(o.model)
	if !known {
		var err error
		config, err = checkpoint.ReadConfig(o.model)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, config, usagef("--model: %q is no file, expected a config.json or one of %s", o.model,
				strings.Join(checkpoint.Presets(), ", "))
		case err != nil:
			return nil, config, usagef("--model: %w", err)
		}
		if config.Quantization != nil {
			return nil, config, hint(usagef("--model: %s has quantized weights", o.model), "give their format with --weights")
		}
		config.DType = cmp.Or(config.DType, kernels.FP16)
	}
	if o.layers < 0 || o.layers > config.Layers {
		return nil, config, usagef("--layers: %d, expected 1 to %d", o.layers, config.Layers)
	}
	if o.layers > 0 {
		config.Layers = o.layers
	}
	o.shape = &config
	return nil, config, nil
}

// stopped returns an interruption if ctx ended, else err.
func (o *modelOptions) stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return interruptedf("stopped before the last round")
	}
	return badModel(err)
}
