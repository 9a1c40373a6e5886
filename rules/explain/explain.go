// Package explain holds the meaning of every rule, cause, verdict and other word of the output: one text for the
// command, docs/glossary.md, the manual page and the report.
package explain

import (
	"bytes"
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/cause"
)

//go:embed terms.yaml
var source []byte

// Kind groups words by their use.
type Kind string

// The kinds, in the order in which they are listed.
const (
	Rule      Kind = "rule"
	Cause     Kind = "cause"
	Verdict   Kind = "verdict" // on a size, or on a case of diff
	Status    Kind = "status"  // of a finding
	Remedy    Kind = "remedy"
	Change    Kind = "change" // in diff
	Sustained Kind = "sustained"
	Card      Kind = "card"     // verdict on a card of a fleet
	Slowness  Kind = "slowness" // of such a card
	Word      Kind = "term"
)

// kindTable lists the kinds with their titles and the outputs that use them.
var kindTable = []struct {
	kind        Kind
	title, seen string
}{
	{Rule, "Rules", "Column `rule` of findings, in `audit -o wide`, the page, JSON and SARIF. docs/rules.md has their settings."},
	{Cause, "Causes", "Column `why` of problems, and `cause` of findings."},
	{Verdict, "Verdicts on sizes", "The verdict of a rule on one size, in `run`, `audit`, `diff` and the page."},
	{Status, "Status of findings", "Column `status` of problems and findings."},
	{Remedy, "Remedies",
		"Column `remedy` of problems and of `splits`. A remedy pays if the lower bound of its gain is above `remedy.margin`."},
	{Change, "Changes", "Column `change` of `diff`."},
	{Sustained, "Sustained running", "Column `seen in` of findings, after --sustained."},
	{Card, "Verdicts on cards", "Column `verdict` of `fleet` and `check`."},
	{Slowness, "Kinds of slowness", "Column `kind` of `fleet` and `check`."},
	{Word, "Other words", ""},
}

// Kinds lists the kinds in their order.
func Kinds() []Kind {
	kinds := make([]Kind, len(kindTable))
	for i, k := range kindTable {
		kinds[i] = k.kind
	}
	return kinds
}

// Title is the heading of the words of a kind.
func (k Kind) Title() string {
	title, _ := k.about()
	return title
}

// Seen names the outputs that use the words of a kind, in sentences; it is empty for [Word].
func (k Kind) Seen() string {
	_, seen := k.about()
	return seen
}

func (k Kind) about() (title, seen string) {
	for _, row := range kindTable {
		if row.kind == k {
			return row.title, row.seen
		}
	}
	return "", ""
}

// Term is one word and its explanation.
type Term struct {
	Name string `yaml:"name" json:"name"`
	Kind Kind   `yaml:"kind" json:"kind"`
	// Also lists column heads and other words with this explanation.
	Also []string `yaml:"also" json:"also,omitempty"`
	// Meaning is a phrase without a period.
	Meaning string `yaml:"meaning" json:"meaning"`
	// Picture is a drawing of a few lines of text.
	Picture string `yaml:"picture" json:"picture"`
	// Decided is how the program decides on it, Do what the reader can do; both in sentences.
	Decided string `yaml:"decided" json:"decided"`
	Do      string `yaml:"do" json:"do"`
}

// Terms lists all words by kind.
func Terms() []Term {
	terms, _ := read() // the file is embedded, and a test reads it
	return terms
}

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
			t.Meaning = cause.Kind(t.Name).Meaning()
		}
	}
	return terms, nil
}

// Find returns the words with a name, or with that name in Also; a rule and a remedy may share one. It ignores case, a
// plural s, and British or American spelling, and treats hyphens as spaces.
func Find(name string) []Term {
	name = plain(name)
	return slices.DeleteFunc(Terms(), func(t Term) bool {
		return plain(t.Name) != name && !slices.ContainsFunc(t.Also, func(w string) bool { return plain(w) == name })
	})
}

// plain normalizes names for comparison.
func plain(s string) string {
	s = strings.NewReplacer("-", " ", "quantis", "quantiz").Replace(strings.ToLower(strings.TrimSpace(s)))
	return strings.TrimSuffix(s, "s")
}

// Of returns the explanation of a word of a kind, or an empty one.
func Of(kind Kind, name string) Term {
	for _, t := range Terms() {
		if t.Kind == kind && t.Name == name {
			return t
		}
	}
	return Term{}
}

// Text is the explanation for a terminal, wrapped at width columns, without a final newline.
func (t Term) Text(width int) string {
	parts := []string{fmt.Sprintf("%s (%s): %s", t.Name, t.Kind, t.Meaning), "", "How it is decided: " + t.Decided, "What to do: " + t.Do}
	if seen := t.Kind.Seen(); seen != "" {
		parts = append(parts, "Where it appears: "+seen)
	}
	for i := range parts {
		parts[i] = strings.Join(Wrap(parts[i], width), "\n")
	}
	parts[1] = indented(t.Picture)
	return strings.Join(parts, "\n\n")
}

// Markdown is the meaning and what to do, as a section of a page.
func (t Term) Markdown() string {
	text := "### " + t.Name + "\n\n" + t.Sentence()
	if t.Do != "No action is needed." {
		text += " " + t.Do
	}
	more := slices.DeleteFunc(slices.Clone(t.Also), func(w string) bool {
		return regexp.MustCompile(`(?i)\b` + regexp.QuoteMeta(w) + `\b`).MatchString(text)
	})
	if len(more) > 0 {
		text += " Also: " + strings.Join(more, ", ") + "."
	}
	return text + "\n"
}

// Sentence returns the meaning as a sentence.
func (t Term) Sentence() string { return strings.ToUpper(t.Meaning[:1]) + t.Meaning[1:] + "." }

func indented(s string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n    ")
}

// Wrap breaks a text at spaces into lines of at most width columns. A wider word has its own line.
func Wrap(s string, width int) []string {
	var lines []string
	line, columns := "", 0
	for _, word := range strings.Fields(s) {
		n := utf8.RuneCountInString(word)
		if line != "" && columns+1+n > width {
			lines, line, columns = append(lines, line), "", 0
		}
		if line != "" {
			line, columns = line+" ", columns+1
		}
		line, columns = line+word, columns+n
	}
	return append(lines, line)
}
