package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/sweep"
)

type choicesOptions struct {
	app    *app
	plan   planFlags
	diff   bool
	out    string
	output report.Format
}

// askedEvery is how often it is told how many cases have been asked about.
const askedEvery = 5 * time.Second

func newChoicesCommand(a *app) *cobra.Command {
	opts := &choicesOptions{app: a}
	cmd := &cobra.Command{
		Use:   "choices [RUN] | choices --diff [A B | RUN]",
		Short: "Tell which kernel would run at every M, without timing anything",
		Example: examples(
			"gemmaudit choices --model llama3-8b --dtype bf16 --kernel cublas --batch 1:8192",
			"gemmaudit choices --shape n4096k4096 --kernel cublas,auto --batch 8:32768:8 -o csv > stretches.csv",
			"gemmaudit choices --diff --layout kn,nk --shape n4096k4096 --kernel cublas --batch 1:4096",
			"gemmaudit choices --diff --library cublas=old.so --library cublas=new.so --kernel cublaslt --batch 1:4096",
			"gemmaudit choices --shape n4096k4096 --kernel cublas --batch 1:4096 --out before.db   # keep them",
			"gemmaudit choices before.db                                   # those that a run keeps",
			"gemmaudit choices --diff before.db after.db                   # versions, drivers or cards",
			"gemmaudit choices --diff run.db --kernel cublas@12.4.5,cublas@13.1.0",
		),
		Long: `A library has many kernels for one product and chooses by a heuristic. Where the choice
changes from one M to the next, time may jump. The choice can be asked for without running
anything: tens of microseconds a case, so that all M of a model take seconds.

What is printed are stretches of M for which one launch is chosen: its label, as audits and
CSVs name it; the tile, M by N by K, that one block computes; split, the parts along K; stages,
the steps along K that are in flight; the cluster; and waves, how often the tiles fill the device,
at both ends of the stretch. What cannot be known is empty.

  our kernels   plan on the CPU: everything is known
  cublas        puts its kernels into a CUDA graph that never runs, and the graph tells their
                names, grid and cluster (driver for CUDA 12.3 or later)
  cublaslt      its heuristic tells the algorithm; cublaslt:1 and on are its next choices (--algos)
  onednn        tells the name of its implementation
  openblas, kernels brought as files and batches of products: cannot be asked, which is said

--diff compares two layouts (--layout kn,nk), two kernels or two versions of a library (--kernel or
--library), two runs, or two layouts or kernels of one run: the stretches that changed and to
what, and the share of M that changed. A sweep that infers rows asks first and keeps the answers in its
run; audit lists timed rows whose launch differs from what was foretold, as launch-differs.` + exitHelp(
			"0  told, whatever changed",
			"2  the plan is not possible, or there are not two sides to compare",
			"3  a device or a run file failed",
			"4  nothing was told: no kernel can be asked, or the run keeps no choices"),
		Args:              opts.arguments,
		ValidArgsFunction: runFiles(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return opts.ask(cmd.Context())
			}
			return opts.read(args)
		},
	}
	opts.plan.register(a, cmd, defaultPreset)
	flags := cmd.Flags()
	for _, name := range timingFlags() {
		_ = flags.MarkHidden(name) // it is there
	}
	flags.Lookup("layout").Usage = "how weights are stored: nk ([N,K], as engines hold them), kn ([K,N], as torch.mm gets them), or both, as kn,nk"
	a.faults.registerTimeout(cmd, "give up when a device takes this long to tell what it would run at one M; 0 for never")
	flags.BoolVar(&opts.diff, "diff", false, "compare two layouts, kernels or runs")
	flags.StringVar(&opts.out, "out", "", "keep what is told in a new run file")
	outputFlag(cmd, &opts.output)
	complete(cmd, "out", filesWith("db"))
	a.labels.register(cmd)
	return cmd
}

// arguments allows no run, one, or two where they are compared.
func (o *choicesOptions) arguments(_ *cobra.Command, args []string) error {
	if err := o.app.faults.check(); err != nil {
		return err
	}
	for _, name := range timingFlags() {
		if o.plan.changed(name) {
			return usagef("--%s changes nothing about what would run", name)
		}
	}
	most := 1
	if o.diff {
		most = 2
	}
	switch {
	case len(args) > most:
		return usagef("unexpected argument %q: expected at most %s", args[most], plural(most, "run", "runs"))
	case len(args) == 0:
		return nil
	case o.out != "":
		return usagef("--out: %s keeps its choices already", args[0])
	}
	for _, name := range flagsOfRun() {
		if o.plan.changed(name) && (len(args) == 2 || !o.diff || name != "kernel" && name != "layout") {
			return usagef("--%s can't be combined with a run: what was asked is the run's", name)
		}
	}
	return nil
}

// ask asks the devices.
func (o *choicesOptions) ask(ctx context.Context) error {
	a := o.app
	switch labels, err := a.labels.labels(); {
	case err != nil:
		return err
	case o.out == "" && len(labels) > 0:
		return usagef("--label: expected together with --out: a label is of a run")
	}
	if _, err := os.Lstat(o.out); o.out != "" && err == nil {
		return hint(devicef("%q exists and is not overwritten", o.out), "give another --out")
	}
	plan, err := o.planned(ctx)
	if err != nil {
		return err
	}
	devices, err := a.planDevices(plan)
	if err != nil {
		return err
	}
	began := a.now()
	next := began.Add(askedEvery)
	told, err := sweep.AskChoices(ctx, devices, plan, sweep.Asking{CaseTimeout: a.faults.timeout, Progress: func(asked int) {
		if now := a.now(); now.After(next) {
			a.notef("asked about %s so far", plural(asked, "case", "cases"))
			next = now.Add(askedEvery)
		}
	}})
	if err != nil {
		return err
	}
	if told.Asked > 0 {
		took := a.now().Sub(began)
		a.notef("asked about %s in %s, %.3g us each", plural(told.Asked, "case", "cases"), report.Duration(took), float64(took)/float64(time.Microsecond)/float64(told.Asked))
	}
	if len(told.Choices) == 0 {
		return inconclusivef("nothing was told: %s", firstReason(told))
	}
	if o.out != "" {
		if err := a.keepChoices(o.out, plan, devices, told); err != nil {
			return err
		}
	}
	chosen := rules.Chosen{Name: "here", Choices: told.Choices, Ms: asked(plan)}
	if o.diff {
		return o.compare(chosen, kernelsOf(plan))
	}
	return a.wrapPrint(report.WriteChoices(a.stream(a.stdout), o.output, report.NewChoices(o.out, told.Choices, chosen.Ms, told.Untold)))
}

// planned is the plan of what is asked: that of each layout, one after the other.
func (o *choicesOptions) planned(ctx context.Context) (*sweep.Plan, error) {
	a := o.app
	devices, err := a.devices()
	if err != nil {
		return nil, err
	}
	var plan *sweep.Plan
	for _, layout := range strings.Split(o.plan.layout, ",") {
		flags := o.plan
		flags.layout = strings.TrimSpace(layout)
		options, err := flags.options()
		if err != nil {
			return nil, err
		}
		if err := checkThreads(devices, options.Threads); err != nil {
			return nil, err
		}
		if options.Kernels, err = a.kernelsNamed(devices, options.Kernels); err != nil {
			return nil, err
		}
		next, err := sweep.NewPlan(ctx, devices, options, nil)
		if err != nil {
			return nil, planError(err)
		}
		if plan == nil {
			plan = next
			continue
		}
		plan.Series = append(plan.Series, slices.DeleteFunc(next.Series, func(s sweep.PlannedSeries) bool {
			return slices.ContainsFunc(plan.Series, func(have sweep.PlannedSeries) bool { return have.SeriesKey == s.SeriesKey })
		})...)
		plan.Notes = append(plan.Notes, next.Notes...)
	}
	slices.SortFunc(plan.Notes, func(a, b sweep.Note) int { return strings.Compare(a.String(), b.String()) })
	plan.Notes = slices.Compact(plan.Notes)
	for _, note := range plan.Notes {
		a.notef("%s", note)
	}
	return plan, nil
}

// asked are the Ms of a plan, by series.
func asked(plan *sweep.Plan) map[results.SeriesKey][]int {
	out := map[results.SeriesKey][]int{}
	for _, s := range plan.Series {
		out[s.SeriesKey] = s.Ms
	}
	return out
}

// kernelsOf are the kernels of a plan, in its order.
func kernelsOf(plan *sweep.Plan) []string {
	var names []string
	for _, s := range plan.Series {
		if !slices.Contains(names, s.Kernel) {
			names = append(names, s.Kernel)
		}
	}
	return names
}

// firstReason is why nothing was told.
func firstReason(told sweep.Told) string {
	reasons := make([]string, 0, len(told.Untold))
	for key, reason := range told.Untold {
		reasons = append(reasons, key.Text()+": "+reason)
	}
	slices.Sort(reasons)
	return strings.Join(reasons[:min(1, len(reasons))], "")
}

// keepChoices makes a run that holds nothing but what was told.
func (a *app) keepChoices(path string, plan *sweep.Plan, devices []kernels.Device, told sweep.Told) error {
	labels, err := a.labels.labels()
	if err != nil {
		return err
	}
	encoded, err := plan.Encode()
	if err != nil {
		return err
	}
	specs := make([]kernels.Spec, len(devices))
	for i, d := range devices {
		specs[i] = d.Spec()
	}
	run, err := results.Create(path, results.Meta{
		Created: a.now(), Command: a.command, Gemmaudit: buildVersion(), Fingerprint: results.ReadFingerprint(specs, buildVersion()),
		Labels: labels, Plan: encoded, Regime: plan.Regime, Distribution: plan.Distribution, Seed: plan.Seed,
	})
	if err != nil {
		return err
	}
	return errors.Join(told.Store(run), run.Close())
}

// read prints what runs keep, or compares it.
func (o *choicesOptions) read(paths []string) error {
	a := o.app
	var sides []rules.Chosen
	for _, path := range paths {
		side, err := a.chosenIn(path)
		if err != nil {
			return err
		}
		sides = append(sides, side)
	}
	switch {
	case len(sides) == 2:
		return o.print(rules.DiffChoices(sides[0], sides[1]))
	case o.diff:
		return o.compare(sides[0], o.plan.kernels)
	}
	return a.wrapPrint(report.WriteChoices(a.stream(a.stdout), o.output, report.NewChoices(paths[0], sides[0].Choices, sides[0].Ms, nil)))
}

// chosenIn are the choices of a run. A run that was imported has no plan, and knows no Ms
// that were asked.
func (a *app) chosenIn(path string) (rules.Chosen, error) {
	run, err := a.openRun(path, false)
	if err != nil {
		return rules.Chosen{}, err
	}
	defer run.Close()
	choices, err := run.Choices()
	if err != nil {
		return rules.Chosen{}, err
	}
	if len(choices) == 0 {
		return rules.Chosen{}, hint(inconclusivef("%s keeps no choices", path), "`gemmaudit choices --out RUN` asks and keeps them, and so does a sweep that infers rows")
	}
	side := rules.Chosen{Name: path, Choices: choices}
	if plan, err := sweep.DecodePlan(run.Meta().Plan); err == nil {
		side.Ms = asked(plan)
	}
	return side, nil
}

// compare compares the two layouts of --layout, or else two kernels, of one side.
func (o *choicesOptions) compare(side rules.Chosen, names []string) error {
	if layouts := strings.Split(o.plan.layout, ","); len(layouts) == 2 {
		var both [2]kernels.Layout
		for i, name := range layouts {
			var err error
			if both[i], err = kernels.ParseLayout(strings.TrimSpace(name)); err != nil {
				return badFlag("layout", err)
			}
		}
		if both[0] == both[1] {
			return usagef("--layout: %q stands twice: expected two layouts to compare, as in kn,nk", both[0])
		}
		return o.print(rules.DiffChosenLayouts(side, both[0], both[1]))
	}
	if len(names) != 2 || names[0] == names[1] {
		return hint(usagef("--diff: there are not two sides: %s", plural(len(names), "kernel", "kernels")),
			"two runs, two layouts as in --layout kn,nk, or two kernels as in --kernel cublas,auto")
	}
	return o.print(rules.DiffChosenKernels(side, names[0], names[1]))
}

// print prints a comparison.
func (o *choicesOptions) print(d *rules.ChoicesDiff, err error) error {
	if err != nil {
		return inconclusivef("%w", err)
	}
	return o.app.wrapPrint(report.WriteChoicesDiff(o.app.stream(o.app.stdout), o.output, d))
}
