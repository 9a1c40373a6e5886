package explain

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Hanging is a text behind a head, wrapped at width columns, with its lines below each other.
func Hanging(head, text string, width int) string {
	indent := utf8.RuneCountInString(head)
	return head + strings.Join(Wrap(text, width-indent), "\n"+strings.Repeat(" ", indent)) + "\n"
}

// List lists all words by kind, with their meanings, wrapped at width columns.
func List(width int) string {
	var b strings.Builder
	for _, kind := range Kinds() {
		fmt.Fprintf(&b, "%s\n", kind)
		for _, t := range Terms() {
			if t.Kind == kind {
				b.WriteString(Hanging(fmt.Sprintf("  %-19s ", t.Name), t.Meaning, width))
			}
		}
	}
	return b.String()
}

// Near returns up to three terms that contain name or differ from it in at most two letters.
func Near(name string) []string {
	name = strings.ToLower(name)
	var near []string
	for _, t := range Terms() {
		if !slices.Contains(near, t.Name) && (len(name) > 2 && strings.Contains(t.Name, name) || edits(t.Name, name) <= 2) {
			near = append(near, t.Name)
		}
	}
	return near[:min(3, len(near))]
}

func edits(a, b string) int {
	if len(b) > 100 {
		return len(b)
	}
	row := make([]int, len(b)+1)
	for i := range row {
		row[i] = i
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for k := range len(b) {
			cost := last
			if a[i] != b[k] {
				cost++
			}
			last = row[k+1]
			row[k+1] = min(cost, row[k+1]+1, row[k]+1)
		}
	}
	return row[len(b)]
}

// Glossary is the page docs/glossary.md.
func Glossary() string {
	var b strings.Builder
	b.WriteString("<!-- Written by `go test ./rules/explain -run TestGlossaryPage -update` from rules/explain/terms.yaml and the rules. " +
		"-->\n" +
		"# Glossary\n\nThe words of the output, and what to do. `gemmaudit explain WORD` adds how each is decided, and a picture. " +
		"[Rules](rules.md) has\n" +
		"the rules. `gemmaudit explain where` lists the names for `--where` and `--sort`.\n")
	for _, kind := range Kinds() {
		if kind == Rule {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n", kind.Title())
		if seen := kind.Seen(); seen != "" {
			b.WriteString("\n" + strings.ReplaceAll(seen, "docs/rules.md", "[rules.md](rules.md)") + "\n")
		}
		for _, t := range Terms() {
			if t.Kind == kind {
				b.WriteString("\n" + t.Markdown())
			}
		}
	}
	return b.String()
}
