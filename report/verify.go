package report

import (
	"fmt"
	"io"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/table"
	"github.com/gemmaudit/gemmaudit/rules"
)

// Verification is what became of a lookup table on this machine.
type Verification struct {
	Path       string           `json:"path"`
	Validators table.Validators `json:"validators"`
	// Differences are the conditions that are not those of the table.
	Differences []results.FactorDiff `json:"differences"`
	// Checks are the entries that were measured again; none when differences
	// forbade it.
	Checks []rules.RowCheck `json:"checks"`
	// Rejected counts the entries that no longer pay, Open those of which
	// nothing could be said.
	Rejected int `json:"rejected"`
	Open     int `json:"open"`
}

// NewVerification sums checks up.
func NewVerification(path string, t *table.Table, differences []results.FactorDiff, checks []rules.RowCheck) *Verification {
	v := &Verification{Path: path, Validators: t.Validators, Differences: differences, Checks: checks}
	if v.Differences == nil {
		v.Differences = []results.FactorDiff{}
	}
	if v.Checks == nil {
		v.Checks = []rules.RowCheck{}
	}
	for _, c := range checks {
		switch c.Verdict {
		case rules.Rejected:
			v.Rejected++
		case rules.Pays:
		default:
			v.Open++
		}
	}
	return v
}

// WriteVerification prints what became of a table. JSONL and CSV hold one entry
// a line.
func WriteVerification(w io.Writer, f Format, v *Verification) error {
	doc := &Document{Subject: "verification", Value: v, Items: []any{}}
	differences := Sheet{Title: "Conditions that differ", Columns: []Column{
		{Name: "condition", Key: "condition"}, {Name: "table", Key: "table"}, {Name: "this machine", Key: "here"},
	}}
	for _, d := range v.Differences {
		differences.Rows = append(differences.Rows, []any{d.Name, d.A, orUnknown(d.B)})
	}
	entries := Sheet{Title: "Entries", Columns: []Column{
		{Name: "series", Key: "series"}, {Name: "interval", Key: "interval"}, {Name: "m", Key: "m", Align: Right},
		{Name: "action", Key: "action"}, {Name: "direct us", Key: "direct_us", Align: Right, Interval: true},
		{Name: "remedy us", Key: "remedy_us", Align: Right, Interval: true}, {Name: "promised", Key: "promised", Align: Right},
		{Name: "gain", Key: "gain", Align: Right, Interval: true}, {Name: "verdict", Key: "verdict"}, {Name: "reason", Key: "reason", Flex: true},
	}}
	for _, c := range v.Checks {
		doc.Items = append(doc.Items, c)
		tone := Open
		switch c.Verdict {
		case rules.Pays:
			tone = Good
		case rules.Rejected:
			tone = Bad
		}
		entries.Rows = append(entries.Rows, []any{
			c.Name, intervalText(c.From, c.To), c.M, actionText(c.Action, c.M),
			bounds{c.DirectUS, microsCell}, bounds{c.RemedyUS, microsCell}, factor(c.Promised), bounds{c.Gain, factorCell},
			word{string(c.Verdict), tone}, c.Reason,
		})
	}
	doc.Sheets, doc.Main = []Sheet{differences, entries}, 1
	note := Note{fmt.Sprintf("%s: %d checked, %d rejected, %d open", v.Path, len(v.Checks), v.Rejected, v.Open), Good}
	switch {
	case v.Rejected > 0 || len(v.Differences) > 0:
		note.Tone = Bad
	case v.Open > 0:
		note.Tone = Open
	}
	if n := len(v.Differences); n > 0 {
		note.Text += ", " + plural(n, "condition differs", "conditions differ")
	}
	doc.Notes = []Note{note}
	return doc.Render(w, f)
}

// actionText says in few words what a table does with a product of m rows.
func actionText(a table.Action, m int) string {
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
