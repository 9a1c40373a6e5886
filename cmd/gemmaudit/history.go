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
	"github.com/gemmaudit/gemmaudit/rules/change"
	"github.com/gemmaudit/gemmaudit/rules/history"
	"github.com/gemmaudit/gemmaudit/rules/outcome"
	"github.com/gemmaudit/gemmaudit/rules/verdict"
)

type historyOptions struct {
	app      *app
	settings history.Settings
	clock    float64
	gate     verdict.Gate
	plot     string
	force    bool
	output   report.Format
}

func newHistoryCommand(a *app) *cobra.Command {
	opts := &historyOptions{app: a, settings: history.Default()}
	cmd := &cobra.Command{
		Use:               "history DIR|RUN...",
		Args:              atLeastArgs("DIR|RUN"),
		ValidArgsFunction: runFiles(0),
		RunE:              func(cmd *cobra.Command, args []string) error { return opts.run(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	addFlag(cmd, &opts.settings.Level, "level", opts.settings.Level, "expected share of false positives among reported changes",
		fixed("0.05", "0.01"))
	addFlag(cmd, &opts.settings.Threshold, "threshold", opts.settings.Threshold, "smallest change to report, as a share of the time",
		fixed("0.01", "0.03"))
	clockFlag(cmd, &opts.clock)
	flags.BoolVar(&opts.settings.DespiteDisturbance, despiteDisturbance, false,
		"also use runs that other load disturbed more than the rest")
	changesGate(cmd, &opts.gate, verdict.None, "")
	addFlag(cmd, &opts.plot, "plot", "", "write a plot: .png, .svg or .pdf", filesWith("png", "svg", "pdf"))
	flags.BoolVar(&opts.force, "force", false, "replace an existing plot")
	outputFlag(cmd, &opts.output)
	return cmd
}

func (o *historyOptions) run(ctx context.Context, args []string) error {
	a := o.app
	if s := o.settings; !(s.Level > 0 && s.Level < 1) {
		return usagef("--level: %v, expected above 0 and below 1", s.Level)
	} else if !(s.Threshold >= 0 && s.Threshold <= 10) {
		return usagef("--threshold: %v, expected 0 to 10", s.Threshold)
	}
	if err := o.gate.Validate(); err != nil {
		return usage(err)
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
	evidence := outcome.Evidence{Accept: o.gate.Accept, Ungated: o.gate.Kind == verdict.None}
	first := map[string]string{} // by id
	for _, path := range paths {
		if ctx.Err() != nil {
			return interruptedf("stopped while runs were read")
		}
		run, err := a.loadSide(path)
		if err != nil {
			return err
		}
		if of, ok := first[run.id]; ok {
			a.warnf("%s is a copy of %s, and was left out", path, of)
			continue
		}
		first[run.id] = path
		evidence.Held = append(evidence.Held, run.held)
		collector.Add(path, run.data)
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
	if n := r.Slower(); n > 0 && o.gate.FailsChange(change.Slower) {
		evidence.Proven = []string{plural(n, "case is slower", "cases are slower") + " since the last change"}
	}
	if r.Short == len(r.Cases) {
		evidence.Open = groundsOf(hint(inconclusivef("no case of %s is in %d runs or more", plural(len(r.Cases), "case", "cases"),
			history.LeastRuns),
			"give more runs of the same plan; %s read", plural(len(evidence.Held), "run was", "runs were")))
	}
	return a.conclude(evidence)
}

// runsBelow lists the named run files and all run files below named folders, without duplicates.
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
			return nil, devicef("folder %q: no run in it: expected .db files", arg)
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
