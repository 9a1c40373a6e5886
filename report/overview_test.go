package report

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/rules"

	"github.com/gemmaudit/gemmaudit/results"
)

func TestOverview(t *testing.T) {
	series := results.Series{Key: fixtureKey}
	for i, m := range []int{4, 8, 16} {
		row := results.Row{Case: results.Case{SeriesKey: fixtureKey, M: m}}
		if m == 16 {
			row.Failed = "launch error 700"
		} else {
			for round := range 3 {
				row.Samples = append(row.Samples, results.Sample{Round: round, US: float64(100 * (i + 1))})
			}
		}
		series.Rows = append(series.Rows, row)
	}
	for i := range series.Rows[0].Samples {
		series.Rows[0].Samples[i].US = 150 // half the work of m8, which takes 200
	}
	series.Peak.FLOPS = 2 * series.Rows[1].Case.FLOPs() / 200e-6
	var table, csv bytes.Buffer
	if err := WriteOverview(&table, Table, results.Meta{}, []results.Series{series}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(table.String(), "\n")
	var got []string
	for _, line := range lines {
		if strings.HasPrefix(line, fixtureKey.Text()) {
			got = append(got, strings.Join(strings.Fields(strings.TrimPrefix(line, fixtureKey.Text())), " "))
		}
	}
	if want := "3 4 16 6 1 150.0 200.0 50.0 % 8"; len(got) != 1 || got[0] != want {
		t.Errorf("lines %q, expected one: %q\n%s", got, want, table.String())
	}
	if err := WriteOverview(&csv, CSV, results.Meta{}, []results.Series{series}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(csv.String(), "\n"); n != 4 {
		t.Errorf("%d lines of CSV for 3 cases:\n%s", n, csv.String())
	}
}

// Listing a selection must not change the verdict counts or remove a finding's remedy.
func TestCountsAreOfAllThatWasFound(t *testing.T) {
	whole := fixtureAudit()
	some := whole.Showing(whole.Findings[:1], &rules.Selection{Top: 1, Shown: 1, Of: len(whole.Findings)})
	if a, b := verdictSheet(whole).Rows, verdictSheet(some).Rows; !reflect.DeepEqual(a, b) {
		t.Errorf("the verdicts are %v, of one finding that is listed %v", a, b)
	}
	in := fixtureInput()
	want := newInteractive(in).Findings[0].Remedy
	in.Splits = in.Splits.Showing(nil, nil, nil, &rules.Selection{Top: 1})
	if got := newInteractive(in).Findings[0].Remedy; want == "" || got != want {
		t.Errorf("the remedy is %q, where none is listed %q", want, got)
	}
}

// A warning is merged for many subjects and repeated for few.
func TestWarningsOfManySubjects(t *testing.T) {
	var warnings []rules.Warning
	for _, s := range []string{"a", "b", "c"} {
		warnings = append(warnings, rules.Warning{Subject: s, Text: "few"}, rules.Warning{Subject: s, Text: "many"},
			rules.Warning{Subject: "other " + s, Text: "many"})
	}
	var got []string
	for _, n := range warningNotes(warnings) {
		got = append(got, n.line())
	}
	want := []string{"warning: a: few", "warning: a, other a and 4 others: many", "warning: b: few", "warning: c: few"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, expected %q", got, want)
	}
}
