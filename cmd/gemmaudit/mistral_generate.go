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
	sampling   mistral.Sampling
	stop       []string
	ignoreEOS  bool
	raw        bool
	json       bool
}

func newGenerateCommand(a *app) *cobra.Command {
	opts := &generateOptions{modelOptions: modelOptions{app: a}}
	cmd := &cobra.Command{
		Use:   "generate MODEL",
		Short: "Continue a text",
		Example: examples(
			"gemmaudit mistral generate ./Mistral-7B-v0.3 --prompt 'The capital of France is'",
			"gemmaudit mistral generate ./model --prompt-file notes.txt --tokens 400 --temperature 0.7 --top-p 0.9 --seed 3",
			"echo 'Once upon a time' | gemmaudit mistral generate ./model --device cpu --kernel tiled",
			"gemmaudit mistral generate ./model --prompt hello --json | jq .decode_tokens_per_second",
		),
		Long: `The text goes to stdout as it is generated, timing to stderr. Without --temperature the
likeliest token is taken each time, and a GPU decodes several tokens before the host looks
at them.

The cache of keys and values is a ring as long as the model's sliding window, or as its
context where it has none: past that the oldest tokens are forgotten and generation goes
on, at positions that the model was not made for. A prompt must fit into the model's
context.`,
		Args: exactArgs("MODEL"),
		RunE: func(cmd *cobra.Command, args []string) error { return opts.run(cmd.Context(), args[0]) },
	}
	opts.flags(cmd, false)
	flags := cmd.Flags()
	flags.StringVarP(&opts.prompt, "prompt", "p", "", "the text to continue (default: standard input)")
	flags.StringVar(&opts.promptFile, "prompt-file", "", "a file with the text to continue")
	flags.IntVarP(&opts.tokens, "tokens", "n", 128, "most tokens to generate")
	flags.Float64Var(&opts.sampling.Temperature, "temperature", 0, "0 takes the likeliest token, 1 draws by the model's probabilities")
	flags.Float64Var(&opts.sampling.TopP, "top-p", 1, "draw among the likeliest tokens of this probability together, of those that --min-p leaves")
	flags.Float64Var(&opts.sampling.MinP, "min-p", 0, "draw among tokens of this share of the likeliest one's probability")
	flags.Uint64Var(&opts.sampling.Seed, "seed", 1, "of the draws")
	flags.StringArrayVar(&opts.stop, "stop", nil, "end before this text; may be given several times")
	flags.BoolVar(&opts.ignoreEOS, "ignore-eos", false, "continue past the token that ends a text")
	flags.BoolVar(&opts.raw, "no-special", false, "put no beginning-of-text token before the prompt")
	flags.BoolVar(&opts.json, "json", false, "one JSON object with text, tokens and timing instead of the text")
	complete(cmd, "prompt-file", nil)
	for _, free := range []string{"prompt", "tokens", "temperature", "top-p", "min-p", "seed", "stop"} {
		complete(cmd, free, cobra.NoFileCompletions)
	}
	return cmd
}

// maxPrompt bounds the bytes of a text: more than any context holds.
const maxPrompt = 64 << 20

// oneText refuses a prompt in both flags.
func oneText(prompt, file string) error {
	if prompt != "" && file != "" {
		return usagef("--prompt and --prompt-file: expected one of them")
	}
	return nil
}

// readText returns the text of a flag, of a file, or of standard input.
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

// readPrompt reads a file of at most maxPrompt bytes.
func readPrompt(path string) ([]byte, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, devicef("read %q: %w", path, withoutPath(err))
	}
	defer f.Close()
	return readBounded(f, path)
}

// readBounded reads at most maxPrompt bytes of what name says.
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

// generated is what --json prints.
type generated struct {
	Model        string  `json:"model"`
	Device       string  `json:"device"`
	DType        string  `json:"dtype"`
	Weights      string  `json:"weights,omitempty"` // how those of products are held, empty for plain ones
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
	if err := o.sampling.Validate(); err != nil {
		return usage(err)
	}
	if err := within(counted{"tokens", o.tokens, 1}); err != nil {
		return err
	}
	if o.sampling.TopP == 0 {
		return usagef("--top-p: 0, expected more than 0, up to 1")
	}
	if o.sampling.Temperature == 0 && (o.sampling.TopP != 1 || o.sampling.MinP != 0) {
		a.warnf("without --temperature the likeliest token is taken: --top-p and --min-p change nothing")
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
		text = strings.TrimRight(text, "\r\n") // the line's end that echo and a terminal add
	}
	if text == "" {
		return usagef("the prompt is empty: expected a text in --prompt, --prompt-file or standard input")
	}
	encode := words.Encode // with what the tokenizer puts around texts
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
	l, err := o.load(ctx, dir, c, len(prompt)+o.tokens, false)
	if err != nil {
		return err
	}
	defer l.Close()
	s, err := l.NewSession(l.sessions)
	if err != nil {
		return badModel(err)
	}
	defer s.Close()

	g := mistral.Generation{Prompt: prompt, Tokens: o.tokens, Sampling: o.sampling}
	if !o.ignoreEOS {
		for _, t := range c.Config().EOS {
			g.Stop = append(g.Stop, int32(t))
		}
	}
	out := &pieces{stop: o.stop, stream: words.Stream()}
	if !o.json {
		out.w = a.stdout
	}
	g.Yield = out.token
	done, err := s.Generate(ctx, g)
	out.finish()
	switch {
	case out.err != nil:
		return devicef("write standard output: %w", out.err)
	case err != nil && ctx.Err() == nil:
		return badModel(err)
	}
	if len(done.Tokens) == 0 && err != nil {
		return interruptedf("stopped before the first token")
	}
	rate := 0.
	if done.Decoded > 0 {
		rate = float64(done.Decoded) / done.Decode.Seconds()
	}
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
		v := generated{l.name, l.device.Spec().ID, string(l.DType()), l.heldAs(), l.Kernel(), l.threads(), text, out.text.String(), prompt, append([]int32{}, done.Tokens...),
			reason, done.Prefill.Seconds(), done.Decode.Seconds(), rate}
		if err := enc.Encode(v); err != nil {
			return err
		}
	} else {
		fmt.Fprintln(a.stdout)
	}
	a.notef("prompt: %d tokens in %s (%.0f a second); %d generated, %.1f a second; ended by %s",
		len(prompt), report.Duration(done.Prefill), float64(len(prompt))/done.Prefill.Seconds(), len(done.Tokens), rate, reason)
	if ctx.Err() != nil {
		return interruptedf("stopped after %d tokens", len(done.Tokens))
	}
	return nil
}

// pieces turns tokens into text, which is held back as long as a stop text may begin in it.
type pieces struct {
	stop   []string
	stream interface {
		Next(int32) string
		Flush() string
	}
	w       io.Writer // nil to collect alone
	text    strings.Builder
	pending string
	ended   bool
	err     error // of w, which ends the text too
}

// token takes a token and says whether to go on.
func (p *pieces) token(t int32) bool {
	p.pending += p.stream.Next(t)
	p.release(false)
	return !p.ended
}

func (p *pieces) finish() {
	if !p.ended {
		p.pending += p.stream.Flush()
		p.release(true)
	}
}

// release writes what can no longer be part of a stop text, or everything.
func (p *pieces) release(all bool) {
	keep, end := 0, len(p.pending)
	for _, s := range p.stop { // of several, the one that begins first
		if i := strings.Index(p.pending, s); i >= 0 {
			end, p.ended = min(end, i), true
		}
	}
	p.pending = p.pending[:end]
	if !all && !p.ended {
		for _, s := range p.stop {
			for n := min(len(s)-1, len(p.pending)); n > keep; n-- {
				if strings.HasSuffix(p.pending, s[:n]) {
					keep = n
				}
			}
		}
	}
	out := p.pending[:len(p.pending)-keep]
	p.pending = p.pending[len(out):]
	p.text.WriteString(out)
	if p.w != nil && p.err == nil {
		if _, p.err = io.WriteString(p.w, out); p.err != nil {
			p.ended = true
		}
	}
}
