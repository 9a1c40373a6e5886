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
	"github.com/gemmaudit/gemmaudit/results/importing"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/advice"
	"github.com/gemmaudit/gemmaudit/rules/cards"
	"github.com/gemmaudit/gemmaudit/rules/diff"
	"github.com/gemmaudit/gemmaudit/rules/fleet"
	"github.com/gemmaudit/gemmaudit/rules/history"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
)

// Field declarations must be consistent, and JSON must have the values shown in tables and CSV.
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
	difference := fixtureDiff()
	difference.Cases[3].Scatter, difference.Cases[3].Paired = infer.AssumedScatter, 7
	medians := JudgedMedians(fixtureSeries(), fixtureAtClock())

	difference.Findings[0].B.Baseline = rules.BaselineNew
	// JSON omits the default layout, so test the other one.
	transposed := fixtureKey
	transposed.Layout = kernels.Transposed
	findings[0].Series, splits.Splits[0].Series, difference.Cases[0].Series, difference.Findings[0].B.Series,
		medians[0].Series = transposed,
		transposed, transposed, transposed, transposed

	declared(t, "finding", FindingFields, findings)
	declared(t, "remedy", RemedyFields, splits.Splits)
	declared(t, "stretch", StretchFields, splits.Stretches)
	declared(t, "case of two runs", CaseFields, difference.Cases)
	declared(t, "finding of two runs", FindingDiffFields, difference.Findings)
	declared(t, "median", MedianFields, medians)
	r := fixtureFleet(1)
	var devices []*fleet.Card
	for i := range r.Cards {
		devices = append(devices, &r.Cards[i])
	}
	declared(t, "card of a fleet", fleetCardFields, devices)
	declared(t, "series", results.SeriesFields, []results.SeriesKey{transposed})

	declared(t, "series of two runs", seriesDiffFields, difference.Series)
	declared(t, "factor of two runs", factorFields, difference.Factors)
	declared(t, "change of a rule", configFields, []rules.ConfigChange{{Key: "threshold", A: "1", B: "2"}})
	declared(t, "check of doctor", healthFields, fixtureHealth())
	declared(t, "launch that differs", launchFields, []rules.LaunchDiffers{{M: 1}})
	declared(t, "launch that changed", changedFields, []rules.LaunchDiffers{{M: 1, Phase: "sweep"}})
	declared(t, "answer on fusing", fusingFields, []fusingStretch{{}})
	declared(t, "card of a host", hostCardFields, []cards.Verdict{{Device: "cuda:0", ClockMHz: 1, PowerW: 1, TempC: 1, Throttled: 1}})
	declared(t, "case of a card", cardCaseFields, []cards.Case{{M: 1}})
	declared(t, "check of a node", checkFields, []fleet.Check{{Card: "GPU-1"}})
	declared(t, "group of a fleet", confoundFields, []groupConfound{{}})
	declared(t, "scatter of a fleet", scatterFields, []scatterOf{{}})
	declared(t, "slow case of a fleet", slowCaseFields, []slowCase{{card: devices[0]}})
	declared(t, "remedy of a fleet", sharedRemedyFields, []table.SharedEntry{{}})
	declared(t, "event of a history", eventFields, []runEvent{{}})
	one := &history.Case{}
	declared(t, "change of a history", changeFields, []caseChange{{of: one}})
	declared(t, "case of a history", caseOfRunFields, []caseOfRun{{of: one}})

	declared(t, "pass", passFields, []advice.Pass{{Inferred: true}})
	declared(t, "part of a pass", partFields, []advice.Part{{}})
	declared(t, "size of a chunk", chunkSizeFields, []advice.ChunkSize{{}})
	declared(t, "usual chunk", usualChunkFields, []advice.UsualChunk{{Known: true}})
	declared(t, "list of sizes", sizesFields, []advice.SizesAgainst{{}})
	declared(t, "skip", skipFields, []advice.Skip{{}})
	declared(t, "setting", settingFields, []settingLine{{}})
	declared(t, "series of a plan", planFields, fixturePlan().Series)
	declared(t, "peak of a device", peakFields, []devicePeak{{}})
	declared(t, "source of a run", sourceFields, fixtureRunFile().Sources)
	declared(t, "format of an import", formatFields, []importing.Format{{}})
	declared(t, "condition of a table", conditionFields, []results.FactorDiff{{}})
	declared(t, "check of a table", rowCheckFields, []remedy.RowCheck{{}})
	declared(t, "lookup", lookupFields, []Lookup{{}})
	declared(t, "series of choices", seriesChoicesFields, fixtureChoices().Series)
	declared(t, "series without choices", untoldFields, []UntoldChoices{{}})
	declared(t, "choices of two sides", choicesDiffFields, fixtureChoicesDiff().Series)
	declared(t, "overview", overviewFields, nil)
	declared(t, "band of M", bandFields, []diff.Band{{}})
	declared(t, "verdicts of a series", verdictFields, nil)
	declared(t, "case against a baseline", againstFields, []AgainstRow{{BaselineUS: 1, Ratio: 1}})
	declared(t, "check of selftest", checkStepFields, fixtureSelftest().Checks)
}

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
		if f.Unit != field.None && (f.Type() == field.Text || f.Type() == field.Flag) {
			t.Errorf("%s: %s is a %s in %s", record, f.Name, f.Type(), f.Unit)
		}
		compared := false
		for _, r := range records {
			v := f.Value(r)
			raw := field.Raw(v)
			if raw != nil && !ofKind(f.Type(), raw) {
				t.Errorf("%s: %s is declared %s, its value is %T", record, f.Name, f.Type(), raw)
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

// inJSON returns the JSON value of a field, nil for an object that is not an interval; ok is false if it is
// missing.
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
		if f.Type() == field.Count && x == math.Trunc(x) {
			return int(x), true
		}
	}
	return v, true
}
