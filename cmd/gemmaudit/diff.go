package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/query"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/rules"
)

type diffOptions struct {
	app          *app
	file         string
	threshold    float64
	fdr          float64
	clock        float64
	maxUndecided float64
	noGate       bool
	gate         changeGate
	kernels      []string
	out          string
	force        bool
	listed       selectFlags
	output       report.Format

	selection *query.Query
}

func newDiffCommand(a *app) *cobra.Command {
	opts := &diffOptions{app: a}
	cmd := &cobra.Command{
		Use:   "diff A B | diff RUN --kernel A,B",
		Short: "Compare two runs, machines or kernels; fail when B is slower",
		Example: examples(
			"gemmaudit diff baseline.db new.db",
			"gemmaudit diff baseline.db new.db --threshold 0.05 -o markdown >> $GITHUB_STEP_SUMMARY",
			"gemmaudit diff baseline.db new.db -o github                # annotations of a pull request",
			"gemmaudit diff run.db --kernel openblas@0.3.21,openblas@0.3.30   # two kernels of one run",
			"gemmaudit diff h100.db h200.db --gate none -o wide",
			"gemmaudit diff baseline.db new.db --out page             # and page/index.html, both runs overlaid",
			"gemmaudit diff baseline.db new.db --where 'ratio>1.05 && m<=64' --sort -ratio",
		),
		Long: `Fingerprints side by side first: a comparison with more than one differing factor is
labelled as confounded. Then every case that both runs have, with the ratio of B's time to
A's, its interval and adjusted p-value; findings that are new, fixed, the same or
undecided; and geometric means, with intervals over rows. Both runs are judged at one clock, and how much cases
differ from run to run is in every interval. The gate looks at single cases, at stretches
of neighbouring M that are slower together, and at whole series; the rules file sets
their thresholds (diff.threshold, diff.stretch, diff.series). Findings of a kind are
listed by the time at stake: loss times time, summed over their rows.

--out also writes a folder with one interactive page: the ratio of every case over M, both runs
overlaid, and the findings that are new first.

A case with too few samples for a scatter of its own is judged by that of the rows around it, or an
assumed one. What changed by more than that is suspected slower or faster: it is undecided all the same,
and fails --gate suspected alone. --gate any is --gate confirmed, as nothing is measured again.

A case that A measured and B could not is a loss. ` + acceptHelp + `

With --kernel two kernels of one run are compared: every case of B with the same product on A,
measured in the same rounds.

` + selectHelp(query.Changes) + `

-o junit, sarif and github are for pipelines: each case, stretch and series that is slower is one case, result or
annotation, under a name that is the same in every comparison. No format changes the exit code.` + exitHelp(
			"0  no case, stretch of M or series is surely slower by more than its threshold",
			"1  the gate failed: something is slower, or with --fail-marginal cases lie at the threshold",
			"3  cases failed in a run, or a run can't be read",
			"4  cases that A measured are not in B, cases of a plan are missing, machines are mixed, the runs",
			"   can't be compared, or more cases are undecided than --max-undecided allows"),
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
	flags.StringVar(&opts.file, "rules", "", "YAML file of rules, thresholds and waivers, laid over the built-in one")
	flags.Float64Var(&opts.threshold, "threshold", 0, "share by which a case's time has to change to count; those of stretches of M and of series follow in proportion")
	flags.Float64Var(&opts.fdr, "fdr", 0, "false discovery rate over the cases")
	flags.BoolVar(&opts.noGate, "no-gate", false, "the same as --gate none: exit 0 also when cases are slower or undecided")
	flags.Float64Var(&opts.maxUndecided, "max-undecided", 0.5, "share of undecided cases beyond which the comparison is inconclusive")
	flags.StringSliceVar(&opts.kernels, "kernel", nil, "A,B: compare these two kernels of one run")
	flags.StringVar(&opts.out, "out", "", "folder for index.html with both runs overlaid, report.md and diff.json")
	flags.BoolVar(&opts.force, "force", false, "write into a folder that holds something else than a report")
	clockFlag(cmd, &opts.clock)
	opts.gate.register(cmd, gateConfirmed, "cases")
	gatesFlag(cmd, &opts.output, report.TextFormats())
	opts.listed.register(cmd, query.Changes)
	complete(cmd, "rules", filesWith("yaml", "yml"))
	complete(cmd, "threshold", fixed("0.03", "0.05", "0.1"))
	complete(cmd, "fdr", fixed("0.05", "0.01"))
	complete(cmd, "out", folders)
	complete(cmd, "kernel", cobra.NoFileCompletions)
	return cmd
}

// arguments demands two runs, or one with two kernels.
func (o *diffOptions) arguments(cmd *cobra.Command, args []string) error {
	if len(o.kernels) == 0 {
		return exactArgs("A", "B")(cmd, args)
	}
	if len(o.kernels) != 2 || o.kernels[0] == o.kernels[1] {
		return usagef("--kernel: %q, expected two kernels as in openblas@1,openblas@2", strings.Join(o.kernels, ","))
	}
	return exactArgs("RUN")(cmd, args)
}

// config reads the rules file and lays the flags over it.
func (o *diffOptions) config(changed func(string) bool) (rules.Config, error) {
	cfg, err := rules.LoadConfig(o.file)
	if err != nil {
		return cfg, usage(err)
	}
	if changed("threshold") {
		if !(o.threshold >= 0 && o.threshold <= 10) {
			return cfg, usagef("--threshold: %v, expected 0 to 10", o.threshold)
		}
		// The thresholds of stretches and series keep their proportion to that of cases.
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
		if changed("gate") && o.gate.changes != gateNone {
			return cfg, usagef("--gate %s can't be combined with --no-gate", o.gate.changes)
		}
		o.gate.changes = gateNone
	}
	if err := o.gate.check(); err != nil {
		return cfg, err
	}
	cfg.Today = o.app.now().Format("2006-01-02")
	return cfg, nil
}

func (o *diffOptions) run(ctx context.Context, cfg rules.Config, pathA, pathB string) error {
	a := o.app
	if err := o.checkOut(); err != nil {
		return err
	}
	var sides [2]rules.Data
	holds := make([]rules.Held, 2)
	for i, path := range []string{pathA, pathB} {
		var err error
		if sides[i], holds[i], err = a.loadSide(path); err != nil {
			return err
		}
	}
	d, err := rules.Diff(sides[0], sides[1], cfg)
	if err != nil {
		return err
	}
	return o.finish(ctx, report.DiffInput{Diff: d, A: sides[0], B: sides[1]}, holds, pathB)
}

// runKernels compares two kernels of one run.
func (o *diffOptions) runKernels(ctx context.Context, cfg rules.Config, path string) error {
	if err := o.checkOut(); err != nil {
		return err
	}
	data, holds, err := o.app.loadSide(path)
	if err != nil {
		return err
	}
	d, err := rules.DiffKernels(data, o.kernels[0], o.kernels[1], cfg)
	if err != nil {
		return badFlag("kernel", err)
	}
	return o.finish(ctx, report.DiffInput{Diff: d, A: data, B: data}, []rules.Held{holds}, path)
}

// checkOut returns an error where the folder that was asked for may not be written.
func (o *diffOptions) checkOut() error {
	if o.out == "" {
		return nil
	}
	return checkReportFolder(o.out, o.force)
}

// loadSide reads a run under the path that it was given by, since base names of runs are
// often equal, and counts what it holds of what it was asked for.
func (a *app) loadSide(path string) (rules.Data, rules.Held, error) {
	run, err := a.openRun(path, false)
	if err != nil {
		return rules.Data{}, rules.Held{}, err
	}
	defer run.Close()
	data, err := rules.LoadData(run)
	if err != nil {
		return rules.Data{}, rules.Held{}, err
	}
	data.Name = path
	holds, err := held(run)
	return data, holds, err
}

// finish prints a comparison, writes its folder, and turns it into the command's outcome. path is run B's.
func (o *diffOptions) finish(ctx context.Context, in report.DiffInput, holds []rules.Held, path string) error {
	a := o.app
	verdict := a.conclude(o.evidence(in.Diff, holds))
	shown, err := o.selection.Diff(in.Diff)
	if err != nil {
		return selectError(err)
	}
	if o.output.ForGate() {
		err = a.printChecks(o.output, &report.Checks{Command: "diff", Path: path, Warnings: in.Diff.Warnings, Outcome: outcomeOf(verdict),
			List: report.DiffChecks(in.B.Meta, in.Diff, o.gate.fails)})
	} else {
		err = a.wrapPrint(report.WriteDiff(a.stream(a.stdout), o.output, shown))
	}
	if err == nil && o.out != "" {
		if err = report.WriteDiffFolder(ctx, o.out, in); err == nil {
			a.notef("report: %s", filepath.Join(o.out, "index.html"))
		}
	}
	return cmp.Or(err, verdict)
}

// evidence is what the exit code of a comparison follows from. held are the runs: A and B, or the one of both kernels.
func (o *diffOptions) evidence(d *rules.DiffResult, held []rules.Held) rules.Evidence {
	e := rules.Evidence{Name: d.B, Held: held, Accept: o.gate.accept, Ungated: o.gate.changes == gateNone, MostUndecided: o.maxUndecided,
		Cases: len(d.Cases) + d.Lost, Undecided: d.Undecided + d.Lost, UndecidedHint: d.UndecidedHint()}
	if d.Gate {
		e.Proven = append(e.Proven, d.B+": "+report.DiffGate(d))
	}
	if o.gate.fails(rules.SuspectedSlower) && d.SuspectsSlower() && d.Invalid == "" {
		e.Proven = append(e.Proven, d.B+": "+report.DiffSuspects(d))
	}
	if n := d.Marginal(); o.gate.marginal && n > 0 && d.Invalid == "" {
		e.Proven = append(e.Proven, fmt.Sprintf("%s in %s", plural(n, "case is marginal", "cases are marginal"), d.B))
	}
	if d.Invalid != "" {
		e.Open = append(e.Open, rules.Ground{Text: d.Invalid})
	}
	if len(d.Cases) == 0 {
		return e
	}
	// What A measured is said of A; what B lacks beside that, of B.
	e.Lost = d.Losses
	b := &e.Held[len(e.Held)-1].Coverage
	b.Failed, b.Missing = max(0, b.Failed-d.Losses.Failed), max(0, b.Missing-d.Losses.Missing)
	lost := min(d.Lost, d.Losses.Failed)
	e.Cases, e.Undecided = e.Cases-lost, e.Undecided-lost
	return e
}
