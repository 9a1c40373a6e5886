package main

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/report/query"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/baseline"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/verdict"
)

type auditOptions struct {
	app     *app
	rules   ruleFlags
	only    []string
	confirm bool
	gate    verdict.Gate
	base    string // path of the baseline, if any
	output  report.Format
	sustain sustainFlags
	listed  selectFlags
	all     bool // list every problem

	afresh bool // --confirm=false: ignore earlier confirmations
}

func newAuditCommand(a *app) *cobra.Command {
	opts := &auditOptions{app: a}
	cmd := &cobra.Command{
		Use:               "audit RUN",
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
	findingsGate(cmd, &opts.gate)
	addFlag(cmd, &opts.base, "baseline", "", "earlier run: its findings are known, and only new or grown ones fail the gate",
		filesWith("db"))
	gatesFlag(cmd, &opts.output, report.Formats())
	opts.listed.register(cmd, query.Findings)
	allFlag(cmd, &opts.all)
	complete(cmd, "rule", listOf(func() []string {
		var names []string
		for _, r := range rules.AllRules() {
			names = append(names, cobra.CompletionWithDesc(string(r), r.Meaning()))
		}
		return names
	}))
	return cmd
}

func (o *auditOptions) run(ctx context.Context, path string) (failed error) {
	a := o.app
	if err := o.gate.Validate(); err != nil {
		return usage(err)
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
				return usagef("--rule %s can't be combined with --method article, which only has the rules %s", r,
					rules.RuleList(rules.ArticleRules()))
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
		return usagef("--sustained needs --confirm, which measures on the device")
	}
	run, err := a.openRun(path, o.confirm)
	if err != nil {
		return err
	}
	defer closeRun(run, &failed)
	a.textfile.run(run)
	data, err := infer.LoadData(run)
	if err != nil {
		return err
	}
	data = data.Along(cfg.Basis())
	var audit *rules.Audit
	var outdated verdict.Outdated
	if o.confirm {
		a.nextStage("measuring suspects again", 0)
		audit, err = a.judge(ctx, run, cfg, true)
	} else {
		audit, outdated, err = a.store(run).Audit(ctx, data, cfg, o.afresh)
	}
	if err != nil {
		return err
	}
	a.textfile.verdict(audit)
	found, engine, err := a.provenRemedies(run, data, cfg)
	if err != nil {
		return err
	}
	if o.sustain.on && ctx.Err() == nil {
		if err := a.sustain(ctx, run, cfg, audit, found, cmp.Or(o.sustain.limit, sustainLimit)); err != nil {
			return err
		}
	}
	if o.base != "" {
		if err := a.holdAgainst(ctx, run, audit, o.base, cfg, o.afresh); err != nil {
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
	evidence := o.gate.Audit(audit, holds, outdated.Grounds(), named)
	evidence.Broken = groundsOf(a.notMeasured(run))
	ended := a.conclude(evidence)
	if o.confirm && ctx.Err() != nil {
		ended = hint(interruptedf("%s: stopped while suspects were measured again; their samples are stored", path),
			"`%s` starts the confirmation again", a.command)
	}
	if o.output.ForGate() {
		err = a.printChecks(o.output, auditChecks("audit", o.gate, run, audit, ended))
	} else {
		answer := newAnswer(data, audit, found, engine)
		answer.Next = nextSteps(run.Path(), answer, shown)
		err = a.wrapPrint(report.WriteVerdict(a.stream(a.stdout), o.output, run.Meta(), data.Series, shown, answer, o.all))
	}
	return cmp.Or(err, ended)
}

// holdAgainst judges a baseline by the same rules and marks the audit's findings that it lacks.
func (a *app) holdAgainst(ctx context.Context, run *results.Run, audit *rules.Audit, path string, cfg rules.Config,
	afresh bool) (failed error) {
	base, err := a.openRun(path, false)
	if err != nil {
		return err
	}
	defer closeRun(base, &failed)
	if base.ID() == run.ID() { // it has every finding
		return usagef("--baseline: %q is a copy of %q: expected an earlier run", path, run.Path())
	}
	data, err := infer.LoadData(base)
	if err != nil {
		return err
	}
	cfg.Waivers = nil // excused findings are still known
	before, _, err := a.store(base).Audit(ctx, data, cfg, afresh)
	if err != nil {
		return err
	}
	if before.Invalid != "" {
		return hint(inconclusivef("the baseline %s: %s", path, before.Invalid), "give a baseline run with a verdict")
	}
	if common := baseline.Hold(audit, run.Meta(), before, base.Meta()); common == 0 {
		a.warnf("the baseline %s has no product of this run on the same kernel and device: all findings are new", path)
	} else if why := verdict.Undecided(before); why != "" {
		a.warnf("the baseline %s has no verdict (%s): findings that it missed are new", path, why)
	}
	return nil
}

// judge applies the rules to a run, measuring suspects again if confirm is set.
func (a *app) judge(ctx context.Context, run *results.Run, cfg rules.Config, confirm bool) (*rules.Audit, error) {
	data, err := infer.LoadData(run)
	if err != nil {
		return nil, err
	}
	if !confirm {
		return rules.RunAudit(ctx, data, cfg, nil)
	}
	bare := cfg
	bare.Waivers = nil // stored proof does not depend on waivers
	measurer, err := a.newMeasurer(run)
	if err != nil {
		return nil, err
	}
	audit, err := rules.RunAudit(ctx, data, bare, measurer)
	if err := errors.Join(err, a.leave(measurer)); err != nil {
		return nil, err
	}
	if audit.Invalid == "" { // an invalid run is not measured again
		if err := a.store(run).KeepProof(ctx, rules.NewProof(audit, cfg, data.Samples())); err != nil {
			return nil, err
		}
	}
	audit.Waive(cfg, data.Keys())
	return audit, nil
}
