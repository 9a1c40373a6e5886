package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/draft"
	"github.com/gemmaudit/gemmaudit/results/importing"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/sweep"
)

type importOptions struct {
	app        *app
	out        string
	force      bool
	deviceName string
	kernel     string
	dtype      string
	n, k       int
	library    string
	regime     string
	layout     string
	peaks      []string
	strict     bool
	list       bool
	output     report.Format
}

func newImportCommand(a *app) *cobra.Command {
	opts := &importOptions{app: a}
	cmd := &cobra.Command{
		Use: "import FILE... --out RUN.db",
		Args: func(cmd *cobra.Command, args []string) error {
			if opts.list {
				return exactArgs()(cmd, args)
			}
			return atLeastArgs("FILE")(cmd, args)
		},
		ValidArgsFunction: filesWith("csv", "txt", "log", "json", "gz", "parquet"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if opts.list {
				return opts.app.wrapPrint(report.WriteFormats(opts.app.stream(opts.app.stdout), opts.output, importing.Formats()))
			}
			return opts.run(cmd.Context(), args)
		},
	}
	flags := cmd.Flags()
	addFlag(cmd, &opts.out, "out", "", "run file to write (required)", filesWith("db"))
	flags.BoolVar(&opts.force, "force", false, "replace an existing file")
	flags.StringVar(&opts.deviceName, "device-name", "", "device that was measured (here also --device)")
	flags.StringVar(&opts.kernel, "kernel", "", "library or kernel that was timed")
	flags.StringVar(&opts.dtype, "dtype", "", "data type of the operands")
	flags.IntVar(&opts.n, "n", 0, "N of every row")
	flags.IntVar(&opts.k, "k", 0, "K of every row")
	flags.StringVar(&opts.library, "library", "", "library with version, as in 'torch 2.5.1+cu124'")
	addFlag(cmd, &opts.regime, "regime", "", "memory state of the operands: engine, cold, hot", fixed("engine", "cold", "hot"))
	addFlag(cmd, &opts.layout, "layout", "", "weight layout, kn or nk (default: from the file, else kn)", fixed("kn", "nk"))
	flags.StringArrayVar(&opts.peaks, "peak", nil,
		"peak as `DTYPE=RATE`: bf16=989e12 or bf16=989TFLOP/s (repeatable; default: from the file or data sheet)")
	flags.BoolVar(&opts.strict, "strict", false, "reject a file with a row that can't be read")
	flags.BoolVar(&opts.list, "list-formats", false, "list all supported formats")
	outputFlag(cmd, &opts.output)
	opts.app.labels.register(cmd)
	flags.Lookup("label").Usage = "`KEY=VALUE` of samples that have no labels in the file, as in rack=7 (repeatable)"
	complete(cmd, "dtype", func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var out []cobra.Completion
		for _, d := range kernels.DTypes() {
			out = append(out, string(d))
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

func (o *importOptions) run(ctx context.Context, paths []string) error {
	if o.out == "" {
		return hint(usagef("--out is missing: expected the name of the run file to write"), "--out %s", suggestRunName(paths[0]))
	}
	opt := importing.Options{
		Device: o.deviceName, Kernel: o.kernel, N: o.n, K: o.k, Library: o.library, LeaveOut: !o.strict,
		Command: o.app.command, Gemmaudit: buildVersion(), Created: o.app.now(),
	}
	if opt.Device == "" && o.app.device != "auto" {
		opt.Device = o.app.device
	}
	for _, d := range []struct {
		flag  string
		value int
	}{{"n", o.n}, {"k", o.k}} {
		if d.value < 0 {
			return usagef("--%s: %d, expected at least 1", d.flag, d.value)
		}
	}
	var failed error
	parsed(&failed, "layout", o.layout, kernels.ParseLayout)
	opt.Layout = strings.ToLower(strings.TrimSpace(o.layout))
	opt.DType = parsed(&failed, "dtype", o.dtype, kernels.ParseDType)
	opt.Regime = parsed(&failed, "regime", o.regime, sweep.ParseRegime)
	if opt.Peaks = parsedList(&failed, "peak", o.peaks, kernels.ParsePeak); failed != nil {
		return failed
	}
	labels, err := o.app.labels.labels()
	if err != nil {
		return err
	}
	opt.Labels = labels
	if err := refuseExisting(o.out, o.force); err != nil {
		return err
	}
	var files []importing.Imported
	run, err := buildRun(o.out, func(path string) (*results.Run, error) {
		r, err := importing.Import(ctx, paths, path, opt)
		if err != nil {
			return nil, err
		}
		files = r.Files
		return r.Run, nil
	})
	if err != nil {
		return err
	}
	defer run.Close()
	return o.app.printRunFile("imported", o.out, run, nil, files, o.output)
}

// buildRun lets make write a new run next to path and moves it there. The returned run is as make opened it,
// with its warnings.
func buildRun(path string, make func(path string) (*results.Run, error)) (*results.Run, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return make(path)
	}
	d, err := draft.Folder(path)
	if err != nil {
		return nil, devicef("write %q: %w", path, withoutPath(err))
	}
	defer d.Close()
	run, err := make(filepath.Join(d.Path(), filepath.Base(path)))
	if err != nil {
		return nil, err
	}
	if err := run.Replace(path); err != nil {
		return nil, errors.Join(err, run.Close())
	}
	return run, nil
}

// printRunFile prints the result of an import or a merge at path. Without sources, all of it is from the
// run's source; files describes an import.
func (a *app) printRunFile(action, path string, run *results.Run, sources []report.RunSource, files []importing.Imported,
	format report.Format) error {
	swept, err := run.Swept()
	if err != nil {
		return err
	}
	failures, err := run.Failures()
	if err != nil {
		return err
	}
	summary := &report.RunFile{Action: action, Path: path, Cases: swept.Cases, Samples: swept.Samples, Failures: len(failures),
		Series: swept.Series,
		Labels: run.Meta().Labels}
	summary.Sources, summary.Files = sources, files
	if len(sources) == 0 {
		summary.Sources = []report.RunSource{{Path: run.Meta().Source, Cases: summary.Cases, Samples: summary.Samples}}
	}
	for _, w := range run.Warnings() {
		summary.Warnings = append(summary.Warnings, rules.Warning{Subject: "run", Text: w})
	}
	if n := unrated(run.Meta(), swept.Series); n > 0 && action == "imported" {
		summary.Warnings = append(summary.Warnings, rules.Warning{Subject: "run", Text: fmt.Sprintf(
			"peak unknown for %d of %d series, from neither the CSV nor a data sheet: MFU is relative to the fastest row, and the %s "+
				"rule is off; set it with --peak",
			n, len(swept.Series), rules.Roofline)})
	}
	return a.wrapPrint(report.WriteRunFile(a.stream(a.stdout), format, summary))
}

func unrated(meta results.Meta, series []results.SeriesKey) (n int) {
	for _, k := range series {
		if _, known := meta.Ceilings[k.Device].Roof(k.Subject); !known {
			n++
		}
	}
	return n
}

func suggestRunName(csv string) string {
	name := filepath.Base(csv)
	return strings.TrimSuffix(name, filepath.Ext(name)) + ".db"
}
