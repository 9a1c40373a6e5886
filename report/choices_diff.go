package report

import (
	"fmt"
	"io"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/rules/diff"
)

var choicesDiffFields = field.Of([]field.Field[diff.SeriesChoices]{
	{Name: "series_a", Head: "series in A", JSON: "-", Words: "the series in A",
		Value: func(s diff.SeriesChoices) any { return seriesCell(s.A) }},
	{Name: "series_b", Head: "series in B", JSON: "-", Words: "the series in B",
		Value: func(s diff.SeriesChoices) any { return seriesCell(s.B) }},
	{Name: "asked", Head: "batches", Kind: field.Count, Words: "sizes where both sides have a choice"},
	{Name: "changed", Head: "changed", Kind: field.Count, Words: "Ms with another launch"},
	{Name: "share", Head: "share", Unit: field.Share, JSON: "-", Words: "share of the Ms with another launch",
		Value: func(s diff.SeriesChoices) any { return s.Share() }},
	{Name: "stretches", Head: "stretches", Kind: field.Count, JSON: "-", Words: "stretches of M that changed",
		Value: func(s diff.SeriesChoices) any { return len(s.Stretches) }},
})

// WriteChoicesDiff prints where two sides would run different kernels. JSONL and CSV hold one changed range
// of M a line.
func WriteChoicesDiff(w io.Writer, f Format, d *diff.Choices) error {
	doc := &Document{Subject: "choices", Value: d, Items: []any{}, Head: []Note{{ChoicesDiffSummary(d), changeTone(d.Changed)}}}
	changes := Sheet{Title: "Stretches that changed", Columns: slices.Concat(seriesColumns(), []Column{
		{Name: "series", Key: "series", Hoist: true}, {Name: "m from", Key: "from_m", Align: Right},
		{Name: "to", Key: "to_m", Align: Right}, {Name: "batches", Key: "batches", Align: Right},
	}, launchColumns("A", "a_"), launchColumns("B", "b_"))}
	for _, s := range d.Series {
		for _, x := range s.Stretches {
			doc.Items = append(doc.Items, struct {
				A results.SeriesKey `json:"series_a"`
				B results.SeriesKey `json:"series_b"`
				diff.ChangedStretch
			}{s.A, s.B, x})
			row := append(seriesCells(s.B), seriesCell(s.B), x.From, x.To, x.Ms)
			changes.Rows = append(changes.Rows, append(append(row, launchCells(x.A)...), launchCells(x.B)...))
		}
	}
	var lonely []Property
	for i, keys := range [][]results.SeriesKey{d.OnlyA, d.OnlyB} {
		for _, k := range keys {
			lonely = append(lonely, Property{string("AB"[i]), seriesCell(k)})
		}
	}
	doc.Sheets, doc.Main = []Sheet{sheetOf("Series", choicesDiffFields, d.Series), changes,
		PairSheet("On one side only", "side", "series", lonely)}, 1
	return doc.Render(w, f)
}

// launchColumns and launchCells describe a launch: in one column for people, field by field for CSV.
func launchColumns(name, key string) []Column {
	out := []Column{{Name: name, Key: key + "launch", Flex: true}}
	for _, c := range kindColumns("", key) {
		c.Data = true
		out = append(out, c)
	}
	return out
}

func launchCells(k results.LaunchKind) []any {
	text := launchText(k.Label, k.Tile, k.Split)
	if k.Stages > 0 {
		text += fmt.Sprintf(" stages %d", k.Stages)
	}
	cells := kindCells(k)
	if cluster := cells[4]; cluster != "" {
		text += fmt.Sprintf(" cluster %s", cluster)
	}
	return append([]any{text}, cells...)
}

// ChoicesDiffSummary is the outcome in one line.
func ChoicesDiffSummary(d *diff.Choices) string {
	if d.Changed == 0 {
		return fmt.Sprintf("A %s, B %s: the same would run at all %s of %s", d.A, d.B, Plural(d.Asked, "batch", "batches"),
			Count(len(d.Series), "series"))
	}
	stretches := 0
	for _, s := range d.Series {
		stretches += len(s.Stretches)
	}
	return fmt.Sprintf("A %s, B %s: another launch at %d of %s of %s (%s), in %s", d.A, d.B, d.Changed, Plural(d.Asked, "batch", "batches"),
		Count(len(d.Series), "series"), FormatShare(float64(d.Changed)/float64(d.Asked)), Plural(stretches, "stretch", "stretches"))
}

func changeTone(changed int) Tone {
	if changed > 0 {
		return Open
	}
	return Good
}
