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
	"github.com/gemmaudit/gemmaudit/rules/diff"
	"github.com/gemmaudit/gemmaudit/sweep"
)

type choicesOptions struct {
	app    *app
	plan   planFlags
	diff   bool
	out    string
	output report.Format
}

// askedEvery is the interval of progress messages.
const askedEvery = 5 * time.Second

func newChoicesCommand(a *app) *cobra.Command {
	opts := &choicesOptions{app: a}
	cmd := &cobra.Command{
		Use:               "choices [RUN] | choices --diff [A B | RUN]",
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
	flags.Lookup("layout").Usage = "weight layout: nk ([N,K], as in engines), kn ([K,N], as in torch.mm), or both, kn,nk"
	a.faults.registerTimeout(cmd, "stop if a device takes this long to report one choice; 0 for never")
	flags.BoolVar(&opts.diff, "diff", false, "compare two layouts, kernels or runs")
	addFlag(cmd, &opts.out, "out", "", "store the choices in a new run file", filesWith("db"))
	outputFlag(cmd, &opts.output)
	a.labels.register(cmd)
	return cmd
}

// arguments allows no run, one, or two for a comparison.
func (o *choicesOptions) arguments(_ *cobra.Command, args []string) error {
	if err := o.app.faults.check(); err != nil {
		return err
	}
	for _, name := range timingFlags() {
		if o.plan.changed(name) {
			return usagef("--%s does not affect the choice of kernels", name)
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
		return usagef("--out: %s already has its choices", args[0])
	}
	for _, name := range flagsOfRun() {
		if o.plan.changed(name) && (len(args) == 2 || !o.diff || name != "kernel" && name != "layout") {
			return usagef("--%s can't be combined with a run: its settings are in the run", name)
		}
	}
	return nil
}

func (o *choicesOptions) ask(ctx context.Context) error {
	a := o.app
	switch labels, err := a.labels.labels(); {
	case err != nil:
		return err
	case o.out == "" && len(labels) > 0:
		return usagef("--label needs --out")
	}
	if _, err := os.Lstat(o.out); o.out != "" && err == nil {
		return errExists(o.out, "give another --out")
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
			a.notef("%s asked so far", plural(asked, "case", "cases"))
			next = now.Add(askedEvery)
		}
	}})
	if err != nil {
		return err
	}
	if told.Asked > 0 {
		took := a.now().Sub(began)
		a.notef("asked about %s in %s, %.3g us each", plural(told.Asked, "case", "cases"), report.Duration(took),
			float64(took)/float64(time.Microsecond)/float64(told.Asked))
	}
	if len(told.Choices) == 0 {
		return inconclusivef("no kernel reported its choices: %s", firstReason(told))
	}
	if o.out != "" {
		if err := a.keepChoices(o.out, plan, devices, told); err != nil {
			return err
		}
	}
	chosen := diff.Chosen{Name: "here", Choices: told.Choices, Ms: asked(plan)}
	if o.diff {
		return o.compare(chosen, kernelsOf(plan))
	}
	return a.wrapPrint(report.WriteChoices(a.stream(a.stdout), o.output, report.NewChoices(o.out, told.Choices, chosen.Ms, told.Untold)))
}

// planned returns the plan to query: each layout's in turn.
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
	for _, note := range sweep.ShortNotes(plan.Notes) {
		a.notef("%s", note)
	}
	return plan, nil
}

func asked(plan *sweep.Plan) map[results.SeriesKey][]int {
	out := map[results.SeriesKey][]int{}
	for _, s := range plan.Series {
		out[s.SeriesKey] = s.Ms
	}
	return out
}

func kernelsOf(plan *sweep.Plan) []string {
	var names []string
	for _, s := range plan.Series {
		if !slices.Contains(names, s.Kernel) {
			names = append(names, s.Kernel)
		}
	}
	return names
}

func firstReason(told sweep.Told) string {
	reasons := make([]string, 0, len(told.Untold))
	for key, reason := range told.Untold {
		reasons = append(reasons, key.Text()+": "+reason)
	}
	slices.Sort(reasons)
	return strings.Join(reasons[:min(1, len(reasons))], "")
}

func (a *app) keepChoices(path string, plan *sweep.Plan, devices []kernels.Device, told sweep.Told) error {
	labels, err := a.labels.labels()
	if err != nil {
		return err
	}
	encoded, err := plan.Encode()
	if err != nil {
		return err
	}
	run, err := results.Create(path, results.Meta{
		Created: a.now(), Command: a.command, Gemmaudit: buildVersion(), Fingerprint: fingerprintOf(devices),
		Labels: labels, Plan: encoded, Regime: plan.Regime, Distribution: plan.Distribution, Seed: plan.Seed,
	})
	if err != nil {
		return err
	}
	return errors.Join(told.Store(run), run.Close())
}

func (o *choicesOptions) read(paths []string) error {
	a := o.app
	var sides []diff.Chosen
	for _, path := range paths {
		side, err := a.chosenIn(path)
		if err != nil {
			return err
		}
		sides = append(sides, side)
	}
	switch {
	case len(sides) == 2:
		return o.print(diff.CompareChoices(sides[0], sides[1]))
	case o.diff:
		return o.compare(sides[0], o.plan.set.Kernels)
	}
	return a.wrapPrint(report.WriteChoices(a.stream(a.stdout), o.output, report.NewChoices(paths[0], sides[0].Choices, sides[0].Ms, nil)))
}

// chosenIn returns a run's choices. Imported runs have no plan, so the queried Ms are unknown.
func (a *app) chosenIn(path string) (diff.Chosen, error) {
	run, err := a.openRun(path, false)
	if err != nil {
		return diff.Chosen{}, err
	}
	defer run.Close()
	choices, err := run.Choices()
	if err != nil {
		return diff.Chosen{}, err
	}
	if len(choices) == 0 {
		return diff.Chosen{},
			hint(inconclusivef("%s has no stored choices", path), "`gemmaudit choices --out RUN` stores them, and so does sweep --infer")
	}
	side := diff.Chosen{Name: path, Choices: choices}
	if plan, err := sweep.DecodePlan(run.Meta().Plan); err == nil {
		side.Ms = asked(plan)
	}
	return side, nil
}

func (o *choicesOptions) compare(side diff.Chosen, names []string) error {
	if layouts := strings.Split(o.plan.layout, ","); len(layouts) == 2 {
		var both [2]kernels.Layout
		for i, name := range layouts {
			var err error
			if both[i], err = kernels.ParseLayout(strings.TrimSpace(name)); err != nil {
				return badFlag("layout", err)
			}
		}
		if both[0] == both[1] {
			return usagef("--layout: %q is given twice: expected two layouts to compare, as in kn,nk", both[0])
		}
		return o.print(diff.CompareChosenLayouts(side, both[0], both[1]))
	}
	if len(names) != 2 || names[0] == names[1] {
		return hint(usagef("--diff: expected two sides, not %s", plural(len(names), "kernel", "kernels")),
			"give two runs, two layouts as in --layout kn,nk, or two kernels as in --kernel cublas,auto")
	}
	return o.print(diff.CompareChosenKernels(side, names[0], names[1]))
}

func (o *choicesOptions) print(d *diff.Choices, err error) error {
	if err != nil {
		return inconclusivef("%w", err)
	}
	return o.app.wrapPrint(report.WriteChoicesDiff(o.app.stream(o.app.stdout), o.output, d))
}
