package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/kernels/mistral"
	"github.com/gemmaudit/gemmaudit/kernels/regular"
	"github.com/gemmaudit/gemmaudit/report"
)

type generateOptions struct {
	modelOptions
	prompt     string
	promptFile string
	tokens     int
	sampling   samplingFlags
	stop       []string
	ignoreEOS  bool
	raw        bool
	json       bool
}

func newGenerateCommand(a *app) *cobra.Command {
	opts := &generateOptions{modelOptions: modelOptions{app: a}}
	cmd := modelCommand("generate", opts.run)
	opts.flags(cmd, false)
	flags := cmd.Flags()
	flags.StringVarP(&opts.prompt, "prompt", "p", "", "text to continue (default: stdin)")
	addFlag(cmd, &opts.promptFile, "prompt-file", "", "file with the text to continue", workloadFiles)
	flags.IntVarP(&opts.tokens, "tokens", "n", 128, "maximum tokens to generate")
	opts.sampling.register(cmd)
	flags.StringArrayVar(&opts.stop, "stop", nil, "stop before this text (repeatable)")
	flags.BoolVar(&opts.ignoreEOS, "ignore-eos", false, "continue after the end-of-text token")
	flags.BoolVar(&opts.raw, "no-special", false, "no beginning-of-text token before the prompt")
	flags.BoolVar(&opts.json, "json", false, "print one JSON object with text, tokens and timings")
	return cmd
}

type samplingFlags struct{ mistral.Sampling }

func (s *samplingFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Float64Var(&s.Temperature, "temperature", 0, "sampling temperature; 0 for greedy decoding")
	flags.Float64Var(&s.TopP, "top-p", 1, "nucleus sampling: cumulative probability, after --min-p")
	flags.Float64Var(&s.MinP, "min-p", 0, "smallest probability of a token, relative to the most likely one")
	flags.Uint64Var(&s.Seed, "seed", 1, "seed of the sampling")
}

func (s *samplingFlags) check(a *app) error {
	if err := s.Validate(); err != nil {
		return usage(err)
	}
	if s.TopP == 0 {
		return usagef("--top-p: 0, expected more than 0, up to 1")
	}
	if s.Temperature == 0 && (s.TopP != 1 || s.MinP != 0) {
		a.warnf("without --temperature decoding is greedy: --top-p and --min-p have no effect")
	}
	return nil
}

// maxPrompt is the maximum size of a text in bytes, larger than any context.
const maxPrompt = 64 << 20

func oneText(prompt, file string) error {
	if prompt != "" && file != "" {
		return usagef("--prompt and --prompt-file: expected only one")
	}
	return nil
}

func (a *app) readText(text, path string, given bool) (string, error) {
	if given {
		if !utf8.ValidString(text) {
			return "", usagef("--prompt: not UTF-8")
		}
		return text, nil
	}
	name := path
	var data []byte
	var err error
	if path == "" || path == "-" {
		name = "standard input"
		data, err = readBounded(a.stdin, name)
	} else {
		data, err = readPrompt(path)
	}
	switch {
	case err != nil:
		return "", err
	case !utf8.Valid(data):
		return "", usagef("%s: not UTF-8", name)
	}
	return string(data), nil
}

func readPrompt(path string) ([]byte, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, devicef("read %q: %w", path, withoutPath(err))
	}
	defer f.Close()
	return readBounded(f, path)
}

func readBounded(in io.Reader, name string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(in, maxPrompt+1))
	switch {
	case err != nil:
		return nil, devicef("read %s: %w", name, withoutPath(err))
	case len(data) > maxPrompt:
		return nil, usagef("%s: longer than %d bytes", name, maxPrompt)
	}
	return data, nil
}

type generated struct {
	Model        string  `json:"model"`
	Device       string  `json:"device"`
	DType        string  `json:"dtype"`
	Weights      string  `json:"weights,omitempty"` // weight format, empty if unquantized
	Kernel       string  `json:"kernel"`
	Threads      int     `json:"threads,omitempty"`
	Prompt       string  `json:"prompt"`
	Text         string  `json:"text"`
	PromptTokens []int32 `json:"prompt_tokens"`
	Tokens       []int32 `json:"tokens"`
	Reason       string  `json:"reason"`
	Prefill      float64 `json:"prefill_seconds"`
	Decode       float64 `json:"decode_seconds"`
	Rate         float64 `json:"decode_tokens_per_second"`
}

func (o *generateOptions) run(ctx context.Context, dir string) error {
	a := o.app
	if err := o.sampling.check(a); err != nil {
		return err
	}
	if err := within(mostCounted, counted{"tokens", o.tokens, 1}); err != nil {
		return err
	}
	if err := oneText(o.prompt, o.promptFile); err != nil {
		return err
	}
	for _, s := range o.stop {
		if s == "" || !utf8.ValidString(s) {
			return usagef("--stop: %q, expected a text in UTF-8", s)
		}
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
	text, err := a.readText(o.prompt, o.promptFile, o.prompt != "")
	if err != nil {
		return err
	}
	if o.promptFile == "" && o.prompt == "" {
		text = strings.TrimRight(text, "\r\n") // the newline added by echo or a terminal
	}
	if text == "" {
		return usagef("the prompt is empty: expected text in --prompt, --prompt-file or stdin")
	}
	encode := words.Encode // with the tokenizer's special tokens around texts
	if o.raw {
		encode = words.EncodeOrdinary
	}
	prompt := encode(text)
	if len(prompt) == 0 {
		return usagef("the prompt has no tokens")
	}
	if limit := c.Config().Context; len(prompt) > limit {
		return hint(usagef("the prompt has %d tokens, the model's context %d", len(prompt), limit), "shorten it")
	}
	l, s, err := o.start(ctx, dir, c, len(prompt)+o.tokens)
	if err != nil {
		return err
	}
	defer l.Close()

	g := mistral.Generation{Prompt: prompt, Tokens: o.tokens, Sampling: o.sampling.Sampling}
	if !o.ignoreEOS {
		for _, t := range c.Config().EOS {
			g.Stop = append(g.Stop, int32(t))
		}
	}
	out := &mistral.Pieces{Stop: o.stop, Stream: words.Stream()}
	if !o.json {
		out.Out = a.stdout
	}
	g.Yield = out.Token
	done, err := s.Generate(ctx, g)
	out.Finish()
	switch {
	case out.Err != nil:
		return devicef("write standard output: %w", out.Err)
	case err != nil && ctx.Err() == nil:
		return badModel(err)
	}
	if len(done.Tokens) == 0 && err != nil {
		return interruptedf("stopped before the first token")
	}
	rate := done.Rate()
	reason := string(done.Reason)
	if done.Reason == mistral.StopCaller {
		reason = "stop text"
	}
	if ctx.Err() != nil {
		reason = "interrupt"
	}
	if o.json {
		enc := json.NewEncoder(a.stdout)
		enc.SetEscapeHTML(false)
		v := generated{l.name, l.device.Spec().ID, string(l.DType()), l.heldAs(), l.Kernel(), l.threads(), text, out.Text.String(), prompt,
			append([]int32{}, done.Tokens...),
			reason, done.Prefill.Seconds(), done.Decode.Seconds(), rate}
		if err := enc.Encode(v); err != nil {
			return err
		}
	} else {
		fmt.Fprintln(a.stdout)
	}
	a.notef("prompt: %d tokens in %s (%.0f tokens/s); generated %d at %.1f tokens/s; ended by %s",
		len(prompt), report.Duration(done.Prefill), float64(len(prompt))/done.Prefill.Seconds(), len(done.Tokens), rate, reason)
	if ctx.Err() != nil {
		return interruptedf("stopped after %d tokens", len(done.Tokens))
	}
	return nil
}
