package report

import (
	"io"

	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/rules"
)

var configFields = field.Of([]field.Field[rules.ConfigChange]{
	{Name: "key", Head: "key", Words: "the key in the rules file"},
	{Name: "a", Head: "A", Flex: true, Words: "its value in A", Value: func(c rules.ConfigChange) any { return orFaint(c.A, "not set") }},
	{Name: "b", Head: "B", Flex: true, Words: "its value in B", Value: func(c rules.ConfigChange) any { return orFaint(c.B, "not set") }},
})

// WriteConfigChanges prints the differing keys of two rules files.
func WriteConfigChanges(w io.Writer, f Format, changes []rules.ConfigChange) error {
	if changes == nil {
		changes = []rules.ConfigChange{}
	}
	doc := &Document{Subject: "rules", Value: changes, Items: items(changes), Sheets: []Sheet{sheetOf("", configFields, changes)}}
	if len(changes) == 0 {
		doc.Head = []Note{{"the rules are the same", Good}}
	}
	return doc.Render(w, f)
}
