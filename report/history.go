package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/rules/history"
)

// WriteHistory prints how cases changed over many runs: the runs with changes, other changes at
// these runs, then each case's change. JSON is the result with all medians, JSONL one case a line, CSV one
// median a line with its change.
func WriteHistory(w io.Writer, f Format, r *history.Result) error {
	doc := &Document{Subject: "history", Value: r, Items: items(r.Cases)}
	doc.Head = historySentences(r)
	if f == CSV {
		doc.Sheets = []Sheet{historyMedianSheet(r)}
		return doc.Render(w, f)
	}
	doc.Sheets = []Sheet{eventSheet(r), changeSheet(r)}
	doc.Notes = warningNotes(r.Warnings)
	if f != Wide {
		return doc.Render(w, f)
	}
	for _, model := range slices.Sorted(maps.Keys(r.Clocks)) {
		if r.Clocks[model] > 0 {
			doc.Note(Faint, "%s: times are those at %.0f MHz", model, r.Clocks[model])
		}
	}
	doc.Note(Faint, "changes of %s and more, false discovery rate %v over the cases (Benjamini–Hochberg)",
		FormatShare(r.Settings.Threshold), r.Settings.Level)
	return doc.Render(w, f)
}

func dayText(t time.Time) string {
	if t.IsZero() {
		return "an unknown day"
	}
	return t.UTC().Format(time.DateOnly)
}

func factorsText(factors []results.FactorDiff) string {
	words := make([]string, 0, len(factors))
	for _, d := range factors {
		words = append(words, fmt.Sprintf("%s %s → %s", d.Name, cmp.Or(d.A, "unknown"), cmp.Or(d.B, "unknown")))
	}
	if len(words) == 0 {
		return "no difference in the fingerprints"
	}
	return strings.Join(words, "; ")
}

type runEvent struct {
	history.Event
	after, before history.Run
}

var eventFields = field.Of([]field.Field[runEvent]{
	{Name: "run", Head: "first run after", JSON: "-", Words: firstRunWords, Value: func(e runEvent) any { return e.after.Path }},
	{Name: "date", Head: "date", JSON: "-", Words: firstDayWords, Value: func(e runEvent) any { return dayText(e.after.Taken) }},
	{Name: "before", Head: "last run before", JSON: "-", Wide: true, Words: "the last run at the old level",
		Value: func(e runEvent) any { return e.before.Path }},
	{Name: "slower", Head: "slower", Kind: field.Count, Words: "cases that became slower"},
	{Name: "faster", Head: "faster", Kind: field.Count, Words: "cases that became faster"},
	{Name: "ratio", Head: "geometric mean", Unit: field.Factor, Words: "new level over old, over the cases that changed"},
	{Name: "factors", Head: "what else changed", JSON: "-", Flex: true, Words: "differences in software and machine",
		Value: func(e runEvent) any { return factorsText(e.Factors) }},
})

func eventSheet(r *history.Result) Sheet {
	var events []runEvent
	for _, e := range r.Events {
		events = append(events, runEvent{e, r.Runs[e.Run], r.Runs[e.Before]})
	}
	return sheetOf("Runs where times changed", eventFields, events)
}

type caseChange struct {
	history.Change
	of    *history.Case
	after history.Run
}

var changeFields = field.Of([]field.Field[caseChange]{
	{Name: "series", Head: "series", JSON: "-", Words: identityWords, Value: func(c caseChange) any { return c.of.Identity }},
	{Name: "m", Head: "m", Kind: field.Count, JSON: "-", Words: rowMWords, Value: func(c caseChange) any { return c.of.M }},
	{Name: "run", Head: "first run after", JSON: "-", Words: firstRunWords, Value: func(c caseChange) any { return c.after.Path }},
	{Name: "date", Head: "date", JSON: "-", Wide: true, Words: firstDayWords,
		Value: func(c caseChange) any { return dayText(c.after.Taken) }},
	{Name: "from_us", Head: "from us", Unit: field.Micros, Words: "the old level"},
	{Name: "to_us", Head: "to us", Unit: field.Micros, Words: "the new level"},
	{Name: "ratio", Head: "ratio", Kind: field.Bounds, Unit: field.Factor, Words: "new level over old: above 1 is slower"},
	{Name: "p", Head: "p", Unit: field.Probability, Wide: true, Words: "p-value over all runs at which there might be a step"},
})

func changeSheet(r *history.Result) Sheet {
	var changes []caseChange
	for i := range r.Cases {
		for _, x := range r.Cases[i].Changes {
			changes = append(changes, caseChange{x, &r.Cases[i], r.Runs[x.Run]})
		}
	}
	return sheetOf("Changes", changeFields, changes)
}

// caseOfRun is a case in one run; change is nil if its level did not change there.
type caseOfRun struct {
	of     *history.Case
	run    history.Run
	us     float64
	change *history.Change
}

var caseOfRunFields = field.Of([]field.Field[caseOfRun]{
	{Name: "series", Head: "series", JSON: "-", Words: identityWords, Value: func(c caseOfRun) any { return c.of.Identity }},
	{Name: "m", Head: "m", Kind: field.Count, JSON: "-", Words: rowMWords, Value: func(c caseOfRun) any { return c.of.M }},
	{Name: "run", Head: "run", JSON: "-", Words: "the run file", Value: func(c caseOfRun) any { return c.run.Path }},
	{Name: "date", Head: "date", JSON: "-", Words: "when the run was taken",
		Value: func(c caseOfRun) any { return c.run.Taken.UTC().Format(time.RFC3339) }},
	{Name: "us", Head: "us", Unit: field.Micros, JSON: "-", Words: "median time at a common clock",
		Value: func(c caseOfRun) any { return c.us }},
	{Name: "change", Head: "change", Unit: field.Factor, JSON: "-", Words: "new level over old, where this run is the first at a new level",
		Value: func(c caseOfRun) any {
			if c.change == nil {
				return nil
			}
			return c.change.Ratio.Mid
		}},
	{Name: "p", Head: "p", Unit: field.Probability, JSON: "-", Words: "p-value of the change", Value: func(c caseOfRun) any {
		if c.change == nil {
			return nil
		}
		return c.change.P
	}},
})

func historyMedianSheet(r *history.Result) Sheet {
	var records []caseOfRun
	for k := range r.Cases {
		c := &r.Cases[k]
		found := map[int]*history.Change{}
		for i := range c.Changes {
			found[c.Changes[i].Run] = &c.Changes[i]
		}
		for i, us := range c.US {
			if us != nil {
				records = append(records, caseOfRun{c, r.Runs[i], *us, found[i]})
			}
		}
	}
	return sheetOf("", caseOfRunFields, records)
}
