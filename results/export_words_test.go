package results_test

import (
	"bytes"
	"encoding/csv"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/export"
)

func TestSpreadsheetCell(t *testing.T) {
	for _, c := range [][2]string{
		{"", ""}, {"cpu", "cpu"}, {"-1.5", "-1.5"}, {"+3", "+3"}, {"1=2", "1=2"}, {"'=1", "'=1"},
		{"=1+1", "'=1+1"}, {"+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"}, {"-2+3", "'-2+3"}, {"@SUM(1)", "'@SUM(1)"},
		{"\t=1", "'\t=1"}, {" =1", "' =1"}, {"\uff1d1", "'\uff1d1"}, {"\r\n=1", "'\r\n=1"},
	} {
		if got := export.SpreadsheetCell(c[0]); got != c[1] {
			t.Errorf("%q becomes %q, expected %q", c[0], got, c[1])
		}
	}
}

func TestExportedWords(t *testing.T) {
	const label = "=HYPERLINK(\"http://a\")\x1b]0;title\x07\u009b31m|x"
	r, cases := results.NewRun(t, 4)
	must(t, r.SetLaunch(cases[0].ID, label, results.Launch{}))
	must(t, r.Append(results.SomeSample(cases[0], results.PhaseSweep, 0, 0)))
	for format, want := range map[export.Format]string{
		export.FormatCSV:         `=HYPERLINK("http://a")]0;title31m|x`,
		export.FormatSpreadsheet: `'=HYPERLINK("http://a")]0;title31m|x`,
	} {
		var b bytes.Buffer
		must(t, export.Write(r, &b, format, export.Samples{}))
		lines, err := csv.NewReader(&b).ReadAll()
		must(t, err)
		if got := lines[1][slices.Index(lines[0], "label")]; got != want {
			t.Errorf("%s: %q, expected %q", format, got, want)
		}
		if got := lines[1][slices.Index(lines[0], "kernel")]; got != cases[0].Kernel {
			t.Errorf("%s: kernel %q", format, got)
		}
	}
}
