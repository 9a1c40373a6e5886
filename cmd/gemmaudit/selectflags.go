package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/report/query"
)

// selectFlags choose and sort the listed results; `audit`, `splits`, `diff`, `report` and `export` share
// them.
type selectFlags struct {
	where string
	sort  string
	top   int
}

func (f *selectFlags) register(cmd *cobra.Command, of query.Set) {
	flags := cmd.Flags()
	flags.StringVar(&f.where, "where", "", "list only matching entries, as in 'kernel=cublas && m>64'")
	flags.StringVar(&f.sort, "sort", "", "sort by these names, as in -stake,m; - puts the largest first")
	addFlag(cmd, &f.top, "top", 0, "list at most N entries, 0 for all", fixed("1", "5", "10", "20"))
	complete(cmd, "sort", listOf(func() []string {
		var words []string
		for _, n := range query.Names(of) {
			words = append(words, cobra.CompletionWithDesc(n.Name, n.Meaning), cobra.CompletionWithDesc("-"+n.Name, "the largest first"))
		}
		return words
	}))
	complete(cmd, "where", func(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		// Keep the typed text before the last name.
		at := strings.LastIndexAny(typed, " &|(!") + 1
		var words []string
		for _, n := range query.Names(of) {
			words = append(words, cobra.CompletionWithDesc(typed[:at]+n.Name, n.Meaning))
		}
		return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
}

func (f *selectFlags) query(of query.Set) (*query.Query, error) {
	q, err := query.Parse(f.where, f.sort, f.top, of)
	return q, selectError(err)
}

// selectError attributes a query's error to its flag.
func selectError(err error) error {
	var part *query.ErrorOf
	if errors.As(err, &part) {
		return hint(usagef("--%s: %w", part.Part, part.Err), "`gemmaudit explain where` lists names and operators")
	}
	return err
}

// refuseBench rejects a selection of samples in Go's benchmark format, which cannot record it.
func refuseBench(q *query.Query, f report.Format) error {
	if f == report.Bench && !q.All() {
		return hint(usagef("-o bench can't be combined with --where, --sort and --top"),
			"`benchstat -filter` selects benchmarks; `gemmaudit export` samples")
	}
	return nil
}
