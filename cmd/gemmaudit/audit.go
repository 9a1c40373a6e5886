package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// ruleFlags are the flags that say how a run is judged; `audit`, `splits`,
// `report` and `run` share them.
type ruleFlags struct {
	file      string
	method    string
	threshold float64
	fdr       float64

	// changed says whether a flag was given, as 0 is no threshold.
	changed func(name string) bool
}

func (f *ruleFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.file, "rules", "", "YAML file of rules, thresholds and waivers, laid over the built-in one")
	flags.StringVar(&f.method, "method", "", "interval (confidence bounds) or article (running maximum of point estimates)")
	flags.Float64Var(&f.threshold, "threshold", 0, "share of the reference's MFU below which a row is anomalous")
	flags.Float64Var(&f.fdr, "fdr", 0, "false discovery rate of each rule")
	complete(cmd, "rules", filesWith("yaml", "yml"))
	complete(cmd, "method", fixed(rules.MethodInterval, rules.MethodArticle))
	complete(cmd, "threshold", fixed("0.95", "0.9", "0.85"))
	complete(cmd, "fdr", fixed("0.05", "0.01"))
	f.changed = cmd.Flags().Changed
}

// config reads the rules file and lays the flags over it.
func (f *ruleFlags) config(a *app) (rules.Config, error) {
	cfg, err := rules.LoadConfig(f.file)
	if err != nil {
		return cfg, usage(err)
	}
	if f.changed("method") {
		cfg.Method = f.method
	}
	if f.changed("threshold") {
		cfg.Threshold = f.threshold
	}
	if f.changed("fdr") {
		cfg.FDR = f.fdr
	}
	if err := cfg.Validate(); err != nil {
		return cfg, usagef("--%w", err)
	}
	cfg.Today = a.now().Format("2006-01-02")
	return cfg, nil
}

// The gates of `audit` and `run`.
const (
	gateConfirmed = "confirmed"
	gateAny       = "any"
	gateNone      = "none"
)

type auditOptions struct {
	app     *app
	rules   ruleFlags
	only    []string
	confirm bool
	gate    string
	output  report.Format

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
		),
		Long: `Every row is anomalous, clean or undecided, with a confidence interval and an adjusted
p-value. Anomalous rows are merged into intervals of M and explained.

With --confirm, suspects and what they are held against are measured again, interleaved,
on fresh samples that are added to the run, and the verdict is kept in it. Without, the
kept verdict is shown when there is one for these rules and samples; otherwise, and with
--confirm=false, the sweep's samples are judged as they are, and findings stay unconfirmed.

A run over several cards of one name (--device cuda:all) is also a comparison of the cards:
each case against the median card's, with the interval of the ratio, and each card as a whole
in time and in cycles. A card that is surely slower than the rules' cards.threshold allows, in
some case or as a whole, is named and fails the gate, as a slower run does in diff; the
samples of the sweep decide, and --gate none lets it pass.

--method article applies the published plain rule instead, for comparison: a row is flagged
when the largest MFU among smaller M, times the threshold, is above its own.` + exitHelp(
			"0    no confirmed finding (--gate any: no finding at all; --gate none: whatever was found)",
			"1    the gate failed: confirmed findings that no waiver excuses, or a card slower than the others",
			"3    --confirm: the device failed, or it is not on this machine",
			"4    no verdict: the sentinels drifted too far, or without a finding most rows are undecided",
			"130  interrupted; an earlier verdict stays"),
		Args:              exactArgs("RUN"),
		ValidArgsFunction: runFiles(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.afresh = cmd.Flags().Changed("confirm") && !opts.confirm
			return opts.run(cmd.Context(), args[0])
		},
	}
	opts.rules.register(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&opts.only, "rule", nil, "only these rules: monotonic, split, pad, parity, alternative, roofline")
	flags.BoolVar(&opts.confirm, "confirm", false, "measure suspects again")
	gateFlag(cmd, &opts.gate)
	timingsFlag(cmd, &opts.output)
	complete(cmd, "rule", listOf(func() []string {
		var names []string
		for _, r := range rules.AllRules() {
			names = append(names, string(r))
		}
		return names
	}))
	return cmd
}

// gateFlag adds --gate.
func gateFlag(cmd *cobra.Command, gate *string) {
	cmd.Flags().StringVar(gate, "gate", gateConfirmed, "findings that make the exit code 1: confirmed, any, none")
	complete(cmd, "gate", fixed(gateConfirmed, gateAny, gateNone))
}

// checkGate returns a usage error for a gate that there is not.
func checkGate(gate string) error {
	switch gate {
	case gateConfirmed, gateAny, gateNone:
		return nil
	}
	return usagef("--gate: unknown gate %q: expected confirmed, any or none", gate)
}

func (o *auditOptions) run(ctx context.Context, path string) error {
	a := o.app
	if err := checkGate(o.gate); err != nil {
		return err
	}
	cfg, err := o.rules.config(a)
	if err != nil {
		return err
	}
	if len(o.only) > 0 {
		var on []rules.Rule
		for _, name := range o.only {
			r, err := rules.ParseRule(name)
			if err != nil {
				return usagef("--rule: %w", err)
			}
			on = append(on, r)
		}
		cfg = cfg.Only(on...)
	}
	if o.confirm && cfg.Method == rules.MethodArticle {
		return usagef("--confirm can't be combined with --method article, which knows no confirmation")
	}
	run, err := a.openRun(path, o.confirm)
	if err != nil {
		return err
	}
	defer run.Close()
	audit, err := a.verdictOf(ctx, run, cfg, o.confirm, o.afresh)
	if err != nil {
		return err
	}
	series, err := run.Series()
	if err != nil {
		return err
	}
	if err := a.wrapPrint(report.WriteAudit(a.stream(a.stdout), o.output, run.Meta(), series, audit)); err != nil {
		return err
	}
	if o.confirm && ctx.Err() != nil {
		return hint(interruptedf("%s: stopped while suspects were measured again, whose samples are stored", path), "`%s` begins that anew", a.command)
	}
	return auditVerdict(audit, o.gate)
}

// largeRun is the size of a run file from which on its samples are most of the memory
// that the program takes.
const largeRun = 64 << 20

// boundGarbage has the garbage collector run more often when a large run is read. Its
// samples stay, so that as much memory again as they take, which is what the collector
// allows for by default, would be garbage.
func boundGarbage(path string) {
	const percent = 25
	if info, err := os.Stat(path); err == nil && info.Size() >= largeRun {
		debug.SetGCPercent(percent)
	}
}

// openRun opens a run for reading, or for going on with it.
func (a *app) openRun(path string, goOn bool) (*results.Run, error) {
	boundGarbage(path)
	if goOn {
		return results.OpenAppend(path)
	}
	run, err := results.Open(path)
	if err != nil {
		return nil, err
	}
	for _, w := range run.Warnings() {
		a.warnf("%s: %s", path, w)
	}
	return run, nil
}

// verdictOf judges a run, or returns what was confirmed of it before with the same
// rules, unless it is to be judged afresh.
func (a *app) verdictOf(ctx context.Context, run *results.Run, cfg rules.Config, confirm, afresh bool) (*rules.Audit, error) {
	if !confirm && !afresh {
		audit, err := kept[rules.Audit](run, stateAudit, cfg)
		if err != nil {
			return nil, err
		}
		if audit != nil {
			audit.Run = filepath.Base(run.Path()) // the file may have been renamed
			return audit, nil
		}
	}
	return a.judge(ctx, run, cfg, confirm)
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
	measurer, err := a.newMeasurer(run)
	if err != nil {
		return nil, err
	}
	audit, err := rules.RunAudit(ctx, data, cfg, measurer)
	if err := errors.Join(err, measurer.Close()); err != nil {
		return nil, err
	}
	return audit, keepWhole(ctx, run, stateAudit, cfg, audit)
}

// newMeasurer returns what measures cases of a run again: the devices that the
// run came from, of which this machine must have one. Cases of others get no samples.
func (a *app) newMeasurer(run *results.Run) (*sweep.Measurer, error) {
	meta := run.Meta()
	if meta.Source != "" {
		return nil, hint(devicef("%s was imported from %s: there is no device to ask again", run.Path(), meta.Source),
			"without --confirm and --execute the stored samples are judged")
	}
	var ids []string
	for _, spec := range meta.Fingerprint.Devices {
		ids = append(ids, spec.ID)
	}
	devices, absent, err := a.presentDevices(ids)
	if err != nil {
		return nil, err
	}
	if err := sameDevices(run, devices); err != nil {
		return nil, err
	}
	a.keep(devices...)
	return sweep.NewMeasurer(sweep.MeasureConfig{Devices: devices, Absent: absent, Out: run, Observer: a.newMeter(), Now: a.now})
}

// measuredHere says whether a run came from the devices of this machine, so
// that they can be asked again.
func (a *app) measuredHere(meta results.Meta) bool {
	if meta.Source != "" || len(meta.Fingerprint.Devices) == 0 {
		return false
	}
	for _, spec := range meta.Fingerprint.Devices {
		devices, err := a.devicesByID([]string{spec.ID})
		if err != nil || devices[0].Spec().Name != spec.Name {
			return false
		}
	}
	return results.ReadFingerprint(nil, "").Hostname == meta.Fingerprint.Hostname
}

// unsteadyHint is what can be done about a run whose machine did not stay the same.
const unsteadyHint = "`gemmaudit doctor` shows what disturbs this machine; then measure again"

// auditVerdict turns an audit into the command's outcome.
func auditVerdict(audit *rules.Audit, gate string) error {
	if audit.Invalid != "" {
		return hint(inconclusivef("%s", audit.Invalid), unsteadyHint)
	}
	if gate == gateNone {
		return nil
	}
	confirmed, unconfirmed := 0, 0
	for _, f := range audit.Findings {
		switch f.Status {
		case rules.Confirmed:
			confirmed++
		case rules.Unconfirmed:
			unconfirmed++
		}
	}
	var failed []string
	switch {
	case unconfirmed > 0 && gate == gateAny:
		failed = append(failed, fmt.Sprintf("%s, %d of them confirmed", plural(confirmed+unconfirmed, "finding", "findings"), confirmed))
	case confirmed > 0:
		failed = append(failed, plural(confirmed, "confirmed finding", "confirmed findings"))
	}
	if c := audit.Cards; c != nil && len(c.Outliers) > 0 {
		failed = append(failed, fmt.Sprintf("%d of %d cards slower than the others: %s", len(c.Outliers), len(c.Cards), strings.Join(c.Outliers, ", ")))
	}
	if len(failed) > 0 {
		return gatef("%s", strings.Join(failed, "; "))
	}
	judged := 0
	for _, series := range audit.Series {
		judged += len(series.Rows)
	}
	if judged == 0 {
		return inconclusivef("%s: none of %s has a sample to judge", audit.Run, plural(audit.Cases, "case", "cases"))
	}
	if confirmed+unconfirmed == 0 && 2*audit.Undecided > audit.Cases {
		return hint(inconclusivef("%d of %d cases are undecided and there is no finding", audit.Undecided, audit.Cases),
			"more --rounds, a quieter machine (`gemmaudit doctor`), or --method article for single samples")
	}
	return nil
}
