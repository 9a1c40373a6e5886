package report

import (
	"io"
)

// Health is one thing that may spoil a measurement.
type Health struct {
	Name string `json:"name"`
	// Level is "ok", "warning", "problem" or "unknown".
	Level string `json:"level"`
	// Found is what was seen: "powersave".
	Found string `json:"found"`
	// Hint is what to do about it, empty for "ok".
	Hint string `json:"hint,omitempty"`
}

// WriteDoctor prints what would spoil a measurement on this machine.
func WriteDoctor(w io.Writer, f Format, findings []Health) error {
	if findings == nil {
		findings = []Health{}
	}
	doc := &Document{Subject: "health", Items: []any{}, Value: struct {
		Checks []Health `json:"checks"`
	}{findings}}
	sheet := Sheet{Columns: []Column{
		{Name: "check", Key: "check"}, {Name: "state", Key: "state"}, {Name: "found", Key: "found", Flex: true}, {Name: "hint", Key: "hint", Flex: true},
	}}
	counts := map[string]int{}
	for _, h := range findings {
		doc.Items = append(doc.Items, h)
		counts[h.Level]++
		tone := Faint
		switch h.Level {
		case "ok":
			tone = Good
		case "warning":
			tone = Open
		case "problem":
			tone = Bad
		}
		sheet.Rows = append(sheet.Rows, []any{h.Name, word{h.Level, tone}, h.Found, h.Hint})
	}
	doc.Sheets = []Sheet{sheet}
	switch problems, warnings := counts["problem"], counts["warning"]; {
	case problems > 0:
		doc.Notes = []Note{{count(problems, "problem") + ", " + count(warnings, "warning"), Bad}}
	case warnings > 0:
		doc.Notes = []Note{{"no problems, " + count(warnings, "warning"), Open}}
	default:
		doc.Notes = []Note{{"nothing was found that would spoil a measurement", Good}}
	}
	return doc.Render(w, f)
}
