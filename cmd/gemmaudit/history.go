package main

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/history"
)

type historyOptions struct {
	app      *app
	settings history.Settings
	clock    float64
	gate     changeGate
	plot     string
	force    bool
	output   report.Format
}

func newHistoryCommand(a *app) *cobra.Command {
	opts := &historyOptions{app: a, settings: history.Default()}
	cmd := &cobra.Command{
		Use:   "history DIR|RUN...",
		Short: "Follow the same cases over many runs, and find the runs at which times changed",
		Example: examples(
			"gemmaudit history nightly/                       # every run below the folder",
			"gemmaudit history nightly/ --plot history.svg",
			"gemmaudit history a.db b.db c.db -o json",
			"gemmaudit history nightly/ --gate confirmed      # exit code 1 where a case has become slower",
		),
		Long: `Takes the median of each case of each run, at one clock, in the order in which they were measured, and finds the
runs from which on it is another one: by how much, since which run, and what else changed in software and
machine between that run and the one before. A case is the same where the model of the device, kernel, operation,
types, shape, layout, regime, threads and M are; versions of libraries and drivers may differ.

A single slow run is a stray and no change: a level takes three runs. The error of a level counts how alike neighbouring
runs are. Of the changes reported, a share of at most --level is none (Benjamini–Hochberg over the cases). A case that fewer
than 10 runs have is counted, and nothing is said of it. How many steps are found and how many are false is in docs/trust.md.

Of each run medians alone are kept, so that any number of runs can be given. --plot draws the cases that
changed most. -o csv has every median, a line each.` + exitHelp(
			"0  whatever was found, unless --gate says else",
			"1  --gate: the last change of a case made it slower",
			"3  a run or a folder can't be read, or cases failed in a run",
			"4  no case is in enough runs, cases of a plan are missing, or several machines measured a run"),
		Args:              atLeastArgs("DIR|RUN"),
		ValidArgsFunction: runFiles(0),
		RunE:              func(cmd *cobra.Command, args []string) error { return opts.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.Float64Var(&opts.settings.Level, "level", opts.settings.Level, "share of the changes reported that may be none")
	flags.Float64Var(&opts.settings.Threshold, "threshold", opts.settings.Threshold, "least change that is reported, as a share of the time")
	clockFlag(cmd, &opts.clock)
	opts.gate.register(cmd, gateNone, "")
	flags.StringVar(&opts.plot, "plot", "", "write a plot: .png, .svg or .pdf")
	flags.BoolVar(&opts.force, "force", false, "replace an existing plot")
	outputFlag(cmd, &opts.output)
	complete(cmd, "level", fixed("0.05", "0.01"))
	complete(cmd, "threshold", fixed("0.01", "0.03"))
	complete(cmd, "plot", filesWith("png", "svg", "pdf"))
	return cmd
}

func (o *historyOptions) run(ctx context.Context, args []string) error {
	a := o.app
	if s := o.settings; !(s.Level > 0 && s.Level < 1) {
		return usagef("--level: %v, expected above 0 and below 1", s.Level)
	} else if !(s.Threshold >= 0 && s.Threshold <= 10) {
		return usagef("--threshold: %v, expected 0 to 10", s.Threshold)
	}
	if err := o.gate.check(); err != nil {
		return err
	}
	cfg := rules.Default()
	if err := setClock(&cfg, o.clock); err != nil {
		return err
	}
	var image report.Image
	if o.plot != "" {
		images, err := report.ParseImages(strings.TrimPrefix(filepath.Ext(o.plot), "."))
		if err != nil || len(images) != 1 {
			return usagef("--plot: %q ends in %q, expected .png, .svg or .pdf", o.plot, filepath.Ext(o.plot))
		}
		if err := refuseExisting(o.plot, o.force); err != nil {
			return err
		}
		image = images[0]
	}
	paths, err := runsBelow(args)
	if err != nil {
		return err
	}
	collector := history.NewCollector(cfg)
	evidence := rules.Evidence{Accept: o.gate.accept, Ungated: o.gate.changes == gateNone}
	for _, path := range paths {
		if ctx.Err() != nil {
			return interruptedf("stopped while runs were read")
		}
		data, holds, err := a.loadSide(path)
		if err != nil {
			return err
		}
		evidence.Held = append(evidence.Held, holds)
		collector.Add(path, data)
	}
	r := collector.Result(o.settings)
	if o.plot != "" {
		if err := a.writeFile(o.plot, o.force, func(w io.Writer) error { return report.PlotHistory(r).Write(w, image) }); err != nil {
			return err
		}
	}
	if err := a.wrapPrint(report.WriteHistory(a.stream(a.stdout), o.output, r)); err != nil {
		return err
	}
	if n := r.Slower(); n > 0 && o.gate.fails(rules.Slower) {
		evidence.Proven = []string{plural(n, "case is slower", "cases are slower") + " since the last change"}
	}
	if r.Short == len(r.Cases) {
		evidence.Open = groundsOf(hint(inconclusivef("none of %s is in %d runs or more", plural(len(r.Cases), "case", "cases"), history.LeastRuns),
			"give more runs of the same plan: %s were read", plural(len(paths), "run", "runs")))
	}
	return a.conclude(evidence)
}

// runsBelow lists the runs that arguments name: files as they are, and all run files below folders. None is
// named twice.
func runsBelow(args []string) ([]string, error) {
	var paths []string
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, devicef("read %q: %w", arg, withoutPath(err))
		}
		if !info.IsDir() {
			paths = append(paths, arg)
			continue
		}
		found := len(paths)
		err = filepath.WalkDir(arg, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && filepath.Ext(path) == ".db" {
				paths = append(paths, path)
			}
			return err
		})
		if err != nil {
			return nil, devicef("read folder %q: %w", arg, withoutPath(err))
		}
		if len(paths) == found {
			return nil, devicef("folder %q: no run below it: expected files that end in .db", arg)
		}
	}
	var once []string
	for _, p := range paths {
		if !slices.Contains(once, filepath.Clean(p)) {
			once = append(once, filepath.Clean(p))
		}
	}
	return once, nil
}
