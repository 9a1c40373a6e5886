package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/query"
	"github.com/gemmaudit/gemmaudit/report"
)

// selectFlags say what of a result is listed, and in which order; `audit`, `splits`, `diff`, `report` and
// `export` share them.
type selectFlags struct {
	where string
	sort  string
	top   int
}

func (f *selectFlags) register(cmd *cobra.Command, of query.Set) {
	flags := cmd.Flags()
	flags.StringVar(&f.where, "where", "", "list only what an expression holds for, as in 'kernel=cublas && m>64'")
	flags.StringVar(&f.sort, "sort", "", "order by these names, separated by commas; - in front begins with the largest")
	flags.IntVar(&f.top, "top", 0, "list so many at most, 0 for all")
	complete(cmd, "sort", listOf(func() []string {
		var words []string
		for _, n := range query.Names(of) {
			words = append(words, cobra.CompletionWithDesc(n.Name, n.Meaning), cobra.CompletionWithDesc("-"+n.Name, "the largest first"))
		}
		return words
	}))
	complete(cmd, "where", func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		// What was typed up to the last name stays in front.
		at := strings.LastIndexAny(typed, " &|(!") + 1
		var words []string
		for _, n := range query.Names(of) {
			words = append(words, cobra.CompletionWithDesc(typed[:at]+n.Name, n.Meaning))
		}
		return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
	complete(cmd, "top", fixed("1", "5", "10", "20"))
}

// query reads the flags for records of a set.
func (f *selectFlags) query(of query.Set) (*query.Query, error) {
	q, err := query.Parse(f.where, f.sort, f.top, of)
	return q, selectError(err)
}

// selectError makes an error of a query one of its flag.
func selectError(err error) error {
	var part *query.ErrorOf
	if errors.As(err, &part) {
		return hint(usagef("--%s: %w", part.Part, part.Err), "`gemmaudit explain where` has the names and operators")
	}
	return err
}

// refuseBench refuses to select from samples in Go's benchmark format, which has no place to say so.
func refuseBench(q *query.Query, f report.Format) error {
	if f == report.Bench && !q.All() {
		return hint(usagef("-o bench can't be combined with --where, --sort and --top"), "`benchstat -filter` selects benchmarks; `gemmaudit export` samples")
	}
	return nil
}

// selectHelp says in a help text what --where selects and what it leaves alone.
func selectHelp(of query.Set) string {
	var names []string
	for _, n := range query.Names(of) {
		names = append(names, n.Name)
	}
	return "--where, --sort and --top say what is listed, in every format. Verdicts, summaries, tables of remedies and the\n" +
		"exit code are those of all. Operators: == (or =) != < <= > >= in contains matches && || !. Names:\n" +
		wrapWords(names, 100) + ".\n`gemmaudit explain where` explains them."
}

// wrapWords lists words, separated by commas, in lines of a width, indented by two.
func wrapWords(words []string, width int) string {
	var b strings.Builder
	line := "  "
	for i, w := range words {
		if i < len(words)-1 {
			w += ","
		}
		if len(line)+len(w) > width {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = "  "
		}
		line += w + " "
	}
	b.WriteString(strings.TrimRight(line, " "))
	return b.String()
}
