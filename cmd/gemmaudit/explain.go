package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/query"
	"github.com/gemmaudit/gemmaudit/rules/explain"
)

// topicWhere is the name under which the language of --where is explained.
const topicWhere = "where"

func newExplainCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "explain [NAME]",
		Short: "Explain a rule, a cause, a verdict or another word of the output",
		Example: examples(
			"gemmaudit explain                     # which words there are",
			"gemmaudit explain wave-quantisation",
			"gemmaudit explain marginal",
			"gemmaudit explain where               # names and operators of --where and --sort",
		),
		Long: `Says what a word of the output is, with a small picture, how it is decided, and what to do
about it. Reports, docs/explain.md and the manual page gemmaudit-explain(1) have the same text.` + exitHelp(
			"0  explained",
			"2  the word is none of the output's"),
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			words := []cobra.Completion{cobra.CompletionWithDesc(topicWhere, "names and operators of --where and --sort")}
			for _, t := range explain.Terms() {
				words = append(words, cobra.CompletionWithDesc(t.Name, t.Meaning))
			}
			return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.write(listTerms())
			}
			text, err := explained(args[0])
			if err != nil {
				return err
			}
			return a.write(text)
		},
	}
}

// write prints text on stdout.
func (a *app) write(text string) error {
	_, err := fmt.Fprintln(a.stdout, text)
	return a.printed(err)
}

// listTerms lists the words that are explained, by kind.
func listTerms() string {
	var b strings.Builder
	for _, kind := range explain.Kinds() {
		fmt.Fprintf(&b, "%s\n", kind)
		for _, t := range explain.Terms() {
			if t.Kind == kind {
				fmt.Fprintf(&b, "  %-19s %s\n", t.Name, t.Meaning)
			}
		}
	}
	fmt.Fprintf(&b, "--where, --sort\n  %-19s names and operators", topicWhere)
	return b.String()
}

// explained is what there is to read of a word.
func explained(name string) (string, error) {
	if name == topicWhere {
		return whereText(), nil
	}
	terms := explain.Find(name)
	if len(terms) == 0 {
		err := usagef("unknown word %q", name)
		if near := nearTerms(name); len(near) > 0 {
			return "", hint(err, "did you mean %s? `gemmaudit explain` lists all", strings.Join(near, " or "))
		}
		return "", hint(err, "`gemmaudit explain` lists all")
	}
	var texts []string
	for _, t := range terms {
		texts = append(texts, t.Text())
	}
	return strings.Join(texts, "\n\n"), nil
}

// nearTerms are the words that one may have meant: those that begin or contain name, or that differ from
// it in two letters at most.
func nearTerms(name string) []string {
	name = strings.ToLower(name)
	var near []string
	for _, t := range explain.Terms() {
		if !slices.Contains(near, t.Name) && (len(name) > 2 && strings.Contains(t.Name, name) || edits(t.Name, name) <= 2) {
			near = append(near, t.Name)
		}
	}
	return near[:min(3, len(near))]
}

// edits is how many letters have to be changed, added or dropped to make b of a.
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

// whereOperators are the operators of --where with what they do.
var whereOperators = [][2]string{
	{"== != < <= > >=", "compare; a single = is =="},
	{"in [a, b]", "is one of a list; not in is none of it"},
	{"contains, startsWith, endsWith", "look into a text"},
	{"matches", "holds a text against a regular expression, as in label matches '^nvjet'"},
	{"&& || !", "and, or, not, which may be written as words"},
	{"+ - * / %", "compute, as in m % 128 != 0"},
}

// whereText explains the language of --where and --sort in a terminal.
func whereText() string {
	var b strings.Builder
	b.WriteString(`--where selects what is listed by an expression, as in
  --where 'kernel=cublas && loss>0.1'
  --where 'cause in [wave-quantisation, tile-quantisation] and m % 128 != 0'
--sort orders it by names, those with - in front from the largest: --sort -stake,m
--top N lists the first N. Verdicts, summaries and exit codes are those of all.

Operators:
`)
	for _, o := range whereOperators {
		fmt.Fprintf(&b, "  %-31s %s\n", o[0], o[1])
	}
	b.WriteString("A word behind == and in a list needs no quotes where a text is expected. A number that is not known is\n" +
		"neither equal to, nor less, nor greater than any other.\n\nNames:\n")
	for _, n := range query.Meanings(everyRecord) {
		unit := n.Unit
		if unit == "" {
			unit = string(n.Type)
		}
		fmt.Fprintf(&b, "  %-12s %-7s %s\n  %20s of %s\n", n.Name, unit, n.Meaning, "", n.Of)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// everyRecord are the records of all commands.
const everyRecord = query.Findings | query.Remedies | query.Changes | query.Rows | query.Samples

// explainPage is docs/explain.md.
func explainPage() string {
	var b strings.Builder
	b.WriteString("<!-- Written by `go test ./cmd/gemmaudit -run TestExplainPage -update` from rules/explain/terms.yaml and the declarations of fields. -->\n" +
		"# The words of the output\n\n`gemmaudit explain NAME` prints what stands here of a word. [rules.md](rules.md) has the settings of rules.\n")
	for _, kind := range explain.Kinds() {
		fmt.Fprintf(&b, "\n## Kind: %s\n", kind)
		for _, t := range explain.Terms() {
			if t.Kind == kind {
				b.WriteString("\n" + t.Markdown())
			}
		}
	}
	b.WriteString("\n## --where and --sort\n\n`--where` selects what audit, splits, diff, report and export list, `--sort` orders it, and `--top N` lists the\n" +
		"first N. Verdicts, summaries, tables and exit codes are those of all.\n\n| operators | meaning |\n| --- | --- |\n")
	cell := strings.NewReplacer("|", `\|`)
	for _, o := range whereOperators {
		fmt.Fprintf(&b, "| `%s` | %s |\n", cell.Replace(o[0]), o[1])
	}
	b.WriteString("\n| name | type | unit | meaning | of |\n| --- | --- | --- | --- | --- |\n")
	for _, n := range query.Meanings(everyRecord) {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", n.Name, n.Type, n.Unit, n.Meaning, n.Of)
	}
	return b.String()
}
