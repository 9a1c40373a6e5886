package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/importing"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/advice"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/outcome"
)

type adviseOptions struct {
	app       *app
	model     string
	tp        int
	kernel    string
	dtype     string
	sequences string
	parts     []string
	measured  string
	traffic   string
	sizes     int
	latency   time.Duration
	tokens    int
	decoding  int
	minGain   string
	fdr       float64
	clock     float64
	accept    outcome.Accept
	engines   []string
	out       string
	force     bool
	images    string
	output    report.Format
}

const mostSizes = 1024

func newAdviseCommand(a *app) *cobra.Command {
	opts := &adviseOptions{app: a}
	cmd := &cobra.Command{
		Use:               "advise RUN...",
		Args:              atLeastArgs("RUN"),
		ValidArgsFunction: runFiles(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			return opts.run(args)
		},
	}
	flags := cmd.Flags()
	addFlag(cmd, &opts.model, "model", "",
		"model name or path of its config.json, optionally with :q_proj+k_proj for some products (default: from the runs)",
		completeModels)
	flags.IntVar(&opts.tp, "tp", 1, "tensor-parallel ranks")
	flags.StringVar(&opts.kernel, "kernel", "",
		"kernel of the products, or A,B for the kernel B of experts (default: the only one in the runs)")
	addFlag(cmd, &opts.dtype, "dtype", "", "data type of the products (default: the only one in the runs)", fixed("bf16", "fp16"))
	addFlag(cmd, &opts.sequences, "sequences", "1", "sequences in a pass, whose last rows go through the output head; all for decoding",
		fixed("1", "all"))
	flags.StringArrayVar(&opts.parts, "part", nil,
		"NAME=FILE.csv: times of a part that was not measured, as attention=FILE.csv (repeatable)")
	addFlag(cmd, &opts.measured, "measured", "", "CSV of m,seconds: measured times of whole passes", filesWith("csv"))
	addFlag(cmd, &opts.traffic, "traffic", "", "CSV of m,weight: how often each batch size runs (default: uniform in log M)",
		filesWith("csv"))
	flags.IntVar(&opts.sizes, "sizes", 16, "maximum number of graph sizes")
	addFlag(cmd, &opts.latency, "latency", 0, "limit on the time of a chunk, as in 50ms; 0 for none", fixed("20ms", "50ms", "100ms"))
	flags.IntVar(&opts.tokens, "max-num-batched-tokens", 0, "limit on the tokens of a pass (default: the advised chunk)")
	flags.IntVar(&opts.decoding, "max-sequences", 0, "limit on the sequences that decode at the same time; 0 for unknown")
	addFlag(cmd, &opts.minGain, "min-gain", "2%", "a size is never worth running if a larger one is this much faster",
		fixed("1%", "2%", "5%"))
	addFlag(cmd, &opts.fdr, "fdr", 0.05, "false discovery rate of sizes never worth running", fixed("0.05", "0.01"))
	addFlag(cmd, &opts.engines, "for", advice.Engines(), "engines to print settings for", listOf(advice.Engines))
	addFlag(cmd, &opts.out, "out", "", "folder for advice.json, advice.md and plots", folders)
	flags.BoolVar(&opts.force, "force", false, "replace files in --out")
	imagesFlag(cmd, &opts.images, "svg")
	clockFlag(cmd, &opts.clock)
	acceptFlags(cmd, &opts.accept)
	outputFlag(cmd, &opts.output)
	return cmd
}

func (o *adviseOptions) run(paths []string) error {
	a := o.app
	options, err := o.options()
	if err != nil {
		return err
	}
	images, err := report.ParseImages(o.images)
	if err != nil {
		return usagef("--images: %w", err)
	}
	runs, planned, holds, err := a.passRuns(paths, o.clock)
	if err != nil {
		return err
	}
	need, subject, err := o.need(planned)
	if err != nil {
		return err
	}
	match, err := advice.Find(runs, need)
	if err != nil {
		return usage(err)
	}
	if err := o.imported(match); err != nil {
		return err
	}
	times := parsed(&err, "measured", o.measured, importing.ReadPassTimes)
	if err != nil {
		return err
	}
	var measured advice.Measured
	if o.measured != "" {
		measured = advice.MeasuredTimes(times)
	}
	for _, path := range paths {
		subject.Runs = append(subject.Runs, filepath.Base(path))
	}
	key := match.Series
	subject.Device, subject.Card, subject.Kernel = key.Device, match.Card, key.Kernel
	subject.DType, subject.Layout, subject.ClockMHz = string(key.DType), key.Layout.String(), match.ClockMHz
	rest := "norms, activations and the rest of a pass"
	if match.Fused {
		rest = "norms and the rest of a pass"
	}
	missing := append(slices.Clone(match.Missing), rest)
	if o.tp > 1 {
		missing = append(missing, "communication between ranks")
	}
	found, err := advice.Advise(subject, match.Parts, missing, measured, options)
	if err != nil {
		return usage(err)
	}
	found.Warnings = append(match.Warnings, found.Warnings...)
	for _, w := range found.Warnings {
		a.warnf("%s", w.Text)
	}
	if o.out != "" {
		if err := o.write(found, images); err != nil {
			return err
		}
	}
	if err := a.wrapPrint(report.WriteAdvice(a.stream(a.stdout), o.output, found)); err != nil {
		return err
	}
	evidence := outcome.Evidence{Held: holds, Accept: o.accept}
	if found.Chunk.M == 0 {
		evidence.Open = groundsOf(inconclusivef("no chunk is surely within --latency %v: the fastest measured pass takes %v", o.latency,
			time.Duration(fastest(found)*1e9).Round(time.Microsecond)))
	}
	return a.conclude(evidence)
}

func fastest(a *advice.Advice) float64 {
	least := a.Passes[0].Seconds.Mid
	for _, p := range a.Passes {
		least = min(least, p.Seconds.Mid)
	}
	return least
}

func (o *adviseOptions) options() (advice.Options, error) {
	out := advice.Options{Sizes: o.sizes, Latency: o.latency.Seconds(), FDR: o.fdr, Engines: o.engines, MaxTokens: o.tokens,
		MaxSequences: o.decoding}
	switch {
	case o.sizes < 1 || o.sizes > mostSizes:
		return out, usagef("--sizes: %d, expected 1 to %d", o.sizes, mostSizes)
	case o.latency < 0:
		return out, usagef("--latency: %v, expected a time above 0, as in 50ms", o.latency)
	case o.tokens < 0:
		return out, usagef("--max-num-batched-tokens: %d, expected 1 or more", o.tokens)
	case o.decoding < 0:
		return out, usagef("--max-sequences: %d, expected 1 or more", o.decoding)
	case !(o.fdr > 0 && o.fdr < 1):
		return out, usagef("--fdr: %v, expected above 0 and below 1", o.fdr)
	case o.tp < 1:
		return out, usagef("--tp: %d, expected at least 1", o.tp)
	}
	for _, name := range o.engines {
		if !slices.Contains(advice.Engines(), name) {
			return out, usagef("--for: unknown engine %q, expected some of %s", name, strings.Join(advice.Engines(), ","))
		}
	}
	var err error
	if out.MinGain, err = parseGain(o.minGain); err != nil {
		return out, usagef("--min-gain: %w", err)
	}
	out.Traffic = parsed(&err, "traffic", o.traffic, importing.ReadTraffic)
	return out, err
}

// parseGain reads a share: "2%" or 0.02.
func parseGain(s string) (float64, error) {
	text, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v <= 1) {
		return 0, fmt.Errorf("%q, expected a share from 0 to 1 as in 2%% or 0.02", s)
	}
	return v, nil
}

func (a *app) passRuns(paths []string, clock float64) ([]advice.Run, []results.PlannedSeries, []outcome.Held, error) {
	cfg, err := rules.LoadConfig("")
	if err != nil {
		return nil, nil, nil, usage(err)
	}
	if err := setClock(&cfg, clock); err != nil {
		return nil, nil, nil, err
	}
	var runs []advice.Run
	var all []outcome.Held
	var planned []results.PlannedSeries
	for _, path := range paths {
		run, of, holds, err := a.passRun(path, cfg)
		if err != nil {
			return nil, nil, nil, err
		}
		all = append(all, holds)
		for _, s := range run.Times {
			if cfg.ClockMHz == 0 {
				cfg.ClockMHz = s.ClockMHz // runs that are added up share one clock
			}
		}
		runs, planned = append(runs, run), append(planned, of...)
	}
	return runs, planned, all, nil
}

func (a *app) passRun(path string, cfg rules.Config) (advice.Run, []results.PlannedSeries, outcome.Held, error) {
	run, err := a.openRun(path, false)
	if err != nil {
		return advice.Run{}, nil, outcome.Held{}, err
	}
	defer run.Close()
	data, err := infer.LoadData(run)
	if err != nil {
		return advice.Run{}, nil, outcome.Held{}, err
	}
	times, invalid := infer.Times(data, cfg.Basis())
	if invalid != "" {
		return advice.Run{}, nil, outcome.Held{}, inconclusivef("%s: %s", path, invalid)
	}
	plan, err := data.Meta.Planned()
	if err != nil {
		return advice.Run{}, nil, outcome.Held{}, fmt.Errorf("read %q: %w", path, err)
	}
	out := advice.Run{Name: filepath.Base(path), Times: times, Cards: map[string]string{}}
	for _, d := range data.Meta.Fingerprint.Devices {
		out.Cards[d.ID] = d.Name
	}
	holds, err := held(run)
	return out, plan.Series, holds, err
}

func (o *adviseOptions) imported(match *advice.Match) error {
	for _, part := range o.parts {
		name, path, ok := strings.Cut(part, "=")
		if !ok || name == "" || path == "" {
			return usagef("--part: %q, expected NAME=FILE.csv, as in attention=attention.csv", part)
		}
		times, err := importing.ReadPassTimes(path)
		if err != nil {
			return badFlag("part", err)
		}
		match.Replace(advice.ImportPart(name, times))
	}
	return nil
}

func (o *adviseOptions) write(found *advice.Advice, images []report.Image) error {
	a := o.app
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return devicef("write %q: %w", o.out, withoutPath(err))
	}
	write := func(name string, content func(io.Writer) error) error {
		return a.writeFile(filepath.Join(o.out, name), o.force, content)
	}
	for name, format := range map[string]report.Format{"advice.json": report.JSON, "advice.md": report.Markdown} {
		if err := write(name, func(w io.Writer) error { return report.WriteAdvice(w, format, found) }); err != nil {
			return err
		}
	}
	for _, f := range report.AdviceFigures(found) {
		for _, image := range images {
			if err := write(f.Name+"."+string(image), func(w io.Writer) error { return f.Write(w, image) }); err != nil {
				return err
			}
		}
	}
	a.notef("wrote advice.json, advice.md and plots to %s", o.out)
	return nil
}
