package main

import (
	"bytes"
	"cmp"
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
	"github.com/gemmaudit/gemmaudit/report/gate"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/results/table/file"
	"github.com/gemmaudit/gemmaudit/results/tunableop"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// defaultTuned is the kernel that PyTorch runs without a TunableOp entry.
const defaultTuned = "cublas"

type verifyOptions struct {
	app      *app
	rules    ruleFlags
	kernel   string
	anyway   bool
	deadline time.Duration
	prune    string
	force    bool
	output   report.Format
}

func newTableCheckCommand(a *app) *cobra.Command {
	opts := &verifyOptions{app: a}
	cmd := &cobra.Command{
		Use:               "check TABLE",
		Args:              exactArgs("TABLE"),
		ValidArgsFunction: filesWith("json", "csv", "db"),
		RunE:              func(cmd *cobra.Command, args []string) error { return opts.run(cmd.Context(), args[0]) },
	}
	opts.rules.register(cmd)
	broughtFlags(a, cmd)
	flags := cmd.Flags()
	addFlag(cmd, &opts.kernel, "kernel", defaultTuned, "kernel to compare the algorithms of a TunableOp file with",
		a.completeKernels(a.kernelNames))
	flags.BoolVar(&opts.anyway, "anyway", false, "measure even if conditions differ")
	addFlag(cmd, &opts.deadline, "deadline", 0, "time limit; the rest stays unchecked", fixed("1m", "10m"))
	addFlag(cmd, &opts.prune, "prune", "", "write the table without rejected entries: .json, .csv, .h or .go; a TunableOp file as it was",
		filesWith(file.Extensions...))
	flags.BoolVar(&opts.force, "force", false, "replace an existing file")
	gatesFlag(cmd, &opts.output, report.TextFormats())
	return cmd
}

func readTable(path string) (*table.Table, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, devicef("read table %q: %w", path, withoutPath(err))
	}
	defer f.Close()
	return parseTable(path, f, sizeOf(f))
}

// parseTable reads a table of size bytes; 0 means unknown.
func parseTable(path string, in io.Reader, size int64) (*table.Table, error) {
	// Allocate once. Read one byte past the limit, so Parse rejects endless devices.
	var text bytes.Buffer
	text.Grow(int(min(size, table.MaxBytes+1)) + bytes.MinRead)
	if _, err := text.ReadFrom(io.LimitReader(in, table.MaxBytes+1)); err != nil {
		return nil, devicef("read table %q: %w", path, withoutPath(err))
	}
	t, err := table.Parse(text.Bytes())
	if ext := filepath.Ext(path); err != nil && ext != ".json" && slices.Contains(file.Extensions, strings.TrimPrefix(ext, ".")) {
		return nil, hint(devicef("%s: %w", path, err), "give the .json form of the table, which has the proofs")
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
	source, err := a.readSource(path, o.kernel)
	if err != nil {
		return err
	}
	t := source.table
	if source.tuned != nil && len(t.Series) == 0 {
		return inconclusivef("%s: no algorithm of %s in it", path, tunableop.Library)
	}
	if source.tuned != nil && o.prune != "" && filepath.Ext(o.prune) != ".csv" {
		return usagef("--prune: %q ends in %q: expected .csv for a TunableOp file", o.prune, filepath.Ext(o.prune))
	}
	device, err := a.tableDevice(t)
	if err != nil {
		return err
	}
	if source.tuned != nil {
		if err := o.takesTuned(path, device); err != nil {
			return err
		}
	}
	differences := remedy.CompareValidators(t.Validators, conditionsHere(device, t))
	var checks []remedy.RowCheck
	if len(differences) == 0 || o.anyway {
		taken, refused := withoutRefused(t, device)
		if checks, err = o.measure(ctx, taken, device, cfg); err != nil {
			return err
		}
		checks = append(checks, refused...)
	}
	if ctx.Err() != nil {
		return interruptedf("%s: stopped during verification", path)
	}
	if o.prune != "" {
		pruned := remedy.PruneTable(t, checks)
		err := a.writeFile(o.prune, o.force, func(w io.Writer) error { return source.writePruned(a, w, pruned, o.prune) })
		if err != nil {
			return err
		}
	}
	v := report.NewVerification(filepath.Base(path), t, differences, checks)
	ended := a.conclude(v.Evidence(o.anyway))
	if o.output.ForGate() {
		err = a.printChecks(o.output,
			&gate.Checks{Command: "table check", Path: path, Outcome: outcomeOf(ended), List: gate.OfTable(v, o.anyway)})
	} else {
		err = a.wrapPrint(report.WriteVerification(a.stream(a.stdout), o.output, v))
	}
	return cmp.Or(err, ended)
}

// takesTuned returns an error if a device lacks a requirement for checking a TunableOp file.
func (o *verifyOptions) takesTuned(path string, d kernels.Device) error {
	_, err := kernels.FindProduct(d, kernels.AlgorithmName(tunableop.Library, kernels.Algorithm{ID: 1}))
	if err != nil {
		return hint(devicef("%s: checking a TunableOp file needs an NVIDIA GPU with cuBLASLt, not %s", path, d.Spec().ID),
			"`gemmaudit devices` lists the kernels of this machine, and why others are missing")
	}
	if _, err := kernels.FindProduct(d, o.kernel); err != nil {
		return badFlag("kernel", err)
	}
	return nil
}

// withoutRefused removes the algorithms that their library rejects for the product at an end of their
// interval, and returns them as rejected. They are not measured.
func withoutRefused(t *table.Table, d kernels.Device) (*table.Table, []remedy.RowCheck) {
	var refused []remedy.RowCheck
	for _, s := range t.Series {
		layout, err := kernels.ParseLayout(s.Layout)
		if err != nil {
			continue // which measuring says
		}
		for _, iv := range s.Intervals {
			if iv.Action.Kind != table.Algorithm {
				continue
			}
			g, err := kernels.FindProduct(d, kernels.AlgorithmName(iv.Action.Kernel, kernels.Algorithm(iv.Action.Algorithm)))
			if err != nil {
				continue
			}
			for _, m := range slices.Compact([]int{iv.From, iv.To}) {
				err := g.Supports(kernels.Task{Subject: kernels.Product(kernels.DType(s.DType), s.N, s.K).In(layout), M: m})
				var no *kernels.Unsupported
				if errors.As(err, &no) {
					refused = append(refused, remedy.RowCheck{Series: s, Name: s.String(), From: iv.From, To: iv.To, M: m,
						Action:  iv.Action,
						Verdict: remedy.Rejected, Reason: no.Reason})
					break
				}
			}
		}
	}
	if len(refused) == 0 {
		return t, nil
	}
	return remedy.PruneTable(t, refused), refused
}

// writePruned writes the remaining table; for a TunableOp file, all lines except the rejected ones.
func (s *tableSource) writePruned(a *app, w io.Writer, pruned *table.Table, path string) error {
	if s.tuned == nil {
		return a.encodeTable(w, pruned, path)
	}
	return s.tuned.Strike(w, func(p table.Product, m int) bool {
		p.Kernel = s.kernel
		return s.table.Lookup(p, m).Kind != pruned.Lookup(p, m).Kind
	})
}

// tableDevice is this machine's device with the table's device name, unless --device selects another.
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

// conditionsHere returns the conditions of a table measured here.
func conditionsHere(d kernels.Device, t *table.Table) table.Validators {
	meta := results.Meta{Fingerprint: fingerprintOf([]kernels.Device{d})}
	return remedy.ValidatorsOf(meta, d.Spec().ID, results.Regime(t.Validators.Regime), t.Validators.Threads)
}

func (o *verifyOptions) measure(ctx context.Context, t *table.Table, d kernels.Device, cfg rules.Config) ([]remedy.RowCheck, error) {
	measurer, err := sweep.NewMeasurer(sweep.MeasureConfig{Devices: []kernels.Device{d}, Observer: o.app.newMeter(), Now: o.app.now})
	if err != nil {
		return nil, err
	}
	checks, err := limited(ctx, o.deadline, func(ctx context.Context) ([]remedy.RowCheck, error) {
		return remedy.VerifyTable(ctx, t, d.Spec().ID, cfg, measurer)
	})
	return checks, errors.Join(err, measurer.Close())
}
