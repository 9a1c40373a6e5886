package mistral

import (
	"errors"
	"strings"
	"testing"
)

// spelled is a stream whose tokens are indices of texts.
type spelled []string

func (s spelled) Next(t int32) string { return s[t] }
func (s spelled) Flush() string       { return "" }

// A text must end before its first stop text, wherever the token boundaries are.
func TestPiecesStop(t *testing.T) {
	for _, c := range []struct {
		stop   []string
		tokens []string
		want   string
	}{
		{[]string{"cd"}, []string{"ab", "c", "d", "e"}, "ab"},
		{[]string{"cd"}, []string{"ab", "c", "c", "e"}, "abcce"},
		{[]string{"cd", "bc"}, []string{"abcd"}, "a"},
		{[]string{"cd", "bcdx"}, []string{"ab", "cd"}, "ab"},
		{[]string{"é"}, []string{"caf", "è", "é", "x"}, "cafè"},
		{[]string{"→é"}, []string{"a→", "→", "éb"}, "a→"},
		{[]string{"aab"}, []string{"a", "a", "a", "b"}, "a"},
		{[]string{"ab"}, []string{"x", "a"}, "xa"},
		{nil, []string{"a", "", "b"}, "ab"},
	} {
		var out strings.Builder
		p := &Pieces{Stop: c.stop, Stream: spelled(c.tokens), Out: &out}
		for i := range c.tokens {
			if !p.Token(int32(i)) {
				break
			}
		}
		p.Finish()
		if out.String() != c.want || p.Text.String() != c.want {
			t.Errorf("%q, stop %q: wrote %q, kept %q, expected %q", c.tokens, c.stop, out.String(), p.Text.String(), c.want)
		}
	}
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, errors.New("full") }

// Generation must stop if the output is closed.
func TestPiecesWithoutReader(t *testing.T) {
	p := &Pieces{Stream: spelled{"a"}, Out: closed{}}
	if p.Token(0) || p.Err == nil {
		t.Errorf("goes on after a write that failed, error %v", p.Err)
	}
}
