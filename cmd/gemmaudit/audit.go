package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/query"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
)

type auditOptions struct {
	app     *app
	rules   ruleFlags
	only    []string
	confirm bool
	gate    auditGate
	base    string // path of the baseline, empty for none
	output  report.Format
	sustain sustainFlags
	listed  selectFlags

	afresh bool // --confirm=false: what was confirmed before does not count
}

func newAuditCommand(a *app) *cobra.Command {
	opts := &auditOptions{app: a}
	cmd := &cobra.Command{
		Use:   "audit RUN",
		Short: "Judge a run: which products are slower than they should be",
		Example: examples(
			"gemmaudit audit run.db",
			"gemmaudit audit run.db --confirm                       # measure suspects again, on this machine",
			"gemmaudit audit run.db --rule monotonic,split -o markdown",
			"gemmaudit audit run.db --rule monotonic --method article --threshold 0.85 -o json",
			"gemmaudit audit run.db --rules house-rules.yaml --gate any",
			"gemmaudit audit run.db --baseline last-week.db            # only new findings fail",
			"gemmaudit audit run.db -o junit > audit.xml               # or sarif, or github",
			"gemmaudit audit run.db --where 'kernel=cublas && loss>0.1' --sort -stake --top 10",
		),
		Long: `Every row is anomalous, clean, marginal or undecided, with a confidence interval and an
adjusted p-value. A marginal row is known well and lies at the bound; it fails no gate unless
--fail-marginal says so. Anomalous rows are merged into intervals of M and explained: -o wide
says why each is slow, or which causes were excluded. Findings are listed by the time at stake:
loss times time, summed over their rows.

` + rulesHelp() + `

With --confirm, suspects and the cases they are compared with are measured again, interleaved,
on fresh samples that are added to the run. What this proves is kept in the run, for each rule.

Without --confirm, the sweep's samples are judged, and kept proof counts where it holds.
Waivers, --rule, and keys of the rules file that touch no verdict leave it as it is. A change of
a key that does (method, threshold, fdr, confidence, clock_mhz, min_samples, a rule's own), or
more samples in the sweep, undoes it: stderr names the key with both values, and the exit code
is 4, or 1 if the gate fails. --confirm renews the proof. --confirm=false ignores it: findings
are unconfirmed.

A run over several cards of one name (--device cuda:all) is also a comparison of the cards:
each case against the median card's, with the interval of the ratio, and each card as a whole
in time and in cycles. A card that is surely slower than the rules' cards.threshold allows, in
some case or as a whole, is named and fails the gate, as a slower run does in diff; the
samples of the sweep decide, and --gate none lets it pass.

-o json, like findings.json of a report, lists every row that was measured. Of rows that were
inferred it lists those that are not clean; rows_by_verdict counts them all.

A case that hangs while it is measured again is given up after --case-timeout, and a new process
begins the confirmation anew without it; sweep --help has more.

` + selectHelp(query.Findings) + `

` + acceptHelp + `

A waiver that matches nothing is a warning with the nearest series of the run.

With --baseline, findings that an earlier run has as well are known and fail no gate. It is the same
finding when rule, series and cause agree, the device by its model, and the intervals of M overlap; an
unknown cause agrees with any. One that has grown counts as new: the lower bound of its loss is above
the upper bound there, or more than half of its rows, and two at least, are none of it there. The
baseline is judged by the same rules; proof that it keeps counts.

-o junit, sarif and github are for pipelines: each finding one case, result or annotation, under a name and
a fingerprint that are the same in every run; waived findings are suppressed, what is undecided is skipped with what to
do next. No format changes the exit code.

With --sustained, the worst row of each confirmed finding and the case it is compared with run by
themselves for 0.6 s each, as in a loop over one product: a kernel that wastes cycles draws less power and,
at the power limit, gets a higher clock. So do remedies that splits has executed and that pay,
with their direct products. What has the most time at stake runs first, until --sustained-limit.
The samples, with the energy of a launch, are added to the run under the phase sustained; audit,
splits and report show both losses, and say which finding exists in one of the two only.

--method article applies the published plain rule instead, for comparison: a row is flagged
when the largest MFU among smaller M, times the threshold, is above its own.` + exitHelp(
			"0    no confirmed finding (--gate any: no finding at all; --gate none: whatever was found)",
			"1    the gate failed: confirmed findings that no waiver excuses, or a card slower than the others;",
			"     also where 3 or 4 would hold as well",
			"3    cases failed, or the run is damaged; --confirm: the device failed, or is not on this machine",
			"4    no verdict: cases are missing, machines are mixed, the sentinels drifted too far, most rows are",
			"     undecided, a rule compares nothing, or kept proof is undone or missing",
			"130  interrupted; earlier proof stays"),
		Args:              exactArgs("RUN"),
		ValidArgsFunction: runFiles(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.afresh = cmd.Flags().Changed("confirm") && !opts.confirm
			return opts.run(cmd.Context(), args[0])
		},
	}
	opts.rules.register(cmd)
	opts.rules.registerClock(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&opts.only, "rule", nil, "only these rules: "+rules.RuleNames())
	flags.BoolVar(&opts.confirm, "confirm", false, "measure suspects again")
	opts.sustain.register(cmd)
	broughtFlags(a, cmd)
	a.faults.register(cmd)
	a.textfile.register(cmd)
	gateFlag(cmd, &opts.gate)
	cmd.Flags().StringVar(&opts.base, "baseline", "", "earlier run whose findings are known: only new ones, and those that have grown, fail the gate")
	complete(cmd, "baseline", filesWith("db"))
	gatesFlag(cmd, &opts.output, report.Formats())
	opts.listed.register(cmd, query.Findings)
	complete(cmd, "rule", listOf(func() []string {
		var names []string
		for _, r := range rules.AllRules() {
			names = append(names, cobra.CompletionWithDesc(string(r), r.Meaning()))
		}
		return names
	}))
	return cmd
}

// rulesHelp lists the rules with what breaks them.
func rulesHelp() string {
	var b strings.Builder
	b.WriteString("Rules, and what breaks them:")
	for _, r := range rules.AllRules() {
		fmt.Fprintf(&b, "\n  %-12s %s", r, r.Meaning())
	}
	return b.String()
}

func (o *auditOptions) run(ctx context.Context, path string) (failed error) {
	a := o.app
	if err := o.gate.check(); err != nil {
		return err
	}
	listed, err := o.listed.query(query.Findings)
	if err != nil {
		return err
	}
	if err := refuseBench(listed, o.output); err != nil {
		return err
	}
	cfg, err := o.rules.config(a)
	if err != nil {
		return err
	}
	var named []rules.Rule
	if len(o.only) > 0 {
		for _, name := range o.only {
			r, err := rules.ParseRule(name)
			if err != nil {
				return usagef("--rule: %w", err)
			}
			if cfg.Method == rules.MethodArticle && !slices.Contains(rules.ArticleRules(), r) {
				return usagef("--rule %s can't be combined with --method article, which has the rules %s alone", r, rules.RuleList(rules.ArticleRules()))
			}
			named = append(named, r)
		}
		cfg = cfg.Only(named...)
	}
	if o.confirm && cfg.Method == rules.MethodArticle {
		return usagef("--confirm can't be combined with --method article, which has no confirmation")
	}
	if err := o.sustain.check(); err != nil {
		return err
	}
	if err := a.faults.check(); err != nil {
		return err
	}
	if o.sustain.on && !o.confirm {
		return usagef("--sustained goes with --confirm, which measures on the device")
	}
	run, err := a.openRun(path, o.confirm)
	if err != nil {
		return err
	}
	defer closeRun(run, &failed)
	a.textfile.run(run)
	data, err := rules.LoadData(run)
	if err != nil {
		return err
	}
	var audit *rules.Audit
	var outdated undone
	if o.confirm {
		audit, err = a.judge(ctx, run, cfg, true)
	} else {
		audit, outdated, err = a.sweepVerdict(ctx, run, data, cfg, o.afresh)
	}
	if err != nil {
		return err
	}
	a.textfile.verdict(audit)
	if o.sustain.on && ctx.Err() == nil {
		remedies, _, err := a.keptRemedies(run, data, cfg)
		if err != nil {
			return err
		}
		var found *rules.SplitsResult
		if remedies != nil {
			found = remedies.Result
		}
		if err := a.sustain(ctx, run, cfg, audit, found, cmp.Or(o.sustain.limit, sustainLimit)); err != nil {
			return err
		}
	}
	if o.base != "" {
		if err := a.holdAgainst(ctx, run.Meta(), audit, o.base, cfg, o.afresh); err != nil {
			return err
		}
	}
	shown, err := listed.Audit(audit)
	if err != nil {
		return selectError(err)
	}
	holds, err := held(run)
	if err != nil {
		return err
	}
	evidence := o.gate.evidence(audit, holds, outdated, named)
	evidence.Broken = groundsOf(a.notMeasured(run))
	verdict := a.conclude(evidence)
	if o.confirm && ctx.Err() != nil {
		verdict = hint(interruptedf("%s: stopped while suspects were measured again, whose samples are stored", path), "`%s` begins that anew", a.command)
	}
	if o.output.ForGate() {
		err = a.printChecks(o.output, o.gate.checks("audit", run, audit, verdict))
	} else {
		err = a.wrapPrint(report.WriteAudit(a.stream(a.stdout), o.output, run.Meta(), data.Series, shown))
	}
	return cmp.Or(err, verdict)
}

// holdAgainst judges a baseline by the same rules and marks what an audit has found that it has not.
func (a *app) holdAgainst(ctx context.Context, meta results.Meta, audit *rules.Audit, path string, cfg rules.Config, afresh bool) (failed error) {
	base, err := a.openRun(path, false)
	if err != nil {
		return err
	}
	defer closeRun(base, &failed)
	data, err := rules.LoadData(base)
	if err != nil {
		return err
	}
	cfg.Waivers = nil // what they excuse there is known all the same
	before, _, err := a.sweepVerdict(ctx, base, data, cfg, afresh)
	if err != nil {
		return err
	}
	if before.Invalid != "" {
		return hint(inconclusivef("the baseline %s: %s", path, before.Invalid), "give a run that can be judged as the baseline")
	}
	audit.Hold(meta, before, base.Meta())
	return nil
}

// judge applies the rules to a run, with the device asked again when confirm
// says so.
func (a *app) judge(ctx context.Context, run *results.Run, cfg rules.Config, confirm bool) (*rules.Audit, error) {
	data, err := rules.LoadData(run)
	if err != nil {
		return nil, err
	}
	if !confirm {
		return rules.RunAudit(ctx, data, cfg, nil)
	}
	bare := cfg
	bare.Waivers = nil // proof is kept without them
	measurer, err := a.newMeasurer(run)
	if err != nil {
		return nil, err
	}
	audit, err := rules.RunAudit(ctx, data, bare, measurer)
	if err := errors.Join(err, a.leave(measurer)); err != nil {
		return nil, err
	}
	if audit.Invalid == "" { // else nothing was measured again
		if err := a.keepProof(ctx, run, rules.NewProof(audit, cfg, data.Samples())); err != nil {
			return nil, err
		}
	}
	audit.Waive(cfg, data.Keys())
	return audit, nil
}
