package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
)

type splitsOptions struct {
	app      *app
	rules    ruleFlags
	ratio    float64
	among    string
	maxParts int
	execute  bool
	tables   []string
	force    bool
	output   report.Format

	executeGiven bool
}

func newSplitsCommand(a *app) *cobra.Command {
	opts := &splitsOptions{app: a}
	cmd := &cobra.Command{
		Use:   "splits RUN",
		Short: "Search splits, padding and other kernels that are faster, and run them",
		Example: examples(
			"gemmaudit splits run.db",
			"gemmaudit splits run.db --table gemm.json --table gemm.h   # what an engine loads",
			"gemmaudit splits run.db --execute=false                    # predictions only",
			"gemmaudit splits run.db --method article --threshold 0.85 --ratio 0.9 --among all -o json",
		),
		Long: `For each slow row remedies compete: two or more launches into one output buffer, a padded
batch, another kernel, or the product as it is. A remedy that is only predicted from the
run is a candidate. It is executed as it would be used, interleaved with the direct
product, where the run was measured on this machine; and only what is proven to pay is
written to a table.

Slow rows are those that the monotonic rule flags. --among all searches every row, as the
run command does: a split may pay where no rule complains.

Tables: .json with validators and proofs, .csv, .h a C header, .go a Go package.`,
		Args:              exactArgs("RUN"),
		ValidArgsFunction: runFiles(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.executeGiven = cmd.Flags().Changed("execute")
			return opts.run(cmd.Context(), args[0])
		},
	}
	opts.rules.register(cmd)
	flags := cmd.Flags()
	flags.Float64Var(&opts.ratio, "ratio", 0, "largest share of the direct time that a prediction may take, 0 for the rules' margin")
	flags.StringVar(&opts.among, "among", rules.AmongFlagged, "rows to search: flagged (by the monotonic rule), all")
	flags.IntVar(&opts.maxParts, "max-parts", 0, "most launches of a split, 0 for the rules' choice")
	flags.BoolVar(&opts.execute, "execute", false, "run what is predicted (default: when the run was measured on this machine)")
	flags.StringSliceVar(&opts.tables, "table", nil, "write the lookup table: out.json, out.csv, out.h, out.go (repeatable)")
	flags.BoolVar(&opts.force, "force", false, "replace existing files")
	timingsFlag(cmd, &opts.output)
	complete(cmd, "among", fixed(rules.AmongFlagged, rules.AmongAll))
	complete(cmd, "ratio", fixed("0.9", "0.95"))
	complete(cmd, "max-parts", fixed("2", "3", "4"))
	complete(cmd, "table", filesWith(tableExtensions...))
	return cmd
}

func (o *splitsOptions) run(ctx context.Context, path string) error {
	a := o.app
	cfg, err := o.rules.config(a)
	if err != nil {
		return err
	}
	search, err := o.search()
	if err != nil {
		return err
	}
	for _, t := range o.tables {
		if err := checkTablePath(t, o.force); err != nil {
			return err
		}
	}
	run, err := a.openRun(path, false)
	if err != nil {
		return err
	}
	meta := run.Meta()
	execute := o.execute
	switch {
	case cfg.Method == rules.MethodArticle && o.executeGiven && o.execute:
		return errors.Join(usagef("--execute can't be combined with --method article, which only predicts"), run.Close())
	case !o.executeGiven:
		execute = cfg.Method != rules.MethodArticle && a.measuredHere(meta)
	}
	if execute {
		if err := run.Close(); err != nil {
			return err
		}
		if run, err = a.openRun(path, true); err != nil {
			return err
		}
	}
	defer run.Close()
	found, err := a.findSplits(ctx, run, cfg, search, execute)
	if err != nil {
		return err
	}
	// What an interrupt cut short is shown, but takes no table's place.
	if ctx.Err() == nil {
		if _, err := a.writeTables(o.tables, o.force, meta, found); err != nil {
			return err
		}
	}
	if err := a.wrapPrint(report.WriteSplits(a.stream(a.stdout), o.output, meta, found)); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return interruptedf("%s: stopped before all remedies were tried; no table is written", path)
	}
	return nil
}

// search parses the flags of the search.
func (o *splitsOptions) search() (rules.SplitOptions, error) {
	search := rules.SplitOptions{Ratio: o.ratio, Among: o.among, MaxParts: o.maxParts}
	switch {
	case !(o.ratio >= 0 && o.ratio <= 1): // NaN is neither
		return search, usagef("--ratio: %v, expected above 0 and at most 1", o.ratio)
	case o.among != rules.AmongFlagged && o.among != rules.AmongAll:
		return search, usagef("--among: %q, expected flagged or all", o.among)
	case o.maxParts != 0 && (o.maxParts < 2 || o.maxParts > 16):
		return search, usagef("--max-parts: %d, expected 2 to 16", o.maxParts)
	}
	return search, nil
}

// findSplits searches remedies, with the device asked when execute says so.
func (a *app) findSplits(ctx context.Context, run *results.Run, cfg rules.Config, search rules.SplitOptions, execute bool) (*rules.SplitsResult, error) {
	data, err := rules.LoadData(run)
	if err != nil {
		return nil, err
	}
	if !execute {
		return rules.FindSplits(ctx, data, cfg, search, nil)
	}
	measurer, err := a.newMeasurer(run)
	if err != nil {
		return nil, err
	}
	found, err := rules.FindSplits(ctx, data, cfg, search, measurer)
	if err := errors.Join(err, measurer.Close()); err != nil {
		return nil, err
	}
	return found, keepWhole(ctx, run, stateSplits, cfg, found)
}
