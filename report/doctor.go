package report

import (
	"io"
	"slices"

	"github.com/gemmaudit/gemmaudit/results/field"
)

// Health is one possible disturbance of measurements.
type Health struct {
	Name string `json:"name"`
	// Level is "ok", "warning", "problem" or "unknown".
	Level string `json:"level"`
	// Found is the observed value: "powersave".
	Found string `json:"found"`
	// Hint says how to fix it; empty for "ok".
	Hint string `json:"hint,omitempty"`
	// Consequence marks the finding on what all the others lead to; the verdict begins with it.
	Consequence bool `json:"-"`
}

var healthFields = field.Of([]field.Field[Health]{
	{Name: "check", Head: "check", JSON: "name", Words: "the setting or fact that was looked at"},
	{Name: "state", Head: "state", JSON: "level", Words: "ok, warning, problem or unknown",
		Value: func(h Health) any { return word{h.Level, h.tone()} }},
	{Name: "found", Head: "found", Flex: true, Words: "what was seen"},
	{Name: "hint", Head: "hint", Flex: true, Words: "what to do about it"},
})

func (h Health) tone() Tone {
	switch h.Level {
	case "ok":
		return Good
	case "warning":
		return Open
	case "problem":
		return Bad
	}
	return Faint
}

// WriteDoctor prints the conditions on this machine that disturb measurements.
func WriteDoctor(w io.Writer, f Format, findings []Health) error {
	if findings == nil {
		findings = []Health{}
	}
	doc := &Document{Subject: "health", Items: items(findings), Value: struct {
		Checks []Health `json:"checks"`
	}{findings}}
	counts := map[string]int{}
	for _, h := range findings {
		counts[h.Level]++
	}
	doc.Sheets = []Sheet{sheetOf("", healthFields, findings)}
	verdict := Note{"found no source of noise", Good}
	switch problems, warnings := counts["problem"], counts["warning"]; {
	case problems > 0:
		verdict = Note{Count(problems, "problem") + ", " + Count(warnings, "warning"), Bad}
	case warnings > 0:
		verdict = Note{Count(warnings, "warning"), Open}
	}
	if i := slices.IndexFunc(findings, func(h Health) bool { return h.Consequence && h.Level != "ok" }); i >= 0 {
		verdict.Text = findings[i].Found + " (" + verdict.Text + ")"
	}
	doc.Notes = []Note{verdict}
	return doc.Render(w, f)
}
