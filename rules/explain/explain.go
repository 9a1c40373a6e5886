// Package explain says of every rule, cause, verdict and other word that output uses what it is, how it
// is decided, and what to do about it: one text for the command, the documents and the manual pages.
package explain

import (
	"bytes"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gemmaudit/gemmaudit/rules"
)

//go:embed terms.yaml
var source []byte

// Kind is what a word is used for.
type Kind string

// The kinds, in the order in which they are listed.
const (
	Rule      Kind = "rule"
	Cause     Kind = "cause"
	Verdict   Kind = "verdict" // of a row, or of a case of diff
	Status    Kind = "status"  // of a finding
	Remedy    Kind = "remedy"
	Change    Kind = "change" // of what diff compares
	Sustained Kind = "sustained"
	Card      Kind = "card"     // the verdict on a card of a fleet
	Slowness  Kind = "slowness" // in what way such a card is slow
	Word      Kind = "term"
)

// Kinds lists the kinds in their order.
func Kinds() []Kind {
	return []Kind{Rule, Cause, Verdict, Status, Remedy, Change, Sustained, Card, Slowness, Word}
}

// Term is one word and its explanation.
type Term struct {
	Name string `yaml:"name" json:"name"`
	Kind Kind   `yaml:"kind" json:"kind"`
	// Meaning is what it is, as half a sentence.
	Meaning string `yaml:"meaning" json:"meaning"`
	// Picture is a drawing of a few lines of text.
	Picture string `yaml:"picture" json:"picture"`
	// Decided says how it is decided, Do what its reader can do; both in sentences.
	Decided string `yaml:"decided" json:"decided"`
	Do      string `yaml:"do" json:"do"`
}

// Terms lists all words, those of a kind together.
func Terms() []Term {
	terms, _ := read() // the file is embedded, and a test reads it
	return terms
}

// read reads the file.
func read() ([]Term, error) {
	dec := yaml.NewDecoder(bytes.NewReader(source))
	dec.KnownFields(true)
	var terms []Term
	if err := dec.Decode(&terms); err != nil {
		return nil, fmt.Errorf("read terms.yaml: %w", err)
	}
	for i := range terms {
		switch t := &terms[i]; t.Kind {
		case Rule:
			t.Meaning, t.Decided = rules.Rule(t.Name).Meaning(), rules.Rule(t.Name).Help()
		case Cause:
			t.Meaning = rules.Cause(t.Name).Meaning()
		}
	}
	return terms, nil
}

// Find returns the words of a name, of which a rule and a remedy may share one: none for a name that
// is none. Case does not matter, and a hyphen is a space.
func Find(name string) []Term {
	plain := func(s string) string { return strings.ReplaceAll(strings.ToLower(strings.TrimSpace(s)), "-", " ") }
	return slices.DeleteFunc(Terms(), func(t Term) bool { return plain(t.Name) != plain(name) })
}

// Of is the explanation of a word of a kind; an empty one of a word that is none.
func Of(kind Kind, name string) Term {
	for _, t := range Terms() {
		if t.Kind == kind && t.Name == name {
			return t
		}
	}
	return Term{}
}

// Text is the explanation for people, without a last line end.
func (t Term) Text() string {
	return fmt.Sprintf("%s (%s): %s\n\n%s\n\nHow it is decided: %s\n\nWhat to do: %s", t.Name, t.Kind, t.Meaning,
		indented(t.Picture), wrapped(t.Decided), wrapped(t.Do))
}

// Markdown is the explanation as a section of a page.
func (t Term) Markdown() string {
	return fmt.Sprintf("### %s (%s)\n\n%s.\n\n```text\n%s\n```\n\n**How it is decided:** %s\n\n**What to do:** %s\n", t.Name, t.Kind,
		strings.ToUpper(t.Meaning[:1])+t.Meaning[1:], strings.TrimRight(t.Picture, "\n"), t.Decided, t.Do)
}

// indented puts four spaces before every line of a picture.
func indented(s string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n    ")
}

// width is that of wrapped lines.
const width = 100

// wrapped breaks a paragraph into lines.
func wrapped(s string) string {
	var b strings.Builder
	column := 20 // behind the words that introduce it
	for i, w := range strings.Fields(s) {
		n := len([]rune(w))
		switch {
		case i == 0:
		case column+1+n > width:
			b.WriteByte('\n')
			column = -1
		default:
			b.WriteByte(' ')
		}
		b.WriteString(w)
		column += n + 1
	}
	return b.String()
}
