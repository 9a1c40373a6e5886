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
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/advice"
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
	accept    rules.Accept
	engines   []string
	out       string
	force     bool
	images    string
	output    report.Format
}

// mostSizes bounds the sizes to capture.
const mostSizes = 1024

func newAdviseCommand(a *app) *cobra.Command {
	opts := &adviseOptions{app: a}
	cmd := &cobra.Command{
		Use:   "advise RUN...",
		Short: "Advise which batch sizes an engine should run: graphs, chunks, settings",
		Example: examples(
			"gemmaudit sweep --model mistral-7b --dtype bf16 --kernel cublas --batch 16:2560:16 --out run.db",
			"gemmaudit advise run.db                                  # by the products alone",
			"gemmaudit advise run.db --measured prompts.csv           # with what whole passes took",
			"gemmaudit advise run.db --part attention=attention.csv --sizes 24 --traffic m.csv",
			"gemmaudit advise run.db --latency 50ms --for vllm -o json",
		),
		Long: `Adds up the time of a pass of a model over M tokens, with an interval, from runs of its products
with weights as engines hold them (--layout nk), each as often as a pass has it; inferred rows count.
From that follow: the sizes to capture as graphs, so that batches padded to the next of them take
the least expected time; the sizes that are never worth running, as a larger one is faster; the
chunk of a prefill with the most tokens a second; what each saves; and settings of engines.

Nothing is guessed. Attention, the head and a softmax over the vocabulary are added where they were
swept: attention as that of one prompt, the others on the last row of each sequence (--sequences), as
engines run them. What was not swept is imported, as --part attention=FILE.csv; or it is fitted as a
smooth rest to whole passes, --measured FILE.csv. Without either the times are those of the products
alone, which is said.

CSVs have a header, and one line for each M, in any order:
  --measured, --part  m,seconds       tokens of a pass, and its time in seconds, as in 512,0.01792;
                                      perhaps low and high, the bounds of a 95 % interval, both or
                                      neither; of a part perhaps count, how often a pass has it
  --traffic           m,weight        how often batches of M tokens run, as in 64,0.3: only ratios matter.
                                      The weight holds up to the next M that is listed, 0 ends a range,
                                      and the last M is by itself. The header may be left out

One set of limits feeds all settings: no size to capture is above the chunk, and those that count
sequences are not above --max-sequences either. Of times with too few samples nothing is sure.

Advice is about sizes that were measured or inferred: a batch in between runs as the next larger one.
docs/advise.md describes the arithmetic, and the settings of each engine.` + exitHelp(
			"0  advised",
			"2  products of the model are missing, of two devices, or there more than once; a CSV has a wrong cell",
			"3  a run file or the disk failed, or a CSV can't be opened; or cases failed in a run",
			"4  a run drifted too far, no chunk is surely within --latency, cases of a plan are missing, or several",
			"   machines measured a run"),
		Args:              atLeastArgs("RUN"),
		ValidArgsFunction: runFiles(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			return opts.run(args)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.model, "model", "", "model or the path of its config.json, perhaps with :q_proj+k_proj+... for its products (default: by the runs)")
	flags.IntVar(&opts.tp, "tp", 1, "ranks that the model is split over")
	flags.StringVar(&opts.kernel, "kernel", "", "kernel of the products (default: that of the runs, if it is one)")
	flags.StringVar(&opts.dtype, "dtype", "", "data type of the products (default: that of the runs, if it is one)")
	flags.StringVar(&opts.sequences, "sequences", "1", "sequences of a pass, whose last rows go through the head; all: each token is one, as in decoding")
	flags.StringArrayVar(&opts.parts, "part", nil, "NAME=FILE.csv: times of a part that was not swept, as attention=FILE.csv (repeatable)")
	flags.StringVar(&opts.measured, "measured", "", "CSV of m,seconds: whole passes that were measured, to which the rest is fitted")
	flags.StringVar(&opts.traffic, "traffic", "", "CSV of m,weight: how often each batch size is run (default: flat in log M)")
	flags.IntVar(&opts.sizes, "sizes", 16, "most sizes to capture")
	flags.DurationVar(&opts.latency, "latency", 0, "bound on the time of a chunk, as in 50ms, 0 for none")
	flags.IntVar(&opts.tokens, "max-num-batched-tokens", 0, "most tokens of a pass, which bounds the chunk (default: the advised chunk)")
	flags.IntVar(&opts.decoding, "max-sequences", 0, "most sequences that decode at a time, 0 for unknown: bounds sizes that count sequences")
	flags.StringVar(&opts.minGain, "min-gain", "2%", "gain of a larger size from which on a size is never worth running")
	flags.Float64Var(&opts.fdr, "fdr", 0.05, "false discovery rate of those sizes")
	flags.StringSliceVar(&opts.engines, "for", advice.Engines(), "engines whose settings are written")
	flags.StringVar(&opts.out, "out", "", "folder for advice.json, advice.md and plots")
	flags.BoolVar(&opts.force, "force", false, "replace files in --out")
	flags.StringVar(&opts.images, "images", "svg", "formats of the plots: all, or some of png,svg,pdf")
	clockFlag(cmd, &opts.clock)
	acceptFlags(cmd, &opts.accept)
	outputFlag(cmd, &opts.output)
	complete(cmd, "model", completeModels)
	complete(cmd, "kernel", cobra.NoFileCompletions)
	complete(cmd, "dtype", fixed("bf16", "fp16"))
	complete(cmd, "sequences", fixed("1", "all"))
	complete(cmd, "part", cobra.NoFileCompletions)
	complete(cmd, "measured", filesWith("csv"))
	complete(cmd, "traffic", filesWith("csv"))
	complete(cmd, "latency", fixed("20ms", "50ms", "100ms"))
	complete(cmd, "max-num-batched-tokens", cobra.NoFileCompletions)
	complete(cmd, "max-sequences", cobra.NoFileCompletions)
	complete(cmd, "min-gain", fixed("1%", "2%", "5%"))
	complete(cmd, "fdr", fixed("0.05", "0.01"))
	complete(cmd, "for", listOf(advice.Engines))
	complete(cmd, "out", folders)
	complete(cmd, "images", listOf(func() []string { return []string{"all", "png", "svg", "pdf"} }))
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
	var measured advice.Measured
	if o.measured != "" {
		times, err := results.ReadPassTimes(o.measured)
		if err != nil {
			return badFlag("measured", err)
		}
		measured = advice.MeasuredTimes(times)
	}
	for _, path := range paths {
		subject.Runs = append(subject.Runs, filepath.Base(path))
	}
	key := match.Series
	subject.Device, subject.Card, subject.Kernel = key.Device, match.Card, key.Kernel
	subject.DType, subject.Layout, subject.ClockMHz = string(key.DType), key.Layout.String(), match.ClockMHz
	missing := append(slices.Clone(match.Missing), "norms, activations and what else a pass computes")
	if o.tp > 1 {
		missing = append(missing, "communication between ranks")
	}
	found, err := advice.Advise(subject, match.Parts, missing, measured, options)
	if err != nil {
		return usage(err)
	}
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
	evidence := rules.Evidence{Held: holds, Accept: o.accept}
	if found.Chunk.M == 0 {
		evidence.Open = groundsOf(inconclusivef("no chunk is surely within --latency %v: the fastest pass that is known takes %v", o.latency, time.Duration(fastest(found)*1e9).Round(time.Microsecond)))
	}
	return a.conclude(evidence)
}

// fastest is the least time of a pass in seconds.
func fastest(a *advice.Advice) float64 {
	least := a.Passes[0].Seconds.Mid
	for _, p := range a.Passes {
		least = min(least, p.Seconds.Mid)
	}
	return least
}

// options reads the flags that say what to advise on.
func (o *adviseOptions) options() (advice.Options, error) {
	out := advice.Options{Sizes: o.sizes, Latency: o.latency.Seconds(), FDR: o.fdr, Engines: o.engines, MaxTokens: o.tokens, MaxSequences: o.decoding}
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
	if o.traffic != "" {
		if out.Traffic, err = results.ReadTraffic(o.traffic); err != nil {
			return out, badFlag("traffic", err)
		}
	}
	return out, nil
}

// parseGain reads a share, as "2%" or 0.02.
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

// passRuns reads the times of runs, at one clock, and the series that their plans name.
func (a *app) passRuns(paths []string, clock float64) ([]advice.Run, []results.PlannedSeries, []rules.Held, error) {
	cfg, err := rules.LoadConfig("")
	if err != nil {
		return nil, nil, nil, usage(err)
	}
	if err := setClock(&cfg, clock); err != nil {
		return nil, nil, nil, err
	}
	var runs []advice.Run
	var all []rules.Held
	var planned []results.PlannedSeries
	for _, path := range paths {
		run, of, holds, err := a.passRun(path, cfg)
		if err != nil {
			return nil, nil, nil, err
		}
		all = append(all, holds)
		for _, s := range run.Times {
			if cfg.ClockMHz == 0 {
				cfg.ClockMHz = s.ClockMHz // runs that are added up are judged at one clock
			}
		}
		runs, planned = append(runs, run), append(planned, of...)
	}
	return runs, planned, all, nil
}

// passRun reads one run.
func (a *app) passRun(path string, cfg rules.Config) (advice.Run, []results.PlannedSeries, rules.Held, error) {
	run, err := a.openRun(path, false)
	if err != nil {
		return advice.Run{}, nil, rules.Held{}, err
	}
	defer run.Close()
	data, err := rules.LoadData(run)
	if err != nil {
		return advice.Run{}, nil, rules.Held{}, err
	}
	times, invalid, err := rules.Times(data, cfg)
	if err != nil {
		return advice.Run{}, nil, rules.Held{}, err
	}
	if invalid != "" {
		return advice.Run{}, nil, rules.Held{}, inconclusivef("%s: %s", path, invalid)
	}
	plan, err := data.Meta.Planned()
	if err != nil {
		return advice.Run{}, nil, rules.Held{}, fmt.Errorf("read %q: %w", path, err)
	}
	out := advice.Run{Name: filepath.Base(path), Times: times, Cards: map[string]string{}}
	for _, d := range data.Meta.Fingerprint.Devices {
		out.Cards[d.ID] = d.Name
	}
	holds, err := held(run)
	return out, plan.Series, holds, err
}

// imported puts the parts that are brought in the place of those that were swept.
func (o *adviseOptions) imported(match *advice.Match) error {
	for _, part := range o.parts {
		name, path, ok := strings.Cut(part, "=")
		if !ok || name == "" || path == "" {
			return usagef("--part: %q, expected NAME=FILE.csv, as in attention=attention.csv", part)
		}
		times, err := results.ReadPassTimes(path)
		if err != nil {
			return badFlag("part", err)
		}
		match.Replace(advice.ImportPart(name, times))
	}
	return nil
}

// write fills the folder of --out.
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
