package report

import (
	"io"

	"github.com/gemmaudit/gemmaudit/rules"
)

// WriteConfigChanges prints in which keys two rules files differ.
func WriteConfigChanges(w io.Writer, f Format, changes []rules.ConfigChange) error {
	if changes == nil {
		changes = []rules.ConfigChange{}
	}
	sheet := Sheet{Columns: []Column{{Name: "key", Key: "key"}, {Name: "A", Key: "a", Flex: true}, {Name: "B", Key: "b", Flex: true}}}
	doc := &Document{Subject: "rules", Value: changes, Items: []any{}}
	set := func(v string) any {
		if v == "" {
			return word{"not set", Faint}
		}
		return v
	}
	for _, c := range changes {
		sheet.Rows = append(sheet.Rows, []any{c.Key, set(c.A), set(c.B)})
		doc.Items = append(doc.Items, c)
	}
	if len(changes) == 0 {
		doc.Head = []Note{{"the rules are the same", Good}}
	}
	doc.Sheets = []Sheet{sheet}
	return doc.Render(w, f)
}
