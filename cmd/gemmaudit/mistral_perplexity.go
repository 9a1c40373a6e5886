package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/kernels/mistral"
	"github.com/gemmaudit/gemmaudit/kernels/mistral/checkpoint"
	"github.com/gemmaudit/gemmaudit/report"
)

type perplexityOptions struct {
	modelOptions
	most   int
	ids    string
	output report.Format
}

func newPerplexityCommand(a *app) *cobra.Command {
	opts := &perplexityOptions{modelOptions: modelOptions{app: a}}
	cmd := &cobra.Command{
		Use: "perplexity MODEL [TEXT.txt]",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 2 {
				return usagef("unexpected argument %q after MODEL TEXT", args[2])
			}
			return atLeastArgs("MODEL")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return opts.run(cmd.Context(), args) },
	}
	opts.flags(cmd, false)
	cmd.Flags().IntVar(&opts.most, "most", 0, "use only the first N tokens (default: the model's context)")
	addFlag(cmd, &opts.ids, "token-ids", "", "JSON `file` with token ids, or from generate --json, instead of a text", filesWith("json"))
	outputFlag(cmd, &opts.output)
	return cmd
}

func (o *perplexityOptions) read(args []string, c *checkpoint.Checkpoint) ([]int32, error) {
	if o.ids != "" {
		if len(args) > 1 {
			return nil, usagef("--token-ids and a text: expected only one")
		}
		tokens, err := readTokens(o.ids)
		if err != nil {
			return nil, err
		}
		if err := mistral.CheckTokens(tokens, c.Config().Vocab); err != nil {
			return nil, usagef("%s: %w", o.ids, err)
		}
		return tokens, nil
	}
	words, err := openWords(args[0], c)
	if err != nil {
		return nil, err
	}
	path := ""
	if len(args) > 1 {
		path = args[1]
	}
	text, err := o.app.readText("", path, false)
	if err != nil {
		return nil, err
	}
	return words.Encode(text), nil
}

// readTokens reads a JSON array of token IDs, or the object printed by generate: its prompt and continuation.
func readTokens(path string) ([]int32, error) {
	data, err := readPrompt(path)
	if err != nil {
		return nil, err
	}
	var tokens []int32
	if json.Unmarshal(data, &tokens) == nil {
		return tokens, nil
	}
	var object generated
	if err := json.Unmarshal(data, &object); err != nil || object.Tokens == nil {
		return nil, usagef("%s: expected a JSON array of token ids, or an object with one as \"tokens\"", path)
	}
	return append(object.PromptTokens, object.Tokens...), nil
}

func (o *perplexityOptions) run(ctx context.Context, args []string) error {
	a := o.app
	if err := holdsText("perplexity", o.output); err != nil {
		return err
	}
	c, err := o.open(args[0])
	if err != nil {
		return err
	}
	defer c.Close()
	tokens, err := o.read(args, c)
	if err != nil {
		return err
	}
	most := o.most
	if most == 0 {
		most = c.Config().Context
	}
	if most < 2 {
		return usagef("--most: %d, expected at least 2", most)
	}
	if len(tokens) > most {
		a.notef("used the first %d of %d tokens", most, len(tokens))
		tokens = tokens[:most]
	}
	if len(tokens) < 2 {
		return usagef("the text has %s, expected at least 2", plural(len(tokens), "token", "tokens"))
	}
	l, s, err := o.start(ctx, args[0], c, len(tokens))
	if err != nil {
		return err
	}
	defer l.Close()
	start := time.Now()
	value, spread, err := s.Perplexity(ctx, tokens)
	if err != nil {
		return badModel(err)
	}
	seconds := time.Since(start).Seconds()
	return a.wrapPrint(report.WritePerplexity(a.stream(a.stdout), o.output, &report.Perplexity{
		Model: l.name, Device: l.device.Spec().ID, DType: l.DType(), Weights: l.heldAs(), Kernel: l.Kernel(), Threads: l.threads(),
		Tokens: len(tokens), Perplexity: value,
		Error: spread, Rate: float64(len(tokens)) / seconds,
	}))
}
