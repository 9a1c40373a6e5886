package report

import (
	"fmt"
	"io"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules/outcome"
	"github.com/gemmaudit/gemmaudit/rules/remedy"
)

// Verification is the check of a lookup table on this machine.
type Verification struct {
	Path       string           `json:"path"`
	Validators table.Validators `json:"validators"`
	// Differences are the conditions that differ from the table's.
	Differences []results.FactorDiff `json:"differences"`
	// Checks are the entries measured again; empty if differences prevented it.
	Checks []remedy.RowCheck `json:"checks"`
	// Rejected counts the entries that no longer pay, Open the undecided ones.
	Rejected int `json:"rejected"`
	Open     int `json:"open"`
}

// NewVerification summarizes checks.
func NewVerification(path string, t *table.Table, differences []results.FactorDiff, checks []remedy.RowCheck) *Verification {
	v := &Verification{Path: path, Validators: t.Validators, Differences: differences, Checks: checks}
	if v.Differences == nil {
		v.Differences = []results.FactorDiff{}
	}
	if v.Checks == nil {
		v.Checks = []remedy.RowCheck{}
	}
	for _, c := range checks {
		switch c.Verdict {
		case remedy.Rejected:
			v.Rejected++
		case remedy.Pays:
		default:
			v.Open++
		}
	}
	return v
}

var conditionFields = field.Of([]field.Field[results.FactorDiff]{
	{Name: "condition", Head: "condition", JSON: "-", Words: "the condition that the table was measured on",
		Value: func(d results.FactorDiff) any { return d.Name }},
	{Name: "table", Head: "table", JSON: "-", Words: "its value in the table", Value: func(d results.FactorDiff) any { return d.A }},
	{Name: "here", Head: "this machine", JSON: "-", Words: "its value here",
		Value: func(d results.FactorDiff) any { return orUnknown(d.B) }},
})

var rowCheckFields = field.Of([]field.Field[remedy.RowCheck]{
	{Name: "series", Head: "series", Words: "the product of the entry"},
	{Name: "interval", Head: "interval", JSON: "-", Words: "first and last M of the entry",
		Value: func(c remedy.RowCheck) any { return IntervalText(c.From, c.To) }},
	{Name: "m", Head: "m", Kind: field.Count, Words: "the M that was measured again"},
	{Name: "action", Head: "action", JSON: "-", Words: "what to do instead",
		Value: func(c remedy.RowCheck) any { return ActionText(c.Action, c.M) }},
	{Name: "direct_us", Head: "direct us", Kind: field.Bounds, Unit: field.Micros, Words: "time of the direct product"},
	{Name: "remedy_us", Head: "remedy us", Kind: field.Bounds, Unit: field.Micros, Words: "time of the remedy"},
	{Name: "promised", Head: "promised", Unit: field.Factor, JSON: "-", Words: "the least gain by the table's proof",
		Value: func(c remedy.RowCheck) any { return c.Promised }},
	{Name: "gain", Head: "gain", Kind: field.Bounds, Unit: field.Factor, Words: "direct time over the remedy's"},
	{Name: "verdict", Head: "verdict", Words: "whether it still pays", Value: func(c remedy.RowCheck) any {
		switch c.Verdict {
		case remedy.Pays:
			return word{string(c.Verdict), Good}
		case remedy.Rejected:
			return word{string(c.Verdict), Bad}
		}
		return word{string(c.Verdict), Open}
	}},
	{Name: "reason", Head: "reason", JSON: "-", Flex: true, Words: reasonWords, Value: func(c remedy.RowCheck) any { return c.Reason }},
})

// WriteVerification prints the check of a table. JSONL and CSV hold one entry a line.
func WriteVerification(w io.Writer, f Format, v *Verification) error {
	doc := &Document{Subject: "verification", Value: v, Items: items(v.Checks)}
	doc.Sheets, doc.Main = []Sheet{sheetOf("Conditions that differ", conditionFields, v.Differences),
		sheetOf("Entries", rowCheckFields, v.Checks)}, 1
	note := Notef(Good, "%s: %d checked, %d rejected, %d open", v.Path, len(v.Checks), v.Rejected, v.Open)
	switch {
	case v.Rejected > 0 || len(v.Differences) > 0:
		note.Tone = Bad
	case v.Open > 0:
		note.Tone = Open
	}
	if n := len(v.Differences); n > 0 {
		note.Text += ", " + Plural(n, "condition differs", "conditions differ")
	}
	doc.Notes = []Note{note}
	return doc.Render(w, f)
}

// ActionText says how a table's action runs a product of m rows.
func ActionText(a table.Action, m int) string {
	switch a.Kind {
	case table.Split:
		return results.JoinInts(a.Parts(m), "+")
	case table.Pad:
		return padText(a.PadTo, a.Pad)
	case table.Kernel:
		return "use " + a.Kernel
	case table.Algorithm:
		return "use " + a.Kernel + " " + algorithmText(kernels.Algorithm(a.Algorithm))
	}
	return string(table.Direct)
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// Evidence is the input of the exit code; with anyway, other conditions count as the same.
func (v *Verification) Evidence(anyway bool) outcome.Evidence {
	e := outcome.Evidence{Name: v.Path}
	if v.Rejected > 0 {
		e.Proven = append(e.Proven, fmt.Sprintf("%s: %s", v.Path, Plural(v.Rejected, "entry no longer pays", "entries no longer pay")))
	}
	if len(v.Differences) > 0 && !anyway {
		d := v.Differences[0]
		e.Proven = append(e.Proven,
			fmt.Sprintf("%s was measured under different conditions: its %s is %q, not %q", v.Path, d.Name, d.A, d.B))
		e.ProvenHint = "use --anyway to measure it anyway"
		return e
	}
	switch {
	case len(v.Checks) == 0:
		e.Open = append(e.Open, outcome.Ground{Text: v.Path + ": no entry to verify"})
	case v.Open > 0:
		e.Open = append(e.Open, outcome.Ground{Text: fmt.Sprintf("%s: %s undecided", v.Path, Plural(v.Open, "entry is", "entries are"))})
	}
	return e
}
