package main

import (
	"cmp"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/report"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/results/table/file"
	"github.com/gemmaudit/gemmaudit/results/tunableop"
	"github.com/gemmaudit/gemmaudit/sweep"
)

func newTableCommand(a *app) *cobra.Command {
	return commandGroup("table", newTableShowCommand(a), newTableLookupCommand(a), newTableConvertCommand(a), newTableCheckCommand(a))
}

func newTableShowCommand(a *app) *cobra.Command {
	var output report.Format
	cmd := &cobra.Command{
		Use:               "show TABLE",
		Args:              exactArgs("TABLE"),
		ValidArgsFunction: filesWith("json", "db"),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := a.readTableOrRun(args[0])
			if err != nil {
				return err
			}
			return a.wrapPrint(report.WriteTable(a.stream(a.stdout), output, filepath.Base(s.path), s.table))
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

type lookupOptions struct {
	app                          *app
	shape, kernel, dtype, layout string
	weights, epilogue, ms        string
	output                       report.Format
}

func newTableLookupCommand(a *app) *cobra.Command {
	opts := &lookupOptions{app: a}
	cmd := &cobra.Command{
		Use:               "lookup TABLE",
		Args:              exactArgs("TABLE"),
		ValidArgsFunction: filesWith("json", "db"),
		RunE:              func(_ *cobra.Command, args []string) error { return opts.run(args[0]) },
	}
	flags := cmd.Flags()
	addFlag(cmd, &opts.shape, "shape", "", "product, as n4096k14336", completeShapes)
	flags.StringVar(&opts.ms, "m", "", "values of M: 1,2,4 or 1:4096")
	flags.StringVar(&opts.kernel, "kernel", "", "kernel that would run the product")
	addFlag(cmd, &opts.dtype, "dtype", "", "data type", listOf(a.dtypeNames))
	addFlag(cmd, &opts.layout, "layout", "", "weight layout: nk or kn", fixed(table.NK, table.KN))
	flags.StringVar(&opts.weights, "weights", "", "weight format, as in the table")
	addFlag(cmd, &opts.epilogue, "epilogue", "", "epilogue of a fused product, as in bias+gelu", fixed(kernels.Bias.String()))
	outputFlag(cmd, &opts.output)
	return cmd
}

func (o *lookupOptions) run(path string) error {
	switch {
	case o.shape == "":
		return usagef("--shape is missing: expected product, as n4096k14336")
	case o.ms == "":
		return usagef("--m is missing: expected values of M, as 1,2,4 or 1:4096")
	}
	var failed error
	if layout := parsed(&failed, "layout", o.layout, kernels.ParseLayout); o.layout != "" {
		o.layout = layout.String()
	}
	o.dtype = string(parsed(&failed, "dtype", o.dtype, kernels.ParseDType))
	target := parsed(&failed, "shape", o.shape, sweep.ParseProduct)
	if failed == nil && target.Products > 0 {
		failed = usagef("--shape: %q is batched, and tables have only single products", o.shape)
	}
	ms := parsed(&failed, "m", o.ms, sweep.ParseBatches)
	if failed != nil {
		return failed
	}
	s, err := o.app.readTableOrRun(path)
	if err != nil {
		return err
	}
	product := table.Product{Kernel: o.kernel, DType: o.dtype, Weights: o.weights, Layout: o.layout, N: target.N, K: target.K,
		Epilogue: o.epilogue}
	listed, err := o.find(s.table, &product)
	if err != nil {
		return err
	}
	lookups := make([]report.Lookup, len(ms))
	for i, m := range ms {
		action := s.table.Lookup(product, m)
		lookups[i] = report.Lookup{Product: product, M: m, Action: action, Parts: action.Parts(m), Listed: listed}
	}
	return o.app.wrapPrint(report.WriteLookups(o.app.stream(o.app.stdout), o.output, lookups))
}

// find completes a product from the only matching series of the table.
func (o *lookupOptions) find(t *table.Table, p *table.Product) (listed bool, err error) {
	agrees := func(known, has string) bool { return known == "" || known == has }
	var names []string
	for i := range t.Series {
		s := t.Series[i].Product
		if s.N == p.N && s.K == p.K && agrees(o.kernel, s.Kernel) && agrees(o.dtype, s.DType) && agrees(o.layout, s.Layout) &&
			agrees(o.weights, s.Weights) && o.epilogue == s.Epilogue {
			names = append(names, s.String())
			*p = s
		}
	}
	if len(names) > 1 {
		return false, hint(usagef("%d products have the shape %s: %s", len(names), o.shape, strings.Join(names, ", ")),
			"select one with --kernel, --dtype, --layout and --weights")
	}
	return len(names) == 1, nil
}

// The output forms of a table, by file extension, except TunableOp's, which is also CSV.
const tunableOpForm = "tunableop"

var tableForms = []struct{ name, ending string }{{"json", ".json"}, {"csv", ".csv"}, {"c", ".h"}, {"go", ".go"}, {tunableOpForm, ""}}

type convertOptions struct {
	app     *app
	to      string
	out     string
	pytorch string
	force   bool
}

func newTableConvertCommand(a *app) *cobra.Command {
	opts := &convertOptions{app: a}
	var names []string
	for _, f := range tableForms {
		names = append(names, f.name)
	}
	cmd := &cobra.Command{
		Use:               "convert TABLE",
		Args:              exactArgs("TABLE"),
		ValidArgsFunction: filesWith("json", "db"),
		RunE:              func(_ *cobra.Command, args []string) error { return opts.run(args[0]) },
	}
	flags := cmd.Flags()
	addFlag(cmd, &opts.to, "to", "", strings.Join(names, ", ")+" (default: from the name of --out, else json)", fixed(names...))
	addFlag(cmd, &opts.out, "out", "-", stdoutUsage, filesWith(file.Extensions...))
	flags.StringVar(&opts.pytorch, "pytorch-version", "", "torch.__version__ of the PyTorch that will read the file")
	flags.BoolVar(&opts.force, "force", false, "replace an existing file")
	return cmd
}

func (o *convertOptions) run(path string) error {
	to := o.to
	if to == "" {
		to = "json"
		if at := slices.IndexFunc(tableForms,
			func(f struct{ name, ending string }) bool { return f.ending != "" && f.ending == filepath.Ext(o.out) }); at >= 0 {
			to = tableForms[at].name
		} else if o.out != "-" {
			return usagef("--out: %q ends in %q, expected .json, .csv, .h or .go, or --to", o.out, filepath.Ext(o.out))
		}
	}
	form := slices.IndexFunc(tableForms, func(f struct{ name, ending string }) bool { return f.name == to })
	if form < 0 {
		return usagef("--to: unknown format %q: expected json, csv, c, go or %s", to, tunableOpForm)
	}
	version := ""
	switch {
	case to == tunableOpForm && o.pytorch == "":
		return hint(usagef("--pytorch-version is missing: PyTorch rejects a TunableOp file of another version"),
			"python3 -c 'import torch; print(torch.__version__)' prints it")
	case to == tunableOpForm:
		var err error
		if version, err = tunableop.ParseVersion(o.pytorch); err != nil {
			return usagef("--pytorch-version: %w", err)
		}
	case o.pytorch != "":
		return usagef("--pytorch-version needs --to %s", tunableOpForm)
	}
	if to == "go" && o.out != "-" {
		check := file.CheckGoPackage
		if filepath.Ext(o.out) == ".go" {
			check = file.CheckGoPath
		}
		if err := check(o.out); err != nil {
			return badFlag("out", err)
		}
	}
	s, err := o.app.readTableOrRun(path)
	if err != nil {
		return err
	}
	if to != tunableOpForm {
		named := "table"
		if o.out != "-" {
			named = strings.TrimSuffix(filepath.Base(o.out), filepath.Ext(o.out))
		}
		return o.app.writeFile(o.out, o.force,
			func(w io.Writer) error { return o.app.encodeTable(w, s.table, named+tableForms[form].ending) })
	}
	var text strings.Builder
	written, err := tunableop.Write(&text, s.table, version)
	if err != nil {
		return err
	}
	o.app.noteLeft(path, "left out", written.Left)
	if written.Lines == 0 {
		return inconclusivef("%s: has no entry for TunableOp, so %s is not written", path,
			cmp.Or(strings.TrimPrefix(o.out, "-"), "the file"))
	}
	if err := o.app.writeFile(o.out, o.force,
		func(w io.Writer) error { _, err := io.WriteString(w, text.String()); return err }); err != nil {
		return err
	}
	o.app.notef("%d lines for PyTorch %s", written.Lines, version)
	return nil
}
