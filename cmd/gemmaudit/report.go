package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/report/query"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/rules/verdict"
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
		Use:               "report RUN",
		Args:              exactArgs("RUN"),
		ValidArgsFunction: runFiles(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return opts.run(cmd.Context(), args[0], cmd.Flags().Changed("output"))
		},
	}
	opts.rules.register(cmd)
	opts.rules.registerClock(cmd)
	flags := cmd.Flags()
	addFlag(cmd, &opts.out, "out", "", "folder to write (default: name of RUN with -report)", folders)
	flags.BoolVar(&opts.force, "force", false, intoUsage)
	imagesFlag(cmd, &opts.images, "all")
	flags.BoolVar(&opts.compress, "compress", false, "compress the data in index.html to a quarter")
	flags.BoolVar(&opts.unnamed, "anonymous", false, "remove host name, operating system version and card UUIDs")
	opts.listed.register(cmd, query.Findings|query.Remedies|query.Rows)
	timingsFlag(cmd, &opts.output)
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
	data, err := infer.LoadData(run)
	if err != nil {
		return err
	}
	data = data.Along(cfg.Basis())
	audit, outdated, err := a.store(run).Audit(ctx, data, cfg, false)
	if err != nil {
		return err
	}
	if print {
		medians := report.JudgedMedians(data.Series, audit)
		shown, err := query.Select(listed, medians, query.OfMedian)
		if err != nil {
			return selectError(err)
		}
		err = a.wrapPrint(report.WriteSomeMedians(a.stream(a.stdout), o.output, data.Series, audit, shown,
			listed.Selection(len(shown), len(medians))))
		return joinErrors(err, a.outdatedError(outdated))
	}
	remedies, worn, err := a.store(run).Remedies(data, cfg)
	if err != nil {
		return err
	}
	// Problem numbers must match audit and explain, so predictions made here are not problems.
	var found *remedy.Result
	var engine []string
	if remedies != nil {
		found, engine = remedies.Result, remedies.Search.Kernels
	}
	answer := newAnswer(data, audit, found, engine)
	if remedies == nil {
		if found, err = a.findSplits(ctx, run, cfg, remedy.Options{}, false, false); err != nil {
			return err
		}
	}
	if audit, err = listed.Audit(audit); err != nil {
		return selectError(err)
	}
	if found, err = listed.Splits(found); err != nil {
		return selectError(err)
	}
	if err := a.writeReport(ctx, out, run, cfg, audit, found, answer, nil,
		reportForm{images: images, compress: o.compress, unnamed: o.unnamed}); err != nil {
		return err
	}
	return joinErrors(a.outdatedError(outdated), a.outdatedError(worn))
}

func checkReportFolder(dir string, force bool) error {
	info, err := os.Stat(dir)
	switch {
	case err == nil && !info.IsDir():
		return devicef("write %q: is a file, expected a folder name", dir)
	case force:
		return nil
	}
	own, err := report.Replaceable(dir)
	if err != nil {
		return devicef("write %q: %w", dir, withoutPath(err))
	}
	if !own {
		return hint(devicef("folder %q has files that are not a report, and is not written to", dir), "give another name, or --force")
	}
	return nil
}

type reportForm struct {
	images   []report.Image
	compress bool // index.html
	unnamed  bool // omit data that identifies the machine
}

func (a *app) writeReport(ctx context.Context, folder string, run *results.Run, cfg rules.Config, audit *rules.Audit,
	found *remedy.Result, answer *report.Answer, notes []string, form reportForm) error {
	data, err := infer.LoadData(run)
	if err != nil {
		return err
	}
	data = data.Along(cfg.Basis())
	in, err := report.NewInput(run, data)
	if err != nil {
		return err
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
	if form.unnamed {
		in.Meta.Fingerprint = in.Meta.Fingerprint.Anonymous()
	}
	in.Audit, in.Splits, in.Answer, in.Notes = audit, found, answer, append(notes, packing...)
	in.DriftBound, in.Compress = cfg.DriftBound, form.compress
	if err := report.Write(ctx, folder, in, form.images); err != nil {
		return err
	}
	a.notef("report: %s", filepath.Join(folder, "index.html"))
	return nil
}

// packingNotes gives the packing time of each kernel that packs its weights before timing.
func packingNotes(run *results.Run) ([]string, error) {
	rotations, err := verdict.Kept[[]sweep.Rotation](run, sweep.StateRotation)
	if err != nil || rotations == nil {
		return nil, err
	}
	var names []string // kernels in file order
	packed := map[string][]string{}
	for _, r := range *rotations {
		if r.Packing == nil {
			continue
		}
		if packed[r.Kernel] == nil {
			names = append(names, r.Kernel)
		}
		packed[r.Kernel] = append(packed[r.Kernel],
			fmt.Sprintf("%s takes %.3g ms and %s per copy", r.Weights, 1e3*r.Packing.Seconds, report.Bytes(r.Packing.Bytes)))
	}
	notes := make([]string, len(names))
	for i, k := range names {
		notes[i] = fmt.Sprintf("%s packs weights before timing: %s", k, strings.Join(packed[k], "; "))
	}
	return notes, nil
}

// asPercent prints a stored share as a percentage; other text is unchanged.
func asPercent(share string) string {
	v, err := strconv.ParseFloat(share, 64)
	if err != nil || !(v >= 0 && v <= 1) {
		return share
	}
	return strconv.FormatFloat(100*v, 'f', 1, 64) + " %"
}
