package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/query"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
)

type splitsOptions struct {
	app      *app
	rules    ruleFlags
	ratio    float64
	among    string
	remedies remedyFlags
	accept   rules.Accept
	traffic  string
	maxParts int
	execute  bool
	tables   []string
	force    bool
	empty    bool
	listed   selectFlags
	output   report.Format

	given func(flag string) bool
}

func newSplitsCommand(a *app) *cobra.Command {
	opts := &splitsOptions{app: a}
	cmd := &cobra.Command{
		Use:   "splits RUN",
		Short: "Search splits, padding and other kernels that are faster, and run them",
		Example: examples(
			"gemmaudit splits run.db",
			"gemmaudit splits run.db --table gemm.json --table gemm.h   # what an engine loads",
			"gemmaudit splits run.db --execute                          # again, on this machine",
			"gemmaudit splits run.db --execute=false                    # predictions only",
			"gemmaudit splits run.db --where 'pays && gain>1.1' --sort -gain --top 10",
			"gemmaudit splits run.db --execute --engine-kernels cublas,cublaslt --pads copied --fill --table gemm.json",
			"gemmaudit splits run.db --method article --threshold 0.85 --ratio 0.9 --among all -o json",
		),
		Long: `For each slow row remedies compete: two or more launches into one output buffer, a padded
batch, another kernel, another algorithm of a library, or the product as it is. A remedy that
is only predicted from the run is a candidate. It is executed as it would be used, interleaved
with the direct product, where the run was measured on this machine; and only what is proven to
pay is written to a table. Remedies are listed by the time that they save.

What an engine can do differs. --engine-kernels names the kernels that it has, --remedies the
kinds that it takes. A pad in place needs room behind the rows, of the input and of the output;
--pads copied has the rows copied first, into a buffer with room, and counts the copy. The output
has room, since whoever launches allocates it. With both, a pad that pays with the copy is kept so.

--fill executes Ms between those that were swept. If the whole sample of a stretch pays, the table
holds for each M of it; if not, for the swept ones alone. A table says how many of all integers
it serves.

--traffic weighs rows by how often they are served, and the summary says what the whole table saves in
a second of it. It names a CSV with the columns m and weight; the weight of an M holds up to the next one
that is listed, and only ratios of weights matter. Traffic below the first and above the last swept M counts
for nothing, and its share is said.

Remedies that pay are proven with their result: its error against float64 beside the direct
product's, whether the bits are the same, and whether a row has the same bits at other Ms. What is
wrong by the correctness check is no remedy. --same-bits and --batch-invariant keep only such.

What was executed is kept in the run. While it holds it is shown, and written to tables,
without a device; --execute executes anew, and so does a search with another --among, --ratio,
--max-parts, or flag of what the engine can do. What another search has found takes the place of what
is kept only with --execute, and only if some remedy pays; stderr says so.

--method article predicts, whatever is kept. A change of a key of the rules file that remedies rest on
(threshold where only flagged rows were searched, fdr, confidence, clock_mhz, min_samples,
drift_bound, remedy's margin, slower and max_parts), or more samples in the sweep, undoes them: stderr names the key with both values, and the exit code is
4 unless they are executed anew. --execute=false shows predictions; with --table, what is kept.

` + selectHelp(query.Remedies) + `

Slow rows are those that the monotonic rule flags. --among all searches every row, as the
run command does: a split may pay where no rule complains.

Tables: .json with validators and proofs, .csv, .h a C header, .go a Go package. Without a
remedy that was executed and pays there is nothing to write: no file appears, and the exit
code is 4. --allow-empty writes a table that says so, and exits with 0.` + exitHelp(
			"0    searched, and the requested tables are written",
			"3    cases failed in the run, or it is damaged; --execute: the device failed, also where that was with",
			"     one remedy; or it is not on this machine; a table can't be written",
			"4    no sample to search, no remedy to write to the table, kept remedies are undone, cases of the",
			"     plan are missing, or several machines measured the run",
			"130  interrupted; no table is written"),
		Args:              exactArgs("RUN"),
		ValidArgsFunction: runFiles(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.given = cmd.Flags().Changed
			return opts.run(cmd.Context(), args[0])
		},
	}
	opts.rules.register(cmd)
	broughtFlags(a, cmd)
	a.faults.register(cmd)
	opts.rules.registerClock(cmd)
	flags := cmd.Flags()
	flags.Float64Var(&opts.ratio, "ratio", 0, "largest share of the direct time that a prediction may take, 0 for the rules' margin")
	flags.StringVar(&opts.among, "among", rules.AmongFlagged, "rows to search: flagged (by the monotonic rule), all")
	opts.remedies.register(a, cmd)
	flags.StringVar(&opts.traffic, "traffic", "", "CSV of m,weight, how often each M is served: the weight of time at stake (default the run's)")
	flags.IntVar(&opts.maxParts, "max-parts", 0, "most launches of a split, 0 for the rules' choice")
	flags.BoolVar(&opts.execute, "execute", false, "run what is predicted (default: when the run keeps none and was measured on this machine)")
	flags.StringSliceVar(&opts.tables, "table", nil, "write the lookup table: out.json, out.csv, out.h, out.go (repeatable)")
	flags.BoolVar(&opts.empty, "allow-empty", false, "write a table without a remedy too, and exit 0")
	flags.BoolVar(&opts.force, "force", false, "replace existing files")
	acceptFlags(cmd, &opts.accept)
	opts.listed.register(cmd, query.Remedies)
	timingsFlag(cmd, &opts.output)
	complete(cmd, "among", fixed(rules.AmongFlagged, rules.AmongAll))
	complete(cmd, "ratio", fixed("0.9", "0.95"))
	complete(cmd, "max-parts", fixed("2", "3", "4"))
	complete(cmd, "table", filesWith(tableExtensions...))
	complete(cmd, "traffic", filesWith("csv"))
	return cmd
}

func (o *splitsOptions) run(ctx context.Context, path string) (failed error) {
	a := o.app
	cfg, err := o.rules.config(a)
	if err != nil {
		return err
	}
	if err := a.faults.check(); err != nil {
		return err
	}
	listed, err := o.listed.query(query.Remedies)
	if err != nil {
		return err
	}
	if err := refuseBench(listed, o.output); err != nil {
		return err
	}
	search, err := o.search()
	if err != nil {
		return err
	}
	if err := checkTablePaths(o.tables, o.force); err != nil {
		return err
	}
	var traffic results.Traffic
	if o.traffic != "" {
		if traffic, err = results.ReadTraffic(o.traffic); err != nil {
			return badFlag("traffic", err)
		}
	}
	run, err := a.openRun(path, false)
	if err != nil {
		return err
	}
	defer func() { closeRun(run, &failed) }()
	if err := o.checkKernels(run, search.Kernels); err != nil {
		return err
	}
	if cfg.Method == rules.MethodArticle && o.given("execute") && o.execute {
		return usagef("--execute can't be combined with --method article, which only predicts")
	}
	found, outdated, err := o.shown(run, cfg, search)
	if err != nil {
		return err
	}
	if found == nil {
		execute := o.execute
		if !o.given("execute") {
			execute = cfg.Method != rules.MethodArticle && a.measuredHere(run.Meta())
		}
		if execute {
			if err := run.Close(); err != nil {
				return err
			}
			writable, err := a.openRun(path, true)
			if err != nil {
				return err
			}
			run = writable
			outdated = undone{} // it is renewed
		}
		if found, err = a.findSplits(ctx, run, cfg, search, execute, o.given("execute")); err != nil {
			return err
		}
	}
	if traffic != nil {
		data, err := rules.LoadData(run)
		if err != nil {
			return err
		}
		data.Traffic = traffic
		found.Weigh(data)
	}
	// What an interrupt cut short is shown, but takes no table's place.
	var empty error
	if ctx.Err() == nil && len(o.tables) > 0 {
		if empty, err = o.nothingToWrite(path, run.Meta(), found); err != nil {
			return err
		}
		if empty == nil {
			if _, err := a.writeTables(o.tables, o.force, run.Meta(), found); err != nil {
				return err
			}
		}
	}
	shown, err := listed.Splits(found)
	if err != nil {
		return selectError(err)
	}
	if err := a.wrapPrint(report.WriteSplits(a.stream(a.stdout), o.output, run.Meta(), shown)); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return interruptedf("%s: stopped before all remedies were tried; no table is written", path)
	}
	holds, err := held(run)
	if err != nil {
		return err
	}
	evidence := rules.Evidence{Name: path, Held: []rules.Held{holds}, Accept: o.accept, Broken: groundsOf(a.notMeasured(run)), Open: groundsOf(empty, outdated.err())}
	if holds.Held == 0 {
		evidence.Open = append(evidence.Open, rules.Ground{Text: path + ": there is no sample to search"})
	} else if s := found.Scope; s != nil && s.Rows == 0 && s.Few > 0 {
		evidence.Open = append(evidence.Open, rules.Ground{Text: path + ": no row has samples enough to be searched", Hint: "repeat each size: what single samples suggest is listed as suspected"})
	}
	return a.conclude(evidence)
}

// shown returns the remedies that were executed before, nil when they are not to be
// shown: others are asked for, there are none, or they no longer hold.
func (o *splitsOptions) shown(run *results.Run, cfg rules.Config, search rules.SplitOptions) (*rules.SplitsResult, undone, error) {
	predict := o.given("execute") && len(o.tables) == 0
	if o.execute || predict || cfg.Method == rules.MethodArticle {
		return nil, undone{}, nil
	}
	if _, any, err := run.State(stateSplits); err != nil || !any {
		return nil, undone{}, err
	}
	data, err := rules.LoadData(run)
	if err != nil {
		return nil, undone{}, err
	}
	remedies, outdated, err := o.app.keptRemedies(run, data, cfg)
	if err != nil || remedies == nil {
		return nil, outdated, err
	}
	if changes := given(o.given, searchChanges(search, remedies.Search)); len(changes) > 0 {
		o.app.notef("the remedies that %s keeps were sought in another way: %v", run.Path(), changes[0])
		return nil, outdated, nil
	}
	o.app.notef("remedies as they were executed before; --execute executes them anew")
	return remedies.Result, outdated, nil
}

// nothingToWrite is what is said of tables that were asked for and would be empty, nil
// when there is something to write or an empty table will do.
func (o *splitsOptions) nothingToWrite(path string, meta results.Meta, found *rules.SplitsResult) (empty, err error) {
	if o.empty {
		return nil, nil
	}
	// Some operations have no place in a table, so that the table itself is looked at.
	for _, id := range found.Devices() {
		t, err := rules.BuildTable(meta, found.On(id))
		if err != nil {
			return nil, fmt.Errorf("build the table: %w", err)
		}
		if slices.ContainsFunc(t.Series, func(s table.Series) bool { return len(s.Intervals) > 0 }) {
			return nil, nil
		}
	}
	executed := 0
	for _, r := range slices.Concat(found.Splits, found.Rejected) {
		if r.Executed {
			executed++
		}
	}
	why, do := report.SplitsSummary(found), ""
	switch {
	case len(found.Stretches) > 0:
		why = "what pays is of operations that a table has no place for"
	case executed > 0:
		why = fmt.Sprintf("of %d that were executed none pays", executed)
	case len(found.Splits)+found.Untried > 0:
		why, do = "none was executed, and predictions are no proof", "--execute on the machine of the run proves remedies; "
	case found.LeftOut > 0:
		why = "the results of all that are predicted are others than were asked for, or nobody can say"
		do = "without --same-bits and --batch-invariant remedies are executed whatever their results are; "
	case len(found.Searched) == 0:
		do = "--engine-kernels names kernels of the run; "
	case found.Scope != nil && found.Scope.Rows == 0 && found.Scope.Few == 0:
		do = "--among all searches every row; "
	}
	return hint(inconclusivef("%s: no remedy to write, so %s not written: %s", path, strings.Join(o.tables, ", ")+" "+isAre(len(o.tables)), why),
		"%s--allow-empty writes a table without any", do), nil
}

// search parses the flags of the search.
func (o *splitsOptions) search() (rules.SplitOptions, error) {
	search := rules.SplitOptions{Ratio: o.ratio, Among: o.among, MaxParts: o.maxParts}
	if err := o.remedies.search(&search); err != nil {
		return search, err
	}
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

// checkKernels refuses names of kernels that neither the run nor this machine has, nor the search before
// was given.
func (o *splitsOptions) checkKernels(run *results.Run, names []string) error {
	if len(names) == 0 {
		return nil
	}
	series, err := run.Series()
	if err != nil {
		return err
	}
	keys := make([]results.SeriesKey, len(series))
	for i, s := range series {
		keys[i] = s.Key
	}
	return checkEngineKernels(names, measuredKernels(keys), o.app.implementations)
}

// findSplits searches remedies, with the device asked when execute says so. What was executed is kept in the
// run; asked says that it is to take the place of what another search has proven.
func (a *app) findSplits(ctx context.Context, run *results.Run, cfg rules.Config, search rules.SplitOptions, execute, asked bool) (*rules.SplitsResult, error) {
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
	if err := errors.Join(err, a.leave(measurer)); err != nil {
		return nil, err
	}
	return found, a.keepRemedies(ctx, run, rules.NewExecutedRemedies(found, cfg, search, data.Samples()), asked)
}
