package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/report/query"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/importing"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/results/table/file"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/outcome"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/rules/verdict"
)

type splitsOptions struct {
	app      *app
	rules    ruleFlags
	ratio    float64
	among    string
	remedies remedyFlags
	accept   outcome.Accept
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
		Use:               "splits RUN",
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
	addFlag(cmd, &opts.ratio, "ratio", 0, "keep predictions below this share of the direct time, 0 for the rules' margin",
		fixed("0.9", "0.95"))
	addFlag(cmd, &opts.among, "among", remedy.AmongFlagged, "sizes to search: flagged (by the monotonic rule), all",
		fixed(remedy.AmongFlagged, remedy.AmongAll))
	opts.remedies.register(a, cmd)
	addFlag(cmd, &opts.traffic, "traffic", "", "CSV of m,weight: how often each M is served (default: from the run)", filesWith("csv"))
	addFlag(cmd, &opts.maxParts, "max-parts", 0, "maximum launches of a split, 0 for the rules' choice", fixed("2", "3", "4"))
	flags.BoolVar(&opts.execute, "execute", false, "execute predictions (default: if the run was measured here and has none executed)")
	addFlag(cmd, &opts.tables, "table", nil, "write the lookup table: .json, .csv, .h or .go (repeatable)", filesWith(file.Extensions...))
	flags.BoolVar(&opts.empty, "allow-empty", false, "write a table even without a remedy, and exit 0")
	flags.BoolVar(&opts.force, "force", false, "replace existing files")
	acceptFlags(cmd, &opts.accept)
	opts.listed.register(cmd, query.Remedies)
	timingsFlag(cmd, &opts.output)
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
	traffic := parsed(&err, "traffic", o.traffic, importing.ReadTraffic)
	if err != nil {
		return err
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
			outdated = verdict.Outdated{} // it is renewed
		}
		if found, err = a.findSplits(ctx, run, cfg, search, execute, o.given("execute")); err != nil {
			return err
		}
	}
	if traffic != nil {
		data, err := infer.LoadData(run)
		if err != nil {
			return err
		}
		data = data.Along(cfg.Basis())
		data.Traffic, data.Recorded = traffic, nil
		found.Weigh(data)
	}
	// Print the results of an interrupted search, but do not write a table.
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
	evidence := outcome.Evidence{Name: path, Held: []outcome.Held{holds}, Accept: o.accept, Broken: groundsOf(a.notMeasured(run)),
		Open: append(groundsOf(empty), outdated.Grounds()...)}
	if found.Invalid != "" {
		evidence.Open = append(evidence.Open, outcome.Ground{Text: path + ": " + found.Invalid, Hint: verdict.UnsteadyHint})
	}
	if holds.Held == 0 {
		evidence.Open = append(evidence.Open, outcome.Ground{Text: path + ": no samples to search"})
	} else if s := found.Scope; s != nil && s.Rows == 0 && s.Few > 0 {
		evidence.Open = append(evidence.Open, outcome.Ground{Text: path + ": no row has enough samples to be searched",
			Hint: "measure each size several times; findings with too few samples are listed as suspected"})
	}
	return a.conclude(evidence)
}

// shown returns the remedies executed before. It returns nil if they are missing or outdated, or others
// were requested.
func (o *splitsOptions) shown(run *results.Run, cfg rules.Config,
	search remedy.Options) (*remedy.Result, verdict.Outdated, error) {
	predict := o.given("execute") && len(o.tables) == 0
	if o.execute || predict || cfg.Method == rules.MethodArticle {
		return nil, verdict.Outdated{}, nil
	}
	if _, any, err := run.State(verdict.StateSplits); err != nil || !any {
		return nil, verdict.Outdated{}, err
	}
	data, err := infer.LoadData(run)
	if err != nil {
		return nil, verdict.Outdated{}, err
	}
	remedies, outdated, err := o.app.store(run).Remedies(data, cfg)
	if err != nil || remedies == nil {
		return nil, outdated, err
	}
	if changes := given(o.given, verdict.SearchChanges(search, remedies.Search)); len(changes) > 0 {
		o.app.notef("the remedies stored in %s come from another search: %v", run.Path(), changes[0])
		return nil, outdated, nil
	}
	remedies.Result.Invalid = infer.Unjudgeable(data, cfg.Basis())
	o.app.notef("remedies are from an earlier execution; --execute executes them again")
	return remedies.Result, outdated, nil
}

// nothingToWrite is the error for requested tables that would be empty. It is nil if there is something to
// write or an empty table is acceptable.
func (o *splitsOptions) nothingToWrite(path string, meta results.Meta, found *remedy.Result) (empty, err error) {
	if o.empty {
		return nil, nil
	}
	// Tables do not support all operations, so check the table itself.
	for _, id := range found.Devices() {
		t, err := remedy.BuildTable(meta, found.On(id))
		if err != nil {
			return nil, fmt.Errorf("build the table: %w", err)
		}
		if len(t.Advice) > 0 || slices.ContainsFunc(t.Series, func(s table.Series) bool { return len(s.Intervals) > 0 }) {
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
		why = "only operations that tables do not support have remedies that pay"
	case executed > 0:
		why = fmt.Sprintf("no remedy of the %d executed pays", executed)
	case len(found.Splits)+found.Untried > 0:
		why, do = "no remedy was executed, and predictions are not proof", "use --execute on the machine of the run; "
	case found.LeftOut > 0:
		why = "all predicted remedies may have other results than --same-bits or --batch-invariant allow"
		do = "omit --same-bits and --batch-invariant to execute them; "
	case len(found.Searched) == 0:
		do = "check the names in --engine-kernels; "
	case found.Scope != nil && found.Scope.Rows == 0 && found.Scope.Few == 0:
		do = "--among all searches every row; "
	}
	return hint(inconclusivef("%s: no remedy to write, so %s not written: %s", path, strings.Join(o.tables, ", ")+" "+isAre(len(o.tables)),
		why),
		"%s--allow-empty writes a table without remedies", do), nil
}

func (o *splitsOptions) search() (remedy.Options, error) {
	search := remedy.Options{Ratio: o.ratio, Among: o.among, MaxParts: o.maxParts}
	if err := o.remedies.search(&search); err != nil {
		return search, err
	}
	switch {
	case !(o.ratio >= 0 && o.ratio <= 1): // NaN is neither
		return search, usagef("--ratio: %v, expected above 0 and at most 1", o.ratio)
	case o.among != remedy.AmongFlagged && o.among != remedy.AmongAll:
		return search, usagef("--among: %q, expected flagged or all", o.among)
	case o.maxParts != 0 && (o.maxParts < 2 || o.maxParts > 16):
		return search, usagef("--max-parts: %d, expected 2 to 16", o.maxParts)
	}
	return search, nil
}

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

// findSplits searches remedies and measures them on the device if execute is set. The run stores the executed
// ones; asked makes them replace another search's.
func (a *app) findSplits(ctx context.Context, run *results.Run, cfg rules.Config, search remedy.Options,
	execute, asked bool) (*remedy.Result, error) {
	data, err := infer.LoadData(run)
	if err != nil {
		return nil, err
	}
	if !execute {
		return remedy.Find(ctx, data, cfg, search, nil)
	}
	measurer, err := a.newMeasurer(run)
	if err != nil {
		return nil, err
	}
	found, err := remedy.Find(ctx, data, cfg, search, measurer)
	if err := errors.Join(err, a.leave(measurer)); err != nil {
		return nil, err
	}
	return found, a.store(run).KeepRemedies(ctx, remedy.NewExecuted(found, cfg, search, data.Samples()), asked)
}
