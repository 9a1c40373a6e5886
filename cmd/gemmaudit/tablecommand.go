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
	"github.com/gemmaudit/gemmaudit/results/tunableop"
	"github.com/gemmaudit/gemmaudit/sweep"
)

// newTableCommand assembles the commands on lookup tables.
func newTableCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "table",
		Short: "Show, look up, convert and check lookup tables of remedies",
		Example: examples(
			"gemmaudit splits run.db --table table.json             # proves remedies and writes them",
			"gemmaudit table show table.json",
			"gemmaudit table lookup table.json --shape n4096k14336 --m 1040,2048",
			"gemmaudit table convert table.json --to tunableop --pytorch-version 2.15.0 --out tunableop_results.csv",
			"gemmaudit table check tunableop_results.csv --prune proven.csv",
		),
		Long: `A lookup table says, for a product C[M,N] = A[M,K] · B, whether to run it as it is, in parts over
M, padded to a larger M, by another kernel, or by another algorithm of cuBLASLt. docs/tables.md
describes the forms of a table, and how engines in C, Go and Python use one.

show, lookup and convert need no device. They take a table in JSON, or a run that holds executed
remedies. check measures, and takes a file of PyTorch's TunableOp too, where there is an NVIDIA GPU.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(newTableShowCommand(a), newTableLookupCommand(a), newTableConvertCommand(a), newTableCheckCommand(a))
	return cmd
}

// tableExits are the exit codes of commands that read a table.
const tableExits = "3  the table or the run file can't be read, or the disk failed"

func newTableShowCommand(a *app) *cobra.Command {
	var output report.Format
	cmd := &cobra.Command{
		Use:     "show TABLE",
		Short:   "Print what a table holds for, and what it does with which M",
		Example: examples("gemmaudit table show table.json", "gemmaudit table show run.db -o csv"),
		Long: `Prints the conditions under which a table was measured, and each interval of M with its action and
its proofs: the action timed as it would be used, beside the direct product.` + exitHelp(
			"0  printed",
			"2  the file is TunableOp's",
			tableExits,
			"4  the run holds no executed remedies"),
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
	weights, ms                  string
	output                       report.Format
}

func newTableLookupCommand(a *app) *cobra.Command {
	opts := &lookupOptions{app: a}
	cmd := &cobra.Command{
		Use:   "lookup TABLE",
		Short: "Say what a table does with products of given M",
		Example: examples(
			"gemmaudit table lookup table.json --shape n4096k14336 --m 1040",
			"gemmaudit table lookup run.db --shape n4096k14336 --kernel cublas --dtype bf16 --layout nk --m 1:4096 -o csv",
		),
		Long: `Prints the action for each M, and the Ms of its launches. Outside of all intervals that is the default
of the product's series, and for a product without a series the direct product. The readers in C,
Go and Python answer alike. Of what is not given, products of any kind are looked up.` + exitHelp(
			"0  printed",
			"2  a flag can't be read, the table has several products of that shape, or the file is TunableOp's",
			tableExits,
			"4  the run holds no executed remedies"),
		Args:              exactArgs("TABLE"),
		ValidArgsFunction: filesWith("json", "db"),
		RunE:              func(_ *cobra.Command, args []string) error { return opts.run(args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.shape, "shape", "", "weights, as n4096k14336")
	flags.StringVar(&opts.ms, "m", "", "values of M, as --batch of a sweep takes them: 1,2,4 or 1:4096")
	flags.StringVar(&opts.kernel, "kernel", "", "kernel that would run the product")
	flags.StringVar(&opts.dtype, "dtype", "", "its data type")
	flags.StringVar(&opts.layout, "layout", "", "how its weights are stored: nk or kn")
	flags.StringVar(&opts.weights, "weights", "", "format of its weights, as the table names it")
	outputFlag(cmd, &opts.output)
	complete(cmd, "shape", completeShapes)
	complete(cmd, "layout", fixed(table.NK, table.KN))
	complete(cmd, "dtype", listOf(a.dtypeNames))
	for _, free := range []string{"m", "kernel", "weights"} {
		complete(cmd, free, cobra.NoFileCompletions)
	}
	return cmd
}

func (o *lookupOptions) run(path string) error {
	switch {
	case o.shape == "":
		return usagef("--shape is missing: expected weights, as n4096k14336")
	case o.ms == "":
		return usagef("--m is missing: expected values of M, as 1,2,4 or 1:4096")
	}
	if o.layout != "" {
		layout, err := kernels.ParseLayout(o.layout)
		if err != nil {
			return badFlag("layout", err)
		}
		o.layout = layout.String()
	}
	if o.dtype != "" {
		dtype, err := kernels.ParseDType(o.dtype)
		if err != nil {
			return badFlag("dtype", err)
		}
		o.dtype = string(dtype)
	}
	target, err := sweep.ParseProduct(o.shape)
	if err != nil {
		return badFlag("shape", err)
	}
	if target.Products > 0 {
		return usagef("--shape: %q is a batch, and tables are of single products", o.shape)
	}
	ms, err := sweep.ParseBatches(o.ms)
	if err != nil {
		return badFlag("m", err)
	}
	s, err := o.app.readTableOrRun(path)
	if err != nil {
		return err
	}
	product := table.Product{Kernel: o.kernel, DType: o.dtype, Weights: o.weights, Layout: o.layout, N: target.N, K: target.K}
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

// find completes a product by the one series of the table that agrees with what is known of it.
func (o *lookupOptions) find(t *table.Table, p *table.Product) (listed bool, err error) {
	agrees := func(known, has string) bool { return known == "" || known == has }
	var names []string
	for i := range t.Series {
		s := t.Series[i].Product
		if s.N == p.N && s.K == p.K && agrees(o.kernel, s.Kernel) && agrees(o.dtype, s.DType) && agrees(o.layout, s.Layout) && agrees(o.weights, s.Weights) {
			names = append(names, s.String())
			*p = s
		}
	}
	if len(names) > 1 {
		return false, hint(usagef("%d products are of shape %s: %s", len(names), o.shape, strings.Join(names, ", ")), "--kernel, --dtype, --layout and --weights choose one")
	}
	return len(names) == 1, nil
}

// The forms into which a table is converted, by the ending of a file; TunableOp's has that of another.
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
		Use:   "convert TABLE",
		Short: "Write a table as JSON, CSV, C, Go, or for PyTorch's TunableOp",
		Example: examples(
			"gemmaudit table convert table.json --out gemm.h",
			"gemmaudit table convert run.db --to csv",
			"gemmaudit table convert table.json --to tunableop --pytorch-version 2.15.0 --out tunableop_results.csv",
		),
		Long: `JSON holds everything, CSV all but the conditions, for spreadsheets. The C header and the Go file hold
the data and the functions that look it up, and need nothing else; the Go package has the file's name.

tunableop is the file that PyTorch's TunableOp reads from 2.14 on with an NVIDIA GPU
(PYTORCH_TUNABLEOP_ENABLED=1, PYTORCH_TUNABLEOP_TUNING=0, PYTORCH_TUNABLEOP_FILENAME): a line for each M
that was measured and runs faster by another algorithm of cuBLASLt. It can't express splits, pads and
other kernels, which are counted. PyTorch takes the file only if its own version is
--pytorch-version. The form follows PyTorch's source; no PyTorch has loaded such a file yet.` + exitHelp(
			"0  written",
			"2  the form is unknown, --pytorch-version is missing or wrong, Go can't import a file of that name, or the file is TunableOp's",
			tableExits,
			"4  the run holds no executed remedies, or the table has nothing for TunableOp"),
		Args:              exactArgs("TABLE"),
		ValidArgsFunction: filesWith("json", "db"),
		RunE:              func(_ *cobra.Command, args []string) error { return opts.run(args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&opts.to, "to", "", strings.Join(names, ", ")+" (default: by the ending of --out, else json)")
	flags.StringVar(&opts.out, "out", "-", "file to write, - for stdout")
	flags.StringVar(&opts.pytorch, "pytorch-version", "", "torch.__version__ of the PyTorch that is to read a file for TunableOp")
	flags.BoolVar(&opts.force, "force", false, "replace an existing file")
	complete(cmd, "to", fixed(names...))
	complete(cmd, "out", filesWith(tableExtensions...))
	complete(cmd, "pytorch-version", cobra.NoFileCompletions)
	return cmd
}

func (o *convertOptions) run(path string) error {
	to := o.to
	if to == "" {
		to = "json"
		if at := slices.IndexFunc(tableForms, func(f struct{ name, ending string }) bool { return f.ending != "" && f.ending == filepath.Ext(o.out) }); at >= 0 {
			to = tableForms[at].name
		} else if o.out != "-" {
			return usagef("--out: %q ends in %q, expected .json, .csv, .h or .go, or --to", o.out, filepath.Ext(o.out))
		}
	}
	form := slices.IndexFunc(tableForms, func(f struct{ name, ending string }) bool { return f.name == to })
	if form < 0 {
		return usagef("--to: unknown form %q: expected json, csv, c, go or %s", to, tunableOpForm)
	}
	version := ""
	switch {
	case to == tunableOpForm && o.pytorch == "":
		return hint(usagef("--pytorch-version is missing: PyTorch takes no file for TunableOp without its own version"), "python3 -c 'import torch; print(torch.__version__)' prints it")
	case to == tunableOpForm:
		var err error
		if version, err = tunableop.ParseVersion(o.pytorch); err != nil {
			return usagef("--pytorch-version: %w", err)
		}
	case o.pytorch != "":
		return usagef("--pytorch-version goes with --to %s", tunableOpForm)
	}
	if to == "go" && o.out != "-" {
		check := checkGoPackage
		if filepath.Ext(o.out) == ".go" {
			check = checkGoPath
		}
		if err := check("out", o.out); err != nil {
			return err
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
		return o.app.writeFile(o.out, o.force, func(w io.Writer) error { return o.app.encodeTable(w, s.table, named+tableForms[form].ending) })
	}
	var text strings.Builder
	written, err := tunableop.Write(&text, s.table, version)
	if err != nil {
		return err
	}
	o.app.noteLeft(path, "left out", written.Left)
	if written.Lines == 0 {
		return inconclusivef("%s: there is nothing for TunableOp in it, so %s is not written", path, cmp.Or(strings.TrimPrefix(o.out, "-"), "the file"))
	}
	if err := o.app.writeFile(o.out, o.force, func(w io.Writer) error { _, err := io.WriteString(w, text.String()); return err }); err != nil {
		return err
	}
	o.app.notef("%d lines for PyTorch %s", written.Lines, version)
	return nil
}
