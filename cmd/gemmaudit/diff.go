package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/report/gate"
	"github.com/gemmaudit/gemmaudit/report/query"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/change"
	"github.com/gemmaudit/gemmaudit/rules/diff"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/outcome"
	"github.com/gemmaudit/gemmaudit/rules/problem"
	"github.com/gemmaudit/gemmaudit/rules/verdict"
)

type diffOptions struct {
	app          *app
	file         string
	threshold    float64
	fdr          float64
	clock        float64
	maxUndecided float64
	noGate       bool
	gate         verdict.Gate
	despite      bool
	kernels      []string
	out          string
	force        bool
	listed       selectFlags
	output       report.Format

	selection *query.Query
	copied    bool // B is a copy of A
}

// despiteDisturbance is the flag that compares times although one run was disturbed more.
const despiteDisturbance = "despite-disturbance"

func newDiffCommand(a *app) *cobra.Command {
	opts := &diffOptions{app: a}
	cmd := &cobra.Command{
		Use:               "diff A B | diff RUN --kernel A,B",
		Args:              opts.arguments,
		ValidArgsFunction: runFiles(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			selection, err := opts.listed.query(query.Changes)
			if err != nil {
				return err
			}
			opts.selection = selection
			cfg, err := opts.config(cmd.Flags().Changed)
			if err != nil {
				return err
			}
			if len(opts.kernels) > 0 {
				return opts.runKernels(cmd.Context(), cfg, args[0])
			}
			return opts.run(cmd.Context(), cfg, args[0], args[1])
		},
	}
	flags := cmd.Flags()
	addFlag(cmd, &opts.file, "rules", "", rulesUsage, filesWith("yaml", "yml"))
	addFlag(cmd, &opts.threshold, "threshold", 0, "smallest change of a case that counts, as in 0.05; stretches and series scale with it",
		fixed("0.03", "0.05", "0.1"))
	addFlag(cmd, &opts.fdr, "fdr", 0, "false discovery rate over the cases", fixed("0.05", "0.01"))
	flags.BoolVar(&opts.noGate, "no-gate", false, "same as --gate none: exit 0 even if cases are slower or undecided")
	flags.Float64Var(&opts.maxUndecided, "max-undecided", 0.5, "largest share of undecided cases for a verdict")
	flags.StringSliceVar(&opts.kernels, "kernel", nil, "A,B: compare two kernels of one run; B+C is the faster of two")
	addFlag(cmd, &opts.out, "out", "", "folder for index.html with both runs, report.md and diff.json", folders)
	flags.BoolVar(&opts.force, "force", false, intoUsage)
	clockFlag(cmd, &opts.clock)
	flags.BoolVar(&opts.despite, despiteDisturbance, false, "compare times even if other load disturbed one run more")
	changesGate(cmd, &opts.gate, verdict.Confirmed, "cases")
	gatesFlag(cmd, &opts.output, report.TextFormats())
	opts.listed.register(cmd, query.Changes)
	return cmd
}

func (o *diffOptions) arguments(cmd *cobra.Command, args []string) error {
	if len(o.kernels) == 0 {
		return exactArgs("A", "B")(cmd, args)
	}
	if len(o.kernels) != 2 || o.kernels[0] == o.kernels[1] {
		return usagef("--kernel: %q, expected two kernels as in openblas@1,openblas@2", strings.Join(o.kernels, ","))
	}
	return exactArgs("RUN")(cmd, args)
}

func (o *diffOptions) config(changed func(string) bool) (rules.Config, error) {
	cfg, err := rules.LoadConfig(o.file)
	if err != nil {
		return cfg, usage(err)
	}
	if changed("threshold") {
		if !(o.threshold >= 0 && o.threshold <= 10) {
			return cfg, usagef("--threshold: %v, expected 0 to 10", o.threshold)
		}
		// The thresholds of stretches and series stay proportional to the threshold of cases.
		by := o.threshold / cfg.Diff.Threshold
		if cfg.Diff.Threshold == 0 {
			by = 1
		}
		cfg.Diff.Threshold, cfg.Diff.Stretch, cfg.Diff.Series = o.threshold, min(10, cfg.Diff.Stretch*by), min(10, cfg.Diff.Series*by)
	}
	if !(o.maxUndecided >= 0 && o.maxUndecided <= 1) {
		return cfg, usagef("--max-undecided: %v, expected 0 to 1", o.maxUndecided)
	}
	if changed("fdr") {
		if !(o.fdr > 0 && o.fdr < 1) {
			return cfg, usagef("--fdr: %v, expected above 0 and below 1", o.fdr)
		}
		cfg.FDR = o.fdr
	}
	if changed("clock") {
		if err := setClock(&cfg, o.clock); err != nil {
			return cfg, err
		}
	}
	if o.noGate {
		if changed("gate") && o.gate.Kind != verdict.None {
			return cfg, usagef("--gate %s can't be combined with --no-gate", o.gate.Kind)
		}
		o.gate.Kind = verdict.None
	}
	if err := o.gate.Validate(); err != nil {
		return cfg, usage(err)
	}
	cfg.Diff.DespiteDisturbance = o.despite
	cfg.Today = o.app.now().Format("2006-01-02")
	return cfg, nil
}

func (o *diffOptions) run(ctx context.Context, cfg rules.Config, pathA, pathB string) error {
	a := o.app
	if err := o.checkOut(); err != nil {
		return err
	}
	var sides [2]infer.Data
	var ids [2]string
	holds := make([]outcome.Held, 2)
	for i, path := range []string{pathA, pathB} {
		side, err := a.loadSide(path)
		if err != nil {
			return err
		}
		sides[i], holds[i], ids[i] = side.data, side.held, side.id
	}
	o.copied = ids[0] == ids[1]
	d, err := diff.Compare(sides[0], sides[1], cfg)
	if err != nil {
		return err
	}
	in := report.DiffInput{Diff: d, A: sides[0], B: sides[1]}
	if !o.output.ForGate() || o.out != "" { // pipeline formats have only cases
		if in.Problems, err = compareProblems(ctx, d, sides, cfg); err != nil {
			return err
		}
	}
	return o.finish(ctx, in, holds, pathB)
}

// compareProblems matches the problems of two runs; nil if the runs are not comparable.
func compareProblems(ctx context.Context, d *diff.Result, sides [2]infer.Data, cfg rules.Config) (*problem.Changes, error) {
	if d.Invalid != "" {
		return nil, nil
	}
	var found [2]problem.Side
	for i, data := range sides {
		audit, err := rules.RunAudit(ctx, data, cfg, nil)
		if err != nil || audit.Invalid != "" {
			return nil, err
		}
		found[i].Data = data
		found[i].Problems, _ = problem.Find(data, audit, nil, nil)
	}
	return problem.Compare(found[0], found[1]), nil
}

func (o *diffOptions) runKernels(ctx context.Context, cfg rules.Config, path string) error {
	if err := o.checkOut(); err != nil {
		return err
	}
	side, err := o.app.loadSide(path)
	if err != nil {
		return err
	}
	data := side.data
	d, err := diff.CompareKernels(data, o.kernels[0], o.kernels[1], cfg)
	if err != nil {
		return badFlag("kernel", err)
	}
	return o.finish(ctx, report.DiffInput{Diff: d, A: data, B: data}, []outcome.Held{side.held}, path)
}

func (o *diffOptions) checkOut() error {
	if o.out == "" {
		return nil
	}
	return checkReportFolder(o.out, o.force)
}

// loadSide reads a run under its given path, because base names are often equal, and compares its content
// with its plan.
func (a *app) loadSide(path string) (*loadedRun, error) {
	run, err := a.openRun(path, false)
	if err != nil {
		return nil, err
	}
	defer run.Close()
	data, err := infer.LoadData(run)
	if err != nil {
		return nil, err
	}
	data.Name = path
	holds, err := held(run)
	return &loadedRun{data, holds, run.ID()}, err
}

// loadedRun is a run that is compared with others. Copies of one run share the id.
type loadedRun struct {
	data infer.Data
	held outcome.Held
	id   string
}

// finish prints a comparison, writes its folder, and returns the command's outcome. path is run B's.
func (o *diffOptions) finish(ctx context.Context, in report.DiffInput, holds []outcome.Held, path string) error {
	a := o.app
	ended := a.conclude(o.evidence(in.Diff, holds))
	shown, err := o.selection.Diff(in.Diff)
	if err != nil {
		return selectError(err)
	}
	if o.output.ForGate() {
		err = a.printChecks(o.output, &gate.Checks{Command: "diff", Path: path, Warnings: in.Diff.Warnings, Outcome: outcomeOf(ended),
			List: gate.OfDiff(in.B.Meta, in.Diff, o.gate.FailsChange)})
	} else {
		err = a.wrapPrint(report.WriteDiff(a.stream(a.stdout), o.output, shown, in.Problems))
	}
	if err == nil && o.out != "" {
		if err = report.WriteDiffFolder(ctx, o.out, in); err == nil {
			a.notef("report: %s", filepath.Join(o.out, "index.html"))
		}
	}
	return cmp.Or(err, ended)
}

// evidence is the input of a comparison's exit code. held has runs A and B, or the run of both kernels.
func (o *diffOptions) evidence(d *diff.Result, held []outcome.Held) outcome.Evidence {
	e := outcome.Evidence{Name: d.B, Held: held, Accept: o.gate.Accept, Ungated: o.gate.Kind == verdict.None, MostUndecided: o.maxUndecided,
		Cases: len(d.Cases) + d.Lost, Undecided: d.Undecided + d.Lost, UndecidedHint: d.UndecidedHint()}
	if d.Gate {
		e.Proven = append(e.Proven, d.B+": "+report.DiffGate(d))
	}
	if o.gate.FailsChange(change.SuspectedSlower) && d.SuspectsSlower() && d.Invalid == "" {
		e.Proven = append(e.Proven, d.B+": "+report.DiffSuspects(d))
	}
	if n := d.Marginal(); o.gate.Marginal && n > 0 && d.Invalid == "" {
		e.Proven = append(e.Proven, fmt.Sprintf("%s in %s", plural(n, "case is marginal", "cases are marginal"), d.B))
	}
	if d.Invalid != "" {
		g := outcome.Ground{Text: d.Invalid}
		if d.Disturbance == d.Invalid {
			g.Hint = "measure " + d.Disturber() + " again without other load; --" + despiteDisturbance + " compares the times anyway"
		}
		e.Open = append(e.Open, g)
	}
	if o.copied {
		e.Open = append(e.Open, outcome.Ground{Text: d.B + " is a copy of " + d.A, Hint: "compare it with another run"})
	}
	if len(d.Cases) == 0 {
		return e
	}
	// Losses relative to A's cases; anything else missing concerns B.
	e.Lost = d.Losses
	b := &e.Held[len(e.Held)-1].Coverage
	b.Failed, b.Missing = max(0, b.Failed-d.Losses.Failed), max(0, b.Missing-d.Losses.Missing)
	lost := min(d.Lost, d.Losses.Failed)
	e.Cases, e.Undecided = e.Cases-lost, e.Undecided-lost
	return e
}
