package report

import (
	"fmt"
	"io"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
)

// WriteChoicesDiff prints where two sides would run different kernels. JSONL and CSV hold one
// changed stretch a line.
func WriteChoicesDiff(w io.Writer, f Format, d *rules.ChoicesDiff) error {
	doc := &Document{Subject: "choices", Value: d, Items: []any{}, Head: []Note{{ChoicesDiffSummary(d), changeTone(d.Changed)}}}
	series := Sheet{Title: "Series", Columns: []Column{
		{Name: "series in A", Key: "series_a"}, {Name: "series in B", Key: "series_b"}, {Name: "batches", Key: "asked", Align: Right},
		{Name: "changed", Key: "changed", Align: Right}, {Name: "share", Key: "share", Align: Right}, {Name: "stretches", Key: "stretches", Align: Right},
	}}
	changes := Sheet{Title: "Stretches that changed", Columns: slices.Concat(seriesColumns(), []Column{
		{Name: "series", Key: "series", Hoist: true}, {Name: "m from", Key: "from_m", Align: Right}, {Name: "to", Key: "to_m", Align: Right}, {Name: "batches", Key: "batches", Align: Right},
	}, launchColumns("A", "a_"), launchColumns("B", "b_"))}
	for _, s := range d.Series {
		series.Rows = append(series.Rows, []any{seriesCell(s.A), seriesCell(s.B), s.Asked, s.Changed, share(s.Share()), len(s.Stretches)})
		for _, x := range s.Stretches {
			doc.Items = append(doc.Items, struct {
				A results.SeriesKey `json:"series_a"`
				B results.SeriesKey `json:"series_b"`
				rules.ChangedStretch
			}{s.A, s.B, x})
			row := append(seriesCells(s.B), seriesCell(s.B), x.From, x.To, x.Ms)
			changes.Rows = append(changes.Rows, append(append(row, launchCells(x.A)...), launchCells(x.B)...))
		}
	}
	lonely := Sheet{Title: "On one side only", Columns: []Column{{Name: "side", Key: "side"}, {Name: "series", Key: "series"}}}
	for i, keys := range [][]results.SeriesKey{d.OnlyA, d.OnlyB} {
		for _, k := range keys {
			lonely.Rows = append(lonely.Rows, []any{string("AB"[i]), seriesCell(k)})
		}
	}
	doc.Sheets, doc.Main = []Sheet{series, changes, lonely}, 1
	return doc.Render(w, f)
}

// launchColumns and launchCells are a launch among two: in one column for people, and field by
// field for CSV.
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
func ChoicesDiffSummary(d *rules.ChoicesDiff) string {
	if d.Changed == 0 {
		return fmt.Sprintf("A %s, B %s: the same would run at all %s of %s", d.A, d.B, plural(d.Asked, "batch", "batches"), count(len(d.Series), "series"))
	}
	stretches := 0
	for _, s := range d.Series {
		stretches += len(s.Stretches)
	}
	return fmt.Sprintf("A %s, B %s: another launch at %d of %s of %s (%s), in %s", d.A, d.B, d.Changed, plural(d.Asked, "batch", "batches"),
		count(len(d.Series), "series"), formatShare(float64(d.Changed)/float64(d.Asked)), plural(stretches, "stretch", "stretches"))
}

func changeTone(changed int) Tone {
	if changed > 0 {
		return Open
	}
	return Good
}
