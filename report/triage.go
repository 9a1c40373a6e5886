package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/rules/triage"
)

const mostLosses = 20

var triageSeries, triageSeriesFilters = seriesFields(func(l triage.Loss) results.SeriesKey { return l.Series })

var triageFields = append(field.Of([]field.Field[triage.Loss]{
	{Name: "problem", Head: "#", Kind: field.Count, Words: "the run's problem that it belongs to: explain RUN NUMBER explains it",
		Value: func(l triage.Loss) any { return problemNumber(l.Problem) }},
	triageSeries,
	{Name: "m", Head: "m", Kind: field.Count, Words: rowMWords},
	{Name: "calls", Head: "calls", Kind: field.Count, Words: "calls of the product in the workload",
		Value: func(l triage.Loss) any { return int(l.Calls) }},
	{Name: "share", Head: "share of time", Unit: field.Share, Words: "share of the workload's GEMM time"},
	{Name: "us", Head: "us now", Unit: field.Micros, Words: "time of a call now"},
	{Name: "with_us", Head: "us then", Unit: field.Micros, Words: "time of a call with the remedy"},
	{Name: "lost", Head: "lost", Kind: field.Bounds, Unit: field.Share, Words: "share of its time that the product loses"},
	{Name: "remedy", Head: "what to do", Flex: true, Words: "the remedy", Value: func(l triage.Loss) any { return whatToDo(l) }},
	{Name: "rule", Head: "rule", Wide: true, Words: "the rule that found it"},
	{Name: "cause", Head: "cause", Wide: true, Words: "why it is slow"},
}), triageSeriesFilters...)

var triageReasons = map[triage.Code]string{
	triage.TriageInvalid:     "the run can't be judged",
	triage.TriageNotMeasured: "not measured in the time",
	triage.TriageNoKernel:    "no measured kernel computes it",
	triage.TriageFailed:      "its measurement failed",
	triage.TriageNoise:       "noise",
	triage.TriageAlone:       "nothing to compare with",
	triage.TriageUnproven:    "suspected, not measured again",
}

// WriteTriage prints the time lost in a recorded workload: the answer first, then the slow products. JSON is
// the triage itself, JSONL and CSV hold a product a line, bench every sample of the series.
func WriteTriage(w io.Writer, f Format, meta results.Meta, series []results.Series, t *triage.Result) error {
	doc := &Document{Subject: "triage", Value: t, Items: items(t.Losses)}
	tone := Good
	switch {
	case len(t.Losses) > 0:
		tone = Bad
	case t.Undecided > 0:
		tone = Open
	}
	doc.Head = []Note{{triageAnswer(t), tone}}
	for _, r := range t.Reasons {
		doc.Head = append(doc.Head, Notef(Open, "undecided: %s of the time, %s: %s", Share(r.Share).Text(),
			Plural(r.Products, "product", "products"), triageReasons[r.Reason]))
	}
	if t.BelowRoofline > 0 {
		doc.Head = append(doc.Head, Notef(Neutral, "%s of the time is in products far from the roofline without a faster alternative",
			Share(t.BelowRoofline).Text()))
	}
	shown := t.Losses
	if left := len(shown) - mostLosses; left > 0 && f != CSV {
		shown = shown[:mostLosses]
		lost := 0.0
		for _, l := range t.Losses[mostLosses:] {
			lost += l.LostUS / t.TotalUS
		}
		doc.Note(Faint, "%s more lose %s of the time: -o csv lists all", Plural(left, "product", "products"), Share(lost).Text())
	}
	doc.Sheets = []Sheet{sheetOf("Products that lose", triageFields, shown)}
	if t.Explain != "" {
		doc.Notes = append(doc.Notes, Note{"next: " + t.Explain + "   why it is slow, and how to fix it", Neutral})
	}
	if t.Longer != "" {
		doc.Notes = append(doc.Notes, Note{"a longer run: " + t.Longer, Command})
	}
	doc.Bench = func(w io.Writer) error { return WriteBench(w, meta, series) }
	return doc.Render(w, f)
}

func triageAnswer(t *triage.Result) string {
	var b strings.Builder
	if len(t.Losses) == 0 {
		b.WriteString("No loss is proven in the workload's GEMM time.")
	} else {
		worst := t.Losses[0]
		fmt.Fprintf(&b, "%s of the workload's GEMM time is lost. %s loses most: it takes %s us, %s.",
			bounds{t.Lost, Share}.Text(), results.Case{SeriesKey: worst.Series, M: worst.M}, short3(worst.US), withText(worst))
	}
	if t.Undecided > 0 {
		fmt.Fprintf(&b, " %s of the time is undecided.", Share(t.Undecided).Text())
	}
	return b.String()
}

func withText(l triage.Loss) string {
	if l.Remedy == nil {
		return "where " + short3(l.WithUS) + " us are expected"
	}
	return "and " + short3(l.WithUS) + " us " + remedyClause(*l.Remedy)
}

func problemNumber(n int) any {
	if n == 0 {
		return ""
	}
	return n
}

func whatToDo(l triage.Loss) string {
	if l.Remedy == nil {
		return "no remedy proven: " + string(l.Cause)
	}
	return problemRemedyText(*l.Remedy)
}
