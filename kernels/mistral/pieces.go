package mistral

import (
	"io"
	"strings"
)

// Pieces turns tokens into text. It holds text back while a stop text may begin in it.
type Pieces struct {
	Stop   []string
	Stream interface {
		Next(int32) string
		Flush() string
	}
	Out     io.Writer // nil to only collect
	Trim    bool      // drop leading spaces
	Text    strings.Builder
	pending string
	ended   bool
	Err     error // of w; also ends the text
}

// Token adds a token and reports whether to continue.
func (p *Pieces) Token(t int32) bool {
	p.pending += p.Stream.Next(t)
	p.release(false)
	return !p.ended
}

// Finish ends the text with what was held back.
func (p *Pieces) Finish() {
	if !p.ended {
		p.pending += p.Stream.Flush()
		p.release(true)
	}
}

// release writes the text that can no longer be part of a stop text, or everything.
func (p *Pieces) release(all bool) {
	keep, end := 0, len(p.pending)
	for _, s := range p.Stop { // the stop text that begins first
		if i := strings.Index(p.pending, s); i >= 0 {
			end, p.ended = min(end, i), true
		}
	}
	p.pending = p.pending[:end]
	if !all && !p.ended {
		for _, s := range p.Stop {
			for n := min(len(s)-1, len(p.pending)); n > keep; n-- {
				if strings.HasSuffix(p.pending, s[:n]) {
					keep = n
				}
			}
		}
	}
	out := p.pending[:len(p.pending)-keep]
	p.pending = p.pending[len(out):]
	if p.Trim {
		if out = strings.TrimLeft(out, " \n"); out != "" {
			p.Trim = false
		}
	}
	p.Text.WriteString(out)
	if p.Out != nil && p.Err == nil {
		if _, p.Err = io.WriteString(p.Out, out); p.Err != nil {
			p.ended = true
		}
	}
}
