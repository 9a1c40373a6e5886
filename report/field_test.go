package report

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/fleet"
)

// TestFields: the declarations of records keep to their rules, and JSON has the values that tables and CSV show.
func TestFields(t *testing.T) {
	findings := []FindingRecord{}
	audit := fixtureAtClock()
	audit.Findings[0].Baseline = rules.BaselineNew
	of := FindingRecords(audit)
	for _, f := range audit.Findings {
		findings = append(findings, of(f))
	}
	splits := fixtureSustainedSplits()
	splits.Splits[1].Unsteady = true
	diff := fixtureDiff()
	diff.Cases[3].Scatter = rules.AssumedScatter
	medians := JudgedMedians(fixtureSeries(), fixtureAtClock())

	diff.Findings[0].B.Baseline = rules.BaselineNew
	// The layout that JSON leaves out is the other.
	transposed := fixtureKey
	transposed.Layout = kernels.Transposed
	findings[0].Series, splits.Splits[0].Series, diff.Cases[0].Series, diff.Findings[0].B.Series, medians[0].Series = transposed, transposed, transposed, transposed, transposed

	declared(t, "finding", FindingFields, findings)
	declared(t, "remedy", RemedyFields, splits.Splits)
	declared(t, "stretch", StretchFields, splits.Stretches)
	declared(t, "case of two runs", CaseFields, diff.Cases)
	declared(t, "finding of two runs", FindingDiffFields, diff.Findings)
	declared(t, "median", MedianFields, medians)
	r := fixtureFleet(1)
	var cards []*fleet.Card
	for i := range r.Cards {
		cards = append(cards, &r.Cards[i])
	}
	declared(t, "card of a fleet", fleetCardFields, cards)
	declared(t, "series", results.SeriesFields, []results.SeriesKey{transposed})
}

// declared checks the declaration of a record by some of them.
func declared[T any](t *testing.T, record string, fields []field.Field[T], records []T) {
	t.Helper()
	names, filters := map[string]bool{}, map[string]bool{}
	for _, f := range fields {
		if f.Name == "" || names[f.Name] {
			t.Errorf("%s: the name %q is there twice or empty", record, f.Name)
		}
		if f.Where != "" && filters[f.Where] {
			t.Errorf("%s: two fields are %s in --where", record, f.Where)
		}
		names[f.Name], filters[f.Where] = true, true
		if f.Words == "" || strings.TrimSpace(f.Words) != f.Words || strings.HasSuffix(f.Words, ".") {
			t.Errorf("%s: %s is explained by %q", record, f.Name, f.Words)
		}
		if f.NoColumn && f.Where == "" {
			t.Errorf("%s: %s is shown nowhere", record, f.Name)
		}
		if f.Unit != field.None && (f.Kind == field.Text || f.Kind == field.Flag) {
			t.Errorf("%s: %s is a %s in %s", record, f.Name, f.Kind, f.Unit)
		}
		compared := false
		for _, r := range records {
			v := f.Value(r)
			raw := field.Raw(v)
			if raw != nil && !ofKind(f.Kind, raw) {
				t.Errorf("%s: %s is declared %s, its value is %T", record, f.Name, f.Kind, raw)
			}
			in, ok := inJSON(t, r, f)
			if !ok {
				continue
			}
			compared = true
			if raw != nil && in != nil && fmt.Sprint(in) != fmt.Sprint(raw) {
				t.Errorf("%s: %s is %v, in JSON %v", record, f.Name, raw, in)
			}
		}
		if !compared && f.JSON != "-" {
			t.Errorf("%s: %s is in no record's JSON", record, f.Name)
		}
	}
}

// ofKind says whether a value is of a kind.
func ofKind(kind field.Kind, v any) bool {
	switch v.(type) {
	case string:
		return kind == field.Text
	case int:
		return kind == field.Count
	case float64:
		return kind == field.Number || kind == field.Bounds
	case bool:
		return kind == field.Flag
	}
	return false
}

// inJSON is the value that a record's JSON has of a field, nil for an object that is no interval; ok is false
// where there is none.
func inJSON[T any](t *testing.T, record T, f field.Field[T]) (v any, ok bool) {
	t.Helper()
	if f.JSON == "-" {
		return nil, false
	}
	text, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	path := f.JSON
	if path == "" {
		path = f.Name
	}
	for key := range strings.SplitSeq(path, ".") {
		object, _ := v.(map[string]any)
		if v, ok = object[key]; !ok {
			return nil, false
		}
	}
	switch x := v.(type) {
	case map[string]any:
		return x["mid"], true
	case float64:
		if f.Kind == field.Count && x == math.Trunc(x) {
			return int(x), true
		}
	}
	return v, true
}
