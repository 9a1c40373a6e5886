package main

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/report"
)

//docs:begin format

// writeTSV writes the main sheet with tabs between columns.
func writeTSV(w io.Writer, d *report.Document) error {
	sheet := d.Sheets[d.Main]
	for _, row := range sheet.Rows {
		var words []string
		for i, v := range row {
			words = append(words, sheet.Columns[i].Key+"="+fmt.Sprint(v))
		}
		if _, err := fmt.Fprintln(w, strings.Join(words, "\t")); err != nil {
			return err
		}
	}
	return nil
}

//docs:end

// A made-up output format is one of every command's.
func TestFixtureFormat(t *testing.T) {
	t.Cleanup(report.DefineFormat("tsv", writeTSV))
	t.Chdir(t.TempDir())
	flat := simulated.Linear(1e12, 2e-6)
	d := simulated.New(simulated.Config{Gemms: []simulated.KernelConfig{{Name: "flat", Cost: flat, DTypes: []kernels.DType{kernels.FP32}}}})
	runSteps(t, d, []step{
		{"sweep --out run.db --shape n64k64 --batch 1:64 --dtype fp32 --rounds 5 -o tsv", 0, []string{`=\S+\t\S+=`}},
		{"audit run.db -o tsv", 0, []string{`=\S+\t\S+=`}},
		{"devices -o tsv", 0, []string{`=sim\t`}},
		{"audit run.db -o tsw", 2, []string{`expected one of .*, tsv`}},
	})
}
