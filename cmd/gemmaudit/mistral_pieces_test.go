package main

import (
	"errors"
	"strings"
	"testing"
)

// spelled is a stream whose tokens are indices of texts.
type spelled []string

func (s spelled) Next(t int32) string { return s[t] }
func (s spelled) Flush() string       { return "" }

// A text ends before the stop text that begins first, however tokens cut both.
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
		p := &pieces{stop: c.stop, stream: spelled(c.tokens), w: &out}
		for i := range c.tokens {
			if !p.token(int32(i)) {
				break
			}
		}
		p.finish()
		if out.String() != c.want || p.text.String() != c.want {
			t.Errorf("%q, stop %q: wrote %q, kept %q, expected %q", c.tokens, c.stop, out.String(), p.text.String(), c.want)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("full") }

// Nothing more is generated for a reader that has gone.
func TestPiecesWithoutReader(t *testing.T) {
	p := &pieces{stream: spelled{"a"}, w: full{}}
	if p.token(0) || p.err == nil {
		t.Errorf("goes on after a write that failed, error %v", p.err)
	}
}
