package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/query"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/sweep"
)

type reportOptions struct {
	app      *app
	rules    ruleFlags
	out      string
	force    bool
	images   string
	compress bool
	unnamed  bool
	listed   selectFlags
	output   report.Format
}

func newReportCommand(a *app) *cobra.Command {
	opts := &reportOptions{app: a}
	cmd := &cobra.Command{
		Use:   "report RUN",
		Short: "Draw a run and write it up: HTML, Markdown, plots",
		Example: examples(
			"gemmaudit report run.db                        # into run-report/",
			"gemmaudit report run.db --out page --images svg",
			"gemmaudit report run.db --compress             # a page that is small enough to send",
			"gemmaudit report run.db -o bench > new.txt     # every sample for benchstat, no folder",
			"gemmaudit report run.db -o csv > medians.csv",
			"gemmaudit report run.db -o csv --where 'kernel=cublas && mfu<0.5'",
		),
		Long: `Writes a folder with index.html, report.md for a pull request, findings and splits as
JSON, the medians as CSV, and plots: MFU over M with the reference, anomalous intervals
shaded and causes named; time over M; gain of splits; drift of the sentinels; clocks.

index.html is one file that needs no network: loss over M and series, each series with its
intervals, the samples of a row, and the findings, which can be sorted and filtered. A view is
in the address. Its samples can be downloaded; of more than a million it has those of rows
with findings. With --compress it unpacks itself when it is opened, in a browser of 2023 or later.
--anonymous leaves out what tells the machine from others of its kind; the command of the run stays as it was typed.

The device is not asked again. What ` + "`audit --confirm`" + ` and ` + "`splits`" + ` have proven is kept in the
run and is part of the report, as far as it holds by these rules (see audit --help); the rest is
judged on the sweep's samples.

The folder may be new, empty, or one that holds a report, which is replaced; its other files
stay. --force writes into any other folder too, where files of the same names are replaced.

With -o the command prints the median of every case, and the time by which it was judged; with
-o bench it prints every sample. No folder is written.

--where, --sort and --top select findings and remedies of the folder, and with -o the rows that are printed.
They have the names that audit and splits have; with -o those of rows.
` + "`gemmaudit explain where`" + ` explains them.` + exitHelp(
			"0  written, whatever was found",
			"3  the run file or the disk failed",
			"4  written, but proof that the run keeps is undone by these rules or by newer samples"),
		Args:              exactArgs("RUN"),
		ValidArgsFunction: runFiles(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return opts.run(cmd.Context(), args[0], cmd.Flags().Changed("output"))
		},
	}
	opts.rules.register(cmd)
	opts.rules.registerClock(cmd)
	flags := cmd.Flags()
	flags.StringVar(&opts.out, "out", "", "folder to write (default: RUN's name with -report)")
	flags.BoolVar(&opts.force, "force", false, "write into a folder that holds something else than a report")
	flags.StringVar(&opts.images, "images", "all", "formats of the plots: all, or some of png,svg,pdf")
	flags.BoolVar(&opts.compress, "compress", false, "store what index.html shows compressed: a quarter of its size, and one file still")
	flags.BoolVar(&opts.unnamed, "anonymous", false, "leave out the host's name, its kernel's version and the uuids of cards")
	opts.listed.register(cmd, query.Findings|query.Remedies|query.Rows)
	timingsFlag(cmd, &opts.output)
	complete(cmd, "out", folders)
	complete(cmd, "images", listOf(func() []string { return []string{"all", "png", "svg", "pdf"} }))
	return cmd
}

func (o *reportOptions) run(ctx context.Context, path string, print bool) error {
	a := o.app
	images, err := report.ParseImages(o.images)
	if err != nil {
		return usagef("--images: %w", err)
	}
	cfg, err := o.rules.config(a)
	if err != nil {
		return err
	}
	of := query.Findings | query.Remedies
	if print {
		of = query.Rows
	}
	listed, err := o.listed.query(of)
	if err != nil {
		return err
	}
	if print {
		if err := refuseBench(listed, o.output); err != nil {
			return err
		}
	}
	out := o.out
	if out == "" {
		out = strings.TrimSuffix(path, filepath.Ext(path)) + "-report"
	}
	if !print {
		if err := checkReportFolder(out, o.force); err != nil {
			return err
		}
	}
	run, err := a.openRun(path, false)
	if err != nil {
		return err
	}
	defer run.Close()
	if print && o.output == report.Bench {
		series, err := run.Series()
		if err != nil {
			return err
		}
		return a.wrapPrint(report.WriteBench(a.stream(a.stdout), run.Meta(), series))
	}
	data, err := rules.LoadData(run)
	if err != nil {
		return err
	}
	audit, outdated, err := a.sweepVerdict(ctx, run, data, cfg, false)
	if err != nil {
		return err
	}
	if print {
		medians := report.JudgedMedians(data.Series, audit)
		shown, err := query.Select(listed, medians, query.OfMedian)
		if err != nil {
			return selectError(err)
		}
		err = a.wrapPrint(report.WriteSomeMedians(a.stream(a.stdout), o.output, data.Series, audit, shown, listed.Selection(len(shown), len(medians))))
		return besides(err, outdated.err())
	}
	remedies, worn, err := a.keptRemedies(run, data, cfg)
	if err != nil {
		return err
	}
	var found *rules.SplitsResult
	if remedies != nil {
		found = remedies.Result
	} else if found, err = a.findSplits(ctx, run, cfg, rules.SplitOptions{}, false, false); err != nil {
		return err
	}
	if audit, err = listed.Audit(audit); err != nil {
		return selectError(err)
	}
	if found, err = listed.Splits(found); err != nil {
		return selectError(err)
	}
	if err := a.writeReport(ctx, out, run, cfg, audit, found, nil, reportForm{images: images, compress: o.compress, unnamed: o.unnamed}); err != nil {
		return err
	}
	return besides(outdated.err(), worn.err())
}

// checkReportFolder returns an error when a report would take the place of something else.
func checkReportFolder(dir string, force bool) error {
	info, err := os.Stat(dir)
	switch {
	case err == nil && !info.IsDir():
		return devicef("write %q: it is a file, expected the name of a folder", dir)
	case force:
		return nil
	}
	own, err := report.Replaceable(dir)
	if err != nil {
		return devicef("write %q: %w", dir, withoutPath(err))
	}
	if !own {
		return hint(devicef("folder %q holds something else than a report and is not written to", dir), "give another name, or --force")
	}
	return nil
}

// boundaries words steps for a plot.
func boundaries(steps []rules.Step) []report.Boundary {
	var out []report.Boundary
	for _, s := range steps {
		kind := "tile"
		if s.Kind == rules.WaveQuantisation {
			kind = "wave"
		}
		out = append(out, report.Boundary{M: s.M, Kind: kind})
	}
	return out
}

// reportForm is how the files of a report are stored.
type reportForm struct {
	images   []report.Image
	compress bool // index.html
	unnamed  bool // without what tells the machine from others of its kind
}

// writeReport writes the report folder of a run that has been judged.
func (a *app) writeReport(ctx context.Context, folder string, run *results.Run, cfg rules.Config, audit *rules.Audit, found *rules.SplitsResult, notes []string, form reportForm) error {
	data, err := rules.LoadData(run)
	if err != nil {
		return err
	}
	cases, err := run.Cases()
	if err != nil {
		return err
	}
	byID := make(map[int64]results.Case, len(cases))
	for _, c := range cases {
		byID[c.ID] = c
	}
	if share, ok, err := run.State(sweep.StateEfficiency); err != nil {
		return err
	} else if ok {
		notes = append([]string{"share of the sweep's wall time inside kernels: " + asPercent(share)}, notes...)
	}
	packing, err := packingNotes(run)
	if err != nil {
		return err
	}
	notes = append(notes, packing...)
	executed, err := executedRows(run, byID)
	if err != nil {
		return err
	}
	if form.unnamed {
		data.Meta.Fingerprint = data.Meta.Fingerprint.Anonymous()
	}
	err = report.Write(ctx, folder, report.Input{
		Meta: data.Meta, Run: filepath.Base(run.Path()), Series: data.Series, Audit: audit, Splits: found, Executed: executed,
		Sentinels: data.Sentinels, Cases: byID, DriftBound: cfg.DriftBound, Notes: notes, Compress: form.compress,
		Boundaries: func(key results.SeriesKey) []report.Boundary { return boundaries(rules.Steps(data, key)) },
	}, form.images)
	if err != nil {
		return err
	}
	a.notef("report: %s", filepath.Join(folder, "index.html"))
	return nil
}

// executedRows are the cases that were timed for remedies, as they first ran, with these samples.
func executedRows(run *results.Run, cases map[int64]results.Case) ([]results.Row, error) {
	samples, err := run.Samples(results.PhaseRemedy)
	if err != nil {
		return nil, err
	}
	var rows []results.Row
	place := map[int64]int{}
	for _, s := range samples {
		at, ok := place[s.CaseID]
		if !ok {
			at = len(rows)
			place[s.CaseID] = at
			rows = append(rows, results.Row{Case: cases[s.CaseID]})
		}
		rows[at].Samples = append(rows[at].Samples, s)
	}
	return rows, nil
}

// packingNotes say of each kernel that packs its weights ahead of timing what that takes.
func packingNotes(run *results.Run) ([]string, error) {
	text, ok, err := run.State(sweep.StateRotation)
	if err != nil || !ok {
		return nil, err
	}
	var rotations []sweep.Rotation
	err = results.CheckJSON(text)
	if err == nil {
		err = json.Unmarshal([]byte(text), &rotations)
	}
	if err != nil {
		return nil, &results.FormatError{Path: run.Path(), Reason: fmt.Sprintf("state %s is not readable: %v", sweep.StateRotation, err)}
	}
	var names []string // of kernels, in the order of the file
	packed := map[string][]string{}
	for _, r := range rotations {
		if r.Packing == nil {
			continue
		}
		if packed[r.Kernel] == nil {
			names = append(names, r.Kernel)
		}
		packed[r.Kernel] = append(packed[r.Kernel], fmt.Sprintf("%s takes %.3g ms and %s a copy", r.Weights, 1e3*r.Packing.Seconds, report.Bytes(r.Packing.Bytes)))
	}
	notes := make([]string, len(names))
	for i, k := range names {
		notes[i] = fmt.Sprintf("%s packs weights ahead of timing: %s", k, strings.Join(packed[k], "; "))
	}
	return notes, nil
}

// asPercent prints a share that is kept as text for people; what is no share stays as
// it is.
func asPercent(share string) string {
	v, err := strconv.ParseFloat(share, 64)
	if err != nil || !(v >= 0 && v <= 1) {
		return share
	}
	return strconv.FormatFloat(100*v, 'f', 1, 64) + " %"
}
