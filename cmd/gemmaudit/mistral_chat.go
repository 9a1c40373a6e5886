package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/kernels/mistral"
	"github.com/gemmaudit/gemmaudit/report"
)

type chatOptions struct {
	modelOptions
	tokens   int
	context  int
	sampling samplingFlags
}

func newChatCommand(a *app) *cobra.Command {
	opts := &chatOptions{modelOptions: modelOptions{app: a}}
	cmd := modelCommand("chat", opts.run)
	opts.flags(cmd, false)
	flags := cmd.Flags()
	flags.IntVarP(&opts.tokens, "tokens", "n", 512, "maximum tokens of an answer")
	flags.IntVar(&opts.context, "context", 4096, "tokens of the chat that the model sees, its answer included")
	opts.sampling.register(cmd)
	return cmd
}

func (o *chatOptions) run(ctx context.Context, dir string) error {
	a := o.app
	if err := o.sampling.check(a); err != nil {
		return err
	}
	if err := within(mostCounted, counted{"tokens", o.tokens, 1}, counted{"context", o.context, 2}); err != nil {
		return err
	}
	form, err := mistral.FindChatForm(dir, readPrompt)
	var bad *mistral.TemplateError
	if errors.As(err, &bad) {
		return hint(usage(err), "`gemmaudit mistral generate` takes a prompt as it is")
	}
	if err != nil {
		return err
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
	seen := min(o.context, c.Config().Context)
	answer := min(o.tokens, seen/2)
	l, s, err := o.start(ctx, dir, c, seen)
	if err != nil {
		return err
	}
	defer l.Close()

	said := mistral.NewChat(words, form, c.Config().EOS)
	g := mistral.Generation{Tokens: answer, Sampling: o.sampling.Sampling}
	for _, t := range c.Config().EOS {
		g.Stop = append(g.Stop, int32(t))
	}
	if form.End != "" {
		g.Stop = append(g.Stop, said.End())
	}
	lines := bufio.NewReader(a.stdin)
	for {
		if a.interactive() {
			fmt.Fprint(a.stderr, "> ")
		}
		line, err := readLine(ctx, lines)
		if ctx.Err() != nil {
			return interruptedf("the chat was interrupted")
		}
		if err != nil && err != io.EOF {
			return err
		}
		if message := strings.TrimSpace(line); message != "" {
			if g.Prompt = said.Ask(message, seen-answer); g.Prompt == nil {
				a.warnf("the message is longer than the %d tokens that --context leaves for it: it is skipped", seen-answer)
			} else if err := o.answer(ctx, s, g, said); err != nil {
				return err
			}
		}
		if err == io.EOF {
			if a.interactive() {
				fmt.Fprintln(a.stderr)
			}
			return nil
		}
	}
}

func (o *chatOptions) answer(ctx context.Context, s *mistral.Session, g mistral.Generation, said *mistral.Chat) error {
	a := o.app
	out := &mistral.Pieces{Stream: said.Words.Stream(), Out: a.stdout, Trim: true}
	g.Yield = out.Token
	s.Reset()
	done, err := s.Generate(ctx, g)
	out.Finish()
	fmt.Fprintln(a.stdout)
	switch {
	case out.Err != nil:
		return devicef("write standard output: %w", out.Err)
	case ctx.Err() != nil:
		return interruptedf("stopped after %d tokens", len(done.Tokens))
	case err != nil:
		return badModel(err)
	}
	said.Answered(done.Tokens)
	a.notef("%d tokens of chat in %s; %d generated, %.1f a second", len(g.Prompt), report.Duration(done.Prefill), len(done.Tokens),
		done.Rate())
	return nil
}

// readLine reads a line of at most maxPrompt bytes, or the rest of the input; io.EOF comes with the last one.
// It returns when ctx ends.
func readLine(ctx context.Context, in *bufio.Reader) (string, error) {
	type read struct {
		text string
		err  error
	}
	done := make(chan read, 1)
	go func() {
		var line []byte
		for {
			part, err := in.ReadSlice('\n')
			line = append(line, part...)
			switch {
			case len(line) > maxPrompt:
				done <- read{"", usagef("standard input: a line longer than %d bytes", maxPrompt)}
			case errors.Is(err, bufio.ErrBufferFull):
				continue
			case err != nil && err != io.EOF:
				done <- read{"", devicef("read standard input: %w", err)}
			case !utf8.Valid(line):
				done <- read{"", usagef("standard input: not UTF-8")}
			default:
				done <- read{string(line), err}
			}
			return
		}
	}()
	select {
	case r := <-done:
		return r.text, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// interactive reports whether a person types into standard input and needs a prompt.
func (a *app) interactive() bool {
	return !a.quiet && isTerminal(a.stdin)
}
