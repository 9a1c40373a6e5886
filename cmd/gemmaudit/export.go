package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/report/query"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/export"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
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

var exportFormats = []string{string(export.FormatParquet), string(export.FormatCSV), string(export.FormatJSONL)}

func newExportCommand(a *app) *cobra.Command {
	opts := &exportOptions{app: a}
	cmd := &cobra.Command{
		Use:               "export RUN",
		Args:              exactArgs("RUN"),
		ValidArgsFunction: runFiles(1),
		RunE:              func(_ *cobra.Command, args []string) error { return opts.run(args[0]) },
	}
	flags := cmd.Flags()
	addFlag(cmd, &opts.format, "format", "", strings.Join(exportFormats, ", "), fixed(exportFormats...))
	addFlag(cmd, &opts.out, "out", "-", stdoutUsage, filesWith(exportFormats...))
	addFlag(cmd, &opts.phases, "phase", nil, "only samples of these phases: sweep, sentinel, confirm, remedy, noise, sustained",
		listOf(phaseNames))
	opts.listed.register(cmd, query.Samples)
	flags.BoolVar(&opts.force, "force", false, "replace an existing file")
	return cmd
}

// phases are in the order of a run.
var phases = []results.Phase{results.PhaseSweep, results.PhaseSentinel, results.PhaseConfirm, results.PhaseRemedy, results.PhaseNoise,
	results.PhaseSustained}

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
		name = string(export.FormatCSV)
		if i := strings.LastIndexByte(o.out, '.'); o.out != "-" && i >= 0 {
			name = o.out[i+1:]
		}
	}
	format, err := export.ParseFormat(name)
	if err != nil {
		return usagef("--format: %w", err)
	}
	if o.app.spreadsheet && format == export.FormatCSV {
		format = export.FormatSpreadsheet
	}
	if o.out == "-" && format == export.FormatParquet && isTerminal(o.app.stdout.w) {
		return hint(usagef("--out: a terminal can't show parquet"), "--out samples.parquet")
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
		o.app.notef("only samples are exported; inferred rows and the history of verdicts stay in %s", path)
	}
	clock, err := infer.FitCommonClock(run, rules.Default().Basis())
	if err != nil {
		return err
	}
	some := selectedSamples(listed, only)
	some.AtClock = clock.At
	return o.app.writeFile(o.out, o.force, func(w io.Writer) error {
		return selectError(export.Write(run, w, format, some))
	})
}

// selectedSamples returns the samples of some phases that match a query.
func selectedSamples(q *query.Query, phases []results.Phase) export.Samples {
	some := export.Samples{Phases: phases}
	switch {
	case q.All():
	case q.Ordered():
		some.Arrange = func(all []*export.Line) ([]*export.Line, error) {
			return query.Select(q, all, query.OfSample)
		}
	default: // stream them one at a time
		some.Select = func(e *export.Line) (bool, error) { return q.Match(query.OfSample(e)) }
	}
	return some
}

func parsePhase(s string) (results.Phase, error) {
	for _, p := range phases {
		if s == string(p) {
			return p, nil
		}
	}
	return "", fmt.Errorf("unknown phase %q: expected one of %s", s, strings.Join(phaseNames(), ", "))
}
