package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/query"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/sweep"
)

type exportOptions struct {
	app    *app
	format string
	out    string
	phases []string
	force  bool
	listed selectFlags
}

// exportFormats are the formats in which samples leave a run.
var exportFormats = []string{string(results.FormatParquet), string(results.FormatCSV), string(results.FormatJSONL)}

func newExportCommand(a *app) *cobra.Command {
	opts := &exportOptions{app: a}
	cmd := &cobra.Command{
		Use:   "export RUN",
		Short: "Write a run's samples as Parquet, CSV or JSONL",
		Example: examples(
			"gemmaudit export run.db --out samples.parquet",
			"gemmaudit export run.db --format csv                 # to stdout",
			"gemmaudit export run.db --phase sweep --out sweep.csv",
			"gemmaudit export run.db --where 'kernel=cublas && m in [64, 128]' --sort -us --top 100",
		),
		Long: `Writes one row a sample: device, kernel, dtype, m, n, k, round, us, clock, power,
temperature, phase and everything else that is known of it; what is not known is null, or empty in
CSV. Where a sample comes from stands in run, host, card (a UUID), device_name (the model) and labels;
started is a time. mfu is relative to the device's peak, us_at_clock is the time at
reference_clock_mhz, by which rows are judged. Parquet's metadata tells of the machine: gemmaudit.schema,
gemmaudit.fingerprint, gemmaudit.labels and others. ` + "`gemmaudit import`" + ` reads the CSV
back. What a sweep with --infer infers from its samples is not among them: the run file keeps it.
The format follows from the name of the file unless --format gives it.

` + selectHelp(query.Samples),
		Args:              exactArgs("RUN"),
		ValidArgsFunction: runFiles(1),
		RunE:              func(_ *cobra.Command, args []string) error { return opts.run(args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.format, "format", "", strings.Join(exportFormats, ", "))
	flags.StringVar(&opts.out, "out", "-", "file to write, - for stdout")
	flags.StringSliceVar(&opts.phases, "phase", nil, "only samples of these phases: sweep, sentinel, confirm, remedy, noise, sustained")
	opts.listed.register(cmd, query.Samples)
	flags.BoolVar(&opts.force, "force", false, "replace an existing file")
	complete(cmd, "format", fixed(exportFormats...))
	complete(cmd, "out", filesWith(exportFormats...))
	complete(cmd, "phase", listOf(phaseNames))
	return cmd
}

// phases in the order in which a run takes them.
var phases = []results.Phase{results.PhaseSweep, results.PhaseSentinel, results.PhaseConfirm, results.PhaseRemedy, results.PhaseNoise, results.PhaseSustained}

func phaseNames() []string {
	names := make([]string, len(phases))
	for i, p := range phases {
		names[i] = string(p)
	}
	return names
}

func (o *exportOptions) run(path string) error {
	name := o.format
	if name == "" {
		name = string(results.FormatCSV)
		if i := strings.LastIndexByte(o.out, '.'); o.out != "-" && i >= 0 {
			name = o.out[i+1:]
		}
	}
	format, err := results.ParseFormat(name)
	if err != nil {
		return usagef("--format: %w", err)
	}
	if o.app.spreadsheet && format == results.FormatCSV {
		format = results.FormatSpreadsheet
	}
	if o.out == "-" && format == results.FormatParquet && o.app.isTerminal() {
		return hint(usagef("--out: parquet is not written to a terminal"), "--out samples.parquet")
	}
	var only []results.Phase
	for _, p := range o.phases {
		phase, err := parsePhase(p)
		if err != nil {
			return usagef("--phase: %w", err)
		}
		only = append(only, phase)
	}
	listed, err := o.listed.query(query.Samples)
	if err != nil {
		return err
	}
	run, err := results.Open(path)
	if err != nil {
		return err
	}
	defer run.Close()
	if plan, err := sweep.DecodePlan(run.Meta().Plan); err == nil && plan.Infers() {
		o.app.notef("samples alone are written: which rows are inferred from them, and when the rules looked at them, stays in %s", path)
	}
	clock, err := rules.FitCommonClock(run, rules.Default())
	if err != nil {
		return err
	}
	some := selectedSamples(listed, only)
	some.AtClock = clock.At
	return o.app.writeFile(o.out, o.force, func(w io.Writer) error {
		return selectError(results.ExportSome(run, w, format, some))
	})
}

// selectedSamples are those of some phases that a query lists.
func selectedSamples(q *query.Query, phases []results.Phase) results.Samples {
	some := results.Samples{Phases: phases}
	switch {
	case q.All():
	case q.Ordered():
		some.Arrange = func(all []*results.Exported) ([]*results.Exported, error) {
			return query.Select(q, all, query.OfSample)
		}
	default: // of many samples no more than one is in memory
		some.Select = func(e *results.Exported) (bool, error) { return q.Match(query.OfSample(e)) }
	}
	return some
}

// parsePhase reads a phase by name.
func parsePhase(s string) (results.Phase, error) {
	for _, p := range phases {
		if s == string(p) {
			return p, nil
		}
	}
	return "", fmt.Errorf("unknown phase %q: expected one of %s", s, strings.Join(phaseNames(), ", "))
}
