package report

import (
	"io"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// WriteTable prints a lookup table: its conditions, and its action for each M. JSON is the table itself,
// JSONL an interval a line, CSV a proof or an interval a line. A table may have millions of intervals, so
// only the data for the format is built.
func WriteTable(w io.Writer, f Format, path string, t *table.Table) error {
	doc := &Document{Subject: "table", Value: t, Items: []any{}}
	if f == JSON {
		return doc.Render(w, f)
	}
	if f == JSONL {
		for i := range t.Series {
			for j := range t.Series[i].Intervals {
				doc.Items = append(doc.Items, tableEntry{&t.Series[i].Product, &t.Series[i].Intervals[j]})
			}
		}
		return doc.Render(w, f)
	}
	entries := Sheet{Title: "Entries", Columns: []Column{
		{Name: "product", Key: "series"}, {Name: "M", Key: "interval"}, {Name: "step", Key: "step", Align: Right, Wide: true},
		{Name: "action", Key: "action"}, {Name: "proven at", Key: "proof_m", Align: Right},
		{Name: "direct us", Key: "direct_us", Align: Right}, {Name: "remedy us", Key: "remedy_us", Align: Right},
		{Name: "gain", Key: "gain", Align: Right, Interval: true},
	}}
	intervals := 0
	for i := range t.Series {
		s := &t.Series[i]
		intervals += len(s.Intervals)
		var name any = s.String() // shared by all rows of the series
		if a := s.Lookup(0); a.Kind != table.Direct {
			entries.Rows = append(entries.Rows, []any{name, "else", nil, ActionText(a, 0), nil, nil, nil, nil})
		}
		for j := range s.Intervals {
			iv := &s.Intervals[j]
			head := []any{name, IntervalText(iv.From, iv.To), max(1, iv.Step)}
			for _, p := range iv.Proofs {
				gain := stats.Interval{Lo: p.GainLo, Mid: p.GainMid, Hi: p.GainHi}
				entries.Rows = append(entries.Rows, append(head[:3:3], ActionText(iv.Action, p.M), p.M, number{p.DirectUS, 2},
					number{p.RemedyUS, 2}, bounds{gain, Factor}))
			}
			if len(iv.Proofs) == 0 {
				entries.Rows = append(entries.Rows, append(head[:3:3], ActionText(iv.Action, iv.From), nil, nil, nil, nil))
			}
		}
	}
	var conditions []Property
	for _, p := range t.Conditions() {
		conditions = append(conditions, Property{p[0], p[1]})
	}
	doc.Sheets, doc.Main = []Sheet{PairSheet("Measured on", "condition", "value", conditions), entries}, 1
	held := path + ": " + Plural(len(t.Series), "product", "products") + ", " + Plural(intervals, "interval", "intervals") + " of M"
	if served, of := t.Served(); of > 0 {
		held += ", " + itoa(served) + " of " + Plural(of, "M", "Ms") + " served"
	}
	doc.Notes = []Note{{held, Neutral}}
	if n := len(t.Advice); n > 0 {
		doc.Notes = append(doc.Notes, Notef(Neutral, "%s on weights, listed by -o json", Plural(n, "piece of advice", "pieces of advice")))
	}
	return doc.Render(w, f)
}

type tableEntry struct {
	*table.Product
	*table.Interval
}

// Lookup is a table's answer for one product.
type Lookup struct {
	table.Product
	M      int          `json:"m"`
	Action table.Action `json:"action"`
	// Parts are the Ms of its launches, in order.
	Parts []int `json:"parts"`
	// Listed reports whether the table has a series for the product.
	Listed bool `json:"listed"`
}

var lookupFields = field.Of([]field.Field[Lookup]{
	{Name: "series", Head: "product", JSON: "-", Hoist: true, Words: "the product",
		Value: func(l Lookup) any { return l.Product.String() }},
	{Name: "m", Head: "M", Kind: field.Count, Words: "its M"},
	{Name: "action", Head: "action", JSON: "-", Words: "what the table does with it", Value: func(l Lookup) any { return l.actionText() }},
	{Name: "parts", Head: "launches of M", JSON: "-", Words: "the Ms of its launches, in order",
		Value: func(l Lookup) any { return results.JoinInts(l.Parts, "+") }},
})

func (l Lookup) actionText() string {
	action := string(l.Action.Kind)
	if l.Action.Kind != table.Direct && l.Action.Kind != table.Split {
		action = ActionText(l.Action, l.M)
	}
	if !l.Listed {
		action += " (the table has no such product)"
	}
	return action
}

// WriteLookups prints a table's answers for products.
func WriteLookups(w io.Writer, f Format, lookups []Lookup) error {
	doc := &Document{Subject: "lookups", Value: lookups, Items: items(lookups)}
	doc.Sheets = []Sheet{sheetOf("", lookupFields, lookups)}
	return doc.Render(w, f)
}
