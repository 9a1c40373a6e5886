package report

import (
	"fmt"
	"io"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
)

// WriteSplits prints remedies: what was predicted, what it took when it was
// executed, and whether it pays. JSON is the result itself, JSONL one remedy a
// line, bench the direct and the executed times. meta is used by bench alone.
func WriteSplits(w io.Writer, f Format, meta results.Meta, splits *rules.SplitsResult) error {
	doc := &Document{Subject: "splits", Value: splits, Items: []any{}}
	for _, s := range splits.Splits {
		doc.Items = append(doc.Items, s)
	}
	tone := Neutral
	if n := paying(splits.Splits); n > 0 {
		tone = Good
	}
	doc.Head = []Note{{SplitsSummary(splits), tone}}
	doc.Sheets = []Sheet{SplitSheet(splits.Splits)}
	doc.Notes = warningNotes(splits.Warnings)
	doc.Bench = func(w io.Writer) error { return benchSplits(w, meta, splits) }
	return doc.Render(w, f)
}

// SplitsSummary is the outcome of the search in one line.
func SplitsSummary(s *rules.SplitsResult) string {
	executed := 0
	for _, r := range s.Splits {
		if r.Executed {
			executed++
		}
	}
	switch {
	case len(s.Splits) == 0:
		return "no split or padding is predicted to pay"
	case executed == 0:
		verb := "were"
		if len(s.Splits) == 1 {
			verb = "was"
		}
		return fmt.Sprintf("%s predicted, none of which %s executed: they are candidates, not gains", plural(len(s.Splits), "remedy", "remedies"), verb)
	}
	return fmt.Sprintf("%s predicted, %d executed; of these %s", plural(len(s.Splits), "remedy", "remedies"), executed, plural(paying(s.Splits), "pays", "pay"))
}

func paying(rows []rules.SplitRow) int {
	n := 0
	for _, r := range rows {
		if r.Pays {
			n++
		}
	}
	return n
}

// SplitSheet is the table of remedies.
func SplitSheet(rows []rules.SplitRow) Sheet {
	s := Sheet{Columns: []Column{
		{Name: "series", Key: "series", Hoist: true}, {Name: "m", Key: "m", Align: Right}, {Name: "kind", Key: "kind", Wide: true}, {Name: "remedy", Key: "remedy"},
		{Name: "direct us", Key: "direct_us", Align: Right}, {Name: "predicted us", Key: "predicted_us", Align: Right},
		{Name: "executed us", Key: "executed_us", Align: Right, Interval: true}, {Name: "gain", Key: "gain", Align: Right, Interval: true}, {Name: "pays", Key: "pays"},
	}}
	for _, r := range rows {
		row := []any{seriesCell(r.Series), r.M, string(r.Kind), remedyText(r.Remedy), micros(r.DirectUS), micros(r.PredictedUS), nil, gainCell(r.Remedy), word{"not executed", Faint}}
		if r.Executed {
			row[6] = bounds{r.ExecutedUS, microsCell}
			row[8] = word{"no", Faint}
			if r.Pays {
				row[8] = word{"yes", Good}
			}
		}
		s.Rows = append(s.Rows, row)
	}
	return s
}
