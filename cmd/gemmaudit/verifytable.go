package main

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/regular"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/sweep"
)

type verifyOptions struct {
	app      *app
	rules    ruleFlags
	anyway   bool
	deadline time.Duration
	prune    string
	force    bool
	output   report.Format
}

func newVerifyTableCommand(a *app) *cobra.Command {
	opts := &verifyOptions{app: a}
	cmd := &cobra.Command{
		Use:   "verify-table TABLE.json",
		Short: "Measure a lookup table again on this machine",
		Example: examples(
			"gemmaudit verify-table table.json",
			"gemmaudit verify-table table.json --prune still-pays.json",
			"gemmaudit verify-table table.json --anyway -o json   # although the driver is another one",
		),
		Long: `Compares the table's validators with this machine: device and its instruction sets, driver,
library versions, kernel, regime, clock policy and the version of this program. Then each entry is executed
again together with the direct product, at the batches of its proofs. An entry that no longer pays
is rejected.` + exitHelp(
			"0  the conditions hold and every entry pays",
			"1  an entry was rejected, or a condition differs (--anyway: only entries count)",
			"4  no entry was rejected, but some are undecided, or there is none"),
		Args:              exactArgs("TABLE.json"),
		ValidArgsFunction: filesWith("json"),
		RunE:              func(cmd *cobra.Command, args []string) error { return opts.run(cmd.Context(), args[0]) },
	}
	opts.rules.register(cmd)
	broughtFlags(a, cmd)
	flags := cmd.Flags()
	flags.BoolVar(&opts.anyway, "anyway", false, "measure although conditions differ")
	flags.DurationVar(&opts.deadline, "deadline", 0, "stop after this long; the rest stays unchecked")
	flags.StringVar(&opts.prune, "prune", "", "write the table without what was rejected: .json, .csv, .h or .go")
	flags.BoolVar(&opts.force, "force", false, "replace an existing file")
	outputFlag(cmd, &opts.output)
	complete(cmd, "deadline", fixed("1m", "10m"))
	complete(cmd, "prune", filesWith(tableExtensions...))
	return cmd
}

// readTable reads a lookup table in JSON.
func readTable(path string) (*table.Table, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, devicef("read table %q: %w", path, withoutPath(err))
	}
	defer f.Close()
	// One byte past what is allowed, for Parse to refuse; a device has no end.
	text, err := io.ReadAll(io.LimitReader(f, table.MaxBytes+1))
	if err != nil {
		return nil, devicef("read table %q: %w", path, withoutPath(err))
	}
	t, err := table.Parse(text)
	if ext := filepath.Ext(path); err != nil && ext != ".json" && slices.Contains(tableExtensions, strings.TrimPrefix(ext, ".")) {
		return nil, hint(devicef("%s: %w", path, err), "give the .json form of the table, which holds the proofs")
	}
	if err != nil {
		return nil, devicef("%s: %w", path, err)
	}
	return t, nil
}

func (o *verifyOptions) run(ctx context.Context, path string) error {
	a := o.app
	cfg, err := o.rules.config(a)
	if err != nil {
		return err
	}
	if o.prune != "" {
		if err := checkTablePath("prune", o.prune, o.force); err != nil {
			return err
		}
	}
	t, err := readTable(path)
	if err != nil {
		return err
	}
	device, err := a.tableDevice(t)
	if err != nil {
		return err
	}
	differences := rules.CompareValidators(t.Validators, conditionsHere(device, t))
	var checks []rules.RowCheck
	if len(differences) == 0 || o.anyway {
		if checks, err = o.measure(ctx, t, device, cfg); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return interruptedf("%s: stopped while it was verified", path)
	}
	if o.prune != "" {
		pruned := rules.PruneTable(t, checks)
		err := a.writeFile(o.prune, o.force, func(w io.Writer) error { return encodeTable(w, pruned, o.prune) })
		if err != nil {
			return err
		}
	}
	v := report.NewVerification(filepath.Base(path), t, differences, checks)
	if err := a.wrapPrint(report.WriteVerification(a.stream(a.stdout), o.output, v)); err != nil {
		return err
	}
	return o.verdict(v)
}

// verdict turns a verification into the command's outcome.
func (o *verifyOptions) verdict(v *report.Verification) error {
	switch {
	case v.Rejected > 0:
		return gatef("%s: %s", v.Path, plural(v.Rejected, "entry no longer pays", "entries no longer pay"))
	case len(v.Differences) > 0 && !o.anyway:
		d := v.Differences[0]
		return hint(gatef("%s was measured under other conditions: its %s is %q, here it is %q", v.Path, d.Name, d.A, d.B),
			"use --anyway to measure it regardless")
	case len(v.Checks) == 0:
		return inconclusivef("%s: there is no entry to verify", v.Path)
	case v.Open > 0:
		return inconclusivef("%s: %s undecided", v.Path, plural(v.Open, "entry is", "entries are"))
	}
	return nil
}

// tableDevice is the device of this machine that a table speaks of: the one of
// its name, unless --device says another.
func (a *app) tableDevice(t *table.Table) (kernels.Device, error) {
	if a.device == "auto" {
		for _, d := range a.registry().Devices() {
			if d.Spec().Name == t.Validators.Device {
				a.keep(d)
				return d, a.bring([]kernels.Device{d})
			}
		}
	}
	return a.oneDevice()
}

// conditionsHere are the conditions under which a table would be measured here.
func conditionsHere(d kernels.Device, t *table.Table) table.Validators {
	meta := results.Meta{Fingerprint: results.ReadFingerprint([]kernels.Spec{d.Spec()}, buildVersion())}
	return rules.ValidatorsOf(meta, d.Spec().ID, results.Regime(t.Validators.Regime), t.Validators.Threads)
}

// measure executes the entries of a table.
func (o *verifyOptions) measure(ctx context.Context, t *table.Table, d kernels.Device, cfg rules.Config) ([]rules.RowCheck, error) {
	measurer, err := sweep.NewMeasurer(sweep.MeasureConfig{Devices: []kernels.Device{d}, Observer: o.app.newMeter(), Now: o.app.now})
	if err != nil {
		return nil, err
	}
	checks, err := limited(ctx, o.deadline, func(ctx context.Context) ([]rules.RowCheck, error) {
		return rules.VerifyTable(ctx, t, d.Spec().ID, cfg, measurer)
	})
	return checks, errors.Join(err, measurer.Close())
}
