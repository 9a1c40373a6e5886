package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
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
	clock     float64

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

// registerClock adds --clock, for commands that judge what was measured before.
func (f *ruleFlags) registerClock(cmd *cobra.Command) { clockFlag(cmd, &f.clock) }

// clockFlag adds --clock.
func clockFlag(cmd *cobra.Command, mhz *float64) {
	cmd.Flags().Float64Var(mhz, "clock", 0, "clock in MHz at which rows are judged, 0 for the run's own")
	complete(cmd, "clock", fixed("0", "1410", "1755", "1980"))
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
	if f.changed("clock") {
		if err := setClock(&cfg, f.clock); err != nil {
			return cfg, err
		}
	}
	if err := cfg.Validate(); err != nil {
		return cfg, usagef("--%w", err)
	}
	cfg.Today = a.now().Format("2006-01-02")
	return cfg, nil
}

// setClock sets the clock at which rows are judged. The error speaks of the flag.
func setClock(cfg *rules.Config, mhz float64) error {
	cfg.ClockMHz = mhz
	if mhz != 0 && !(mhz >= leastClock && mhz <= mostClock) { // NaN is neither
		return usagef("--clock: %v, expected 0 or %d to %d MHz", mhz, leastClock, mostClock)
	}
	return nil
}

// The findings on which `audit` and `run` are gated.
const (
	gateConfirmed = "confirmed"
	gateAny       = "any"
	gateNone      = "none"
)

// auditGate says what makes the exit code 1.
type auditGate struct {
	findings string // gateConfirmed, gateAny or gateNone
	marginal bool   // marginal rows too
}

type auditOptions struct {
	app     *app
	rules   ruleFlags
	only    []string
	confirm bool
	gate    auditGate
	output  report.Format
	sustain sustainFlags

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
		Long: `Every row is anomalous, clean, marginal or undecided, with a confidence interval and an
adjusted p-value. A marginal row is known well and lies at the bound; it fails no gate unless
--fail-marginal says so. Anomalous rows are merged into intervals of M and explained: -o wide
says why each is slow, or which causes were excluded. Findings are listed by the time at stake:
loss times time, summed over their rows.

` + rulesHelp() + `

With --confirm, suspects and what they are held against are measured again, interleaved,
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

A waiver that matches nothing is a warning with the nearest series of the run.

With --sustained, the worst row of each confirmed finding and what it is held against run alone
for 0.6 s each, as in a loop over one product: a kernel that wastes cycles draws less power and,
at the power limit, gets a higher clock. So do remedies that splits has executed and that pay,
with their direct products. What has the most time at stake runs first, until --sustained-limit.
The samples, with the energy of a launch, are added to the run under the phase sustained; audit,
splits and report show both losses, and say which finding exists in one of the two only.

--method article applies the published plain rule instead, for comparison: a row is flagged
when the largest MFU among smaller M, times the threshold, is above its own.` + exitHelp(
			"0    no confirmed finding (--gate any: no finding at all; --gate none: whatever was found)",
			"1    the gate failed: confirmed findings that no waiver excuses, or a card slower than the others;",
			"     also where 4 would hold as well",
			"3    --confirm: the device failed, or it is not on this machine",
			"4    no verdict: the sentinels drifted too far, without a finding most rows are undecided, or kept",
			"     proof is undone",
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
	gateFlag(cmd, &opts.gate)
	timingsFlag(cmd, &opts.output)
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

// gateFlag adds --gate and --fail-marginal.
func gateFlag(cmd *cobra.Command, g *auditGate) {
	cmd.Flags().StringVar(&g.findings, "gate", gateConfirmed, "findings that make the exit code 1: confirmed, any, none")
	failMarginalFlag(cmd, &g.marginal, "rows")
	complete(cmd, "gate", fixed(gateConfirmed, gateAny, gateNone))
}

// failMarginalFlag adds --fail-marginal.
func failMarginalFlag(cmd *cobra.Command, fail *bool, of string) {
	cmd.Flags().BoolVar(fail, "fail-marginal", false, "marginal "+of+" fail the gate too")
}

// check returns a usage error for a gate that there is not.
func (g auditGate) check() error {
	switch g.findings {
	case gateConfirmed, gateAny:
		return nil
	case gateNone:
		if g.marginal {
			return usagef("--fail-marginal can't be combined with --gate none, which lets everything pass")
		}
		return nil
	}
	return usagef("--gate: unknown gate %q: expected confirmed, any or none", g.findings)
}

func (o *auditOptions) run(ctx context.Context, path string) error {
	a := o.app
	if err := o.gate.check(); err != nil {
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
	if err := o.sustain.check(); err != nil {
		return err
	}
	if o.sustain.on && !o.confirm {
		return usagef("--sustained goes with --confirm, which measures on the device")
	}
	run, err := a.openRun(path, o.confirm)
	if err != nil {
		return err
	}
	defer run.Close()
	data, err := rules.LoadData(run)
	if err != nil {
		return err
	}
	var audit *rules.Audit
	var lost undone
	if o.confirm {
		audit, err = a.judge(ctx, run, cfg, true)
	} else {
		audit, lost, err = a.sweepVerdict(ctx, run, data, cfg, o.afresh)
	}
	if err != nil {
		return err
	}
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
	if err := a.wrapPrint(report.WriteAudit(a.stream(a.stdout), o.output, run.Meta(), data.Series, audit)); err != nil {
		return err
	}
	if o.confirm && ctx.Err() != nil {
		return hint(interruptedf("%s: stopped while suspects were measured again, whose samples are stored", path), "`%s` begins that anew", a.command)
	}
	return auditVerdict(audit, o.gate, lost)
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
	if err := errors.Join(err, measurer.Close()); err != nil {
		return nil, err
	}
	if audit.Invalid == "" { // else nothing was measured again
		if err := keepProof(ctx, run, rules.NewProof(audit, cfg, data.Samples())); err != nil {
			return nil, err
		}
	}
	audit.Waive(cfg, data.Keys())
	return audit, nil
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

// auditVerdict turns an audit into the command's outcome. A gate that fails outranks
// what makes the audit inconclusive: what is proven stays so, however little else is known.
func auditVerdict(audit *rules.Audit, g auditGate, lost undone) error {
	confirmed, unconfirmed := 0, 0
	for _, f := range audit.Findings {
		switch f.Status {
		case rules.Confirmed:
			confirmed++
		case rules.Unconfirmed:
			unconfirmed++
		}
	}
	if g.findings != gateNone {
		var failed []string
		switch {
		case unconfirmed > 0 && g.findings == gateAny:
			failed = append(failed, fmt.Sprintf("%s, %d of them confirmed", plural(confirmed+unconfirmed, "finding", "findings"), confirmed))
		case confirmed > 0:
			failed = append(failed, plural(confirmed, "confirmed finding", "confirmed findings"))
		}
		// Cards are compared by the sweep's samples, which an invalid run can't be judged by.
		if c := audit.Cards; c != nil && len(c.Outliers) > 0 && audit.Invalid == "" {
			failed = append(failed, fmt.Sprintf("%d of %d cards slower than the others: %s", len(c.Outliers), len(c.Cards), strings.Join(c.Outliers, ", ")))
		}
		if g.marginal && audit.Marginal > 0 && audit.Invalid == "" {
			failed = append(failed, plural(audit.Marginal, "marginal row", "marginal rows"))
		}
		if len(failed) > 0 && audit.Invalid != "" {
			failed = append(failed, "besides, "+audit.Invalid)
		}
		if len(failed) > 0 {
			return gatef("%s", strings.Join(failed, "; "))
		}
	}
	if audit.Invalid != "" {
		return hint(inconclusivef("%s", audit.Invalid), unsteadyHint)
	}
	if err := lost.err(); err != nil || g.findings == gateNone {
		return err
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
