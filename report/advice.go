package report

import (
	"fmt"
	"io"

	"github.com/gemmaudit/gemmaudit/rules/advice"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// WriteAdvice prints the sizes to run, beginning with sentences. CSV holds one pass (one M) a line; JSONL is
// a single line.
func WriteAdvice(w io.Writer, f Format, a *advice.Advice) error {
	doc := &Document{Subject: "advice", Value: a, Head: adviceSentences(a)}
	doc.Sheets = []Sheet{
		sheetOf("Passes", passFields, a.Passes), // a line for each M, in CSV only
		sheetOf("Parts of a pass", partFields, a.Parts),
		sheetOf("The advised chunk compared with usual ones", usualChunkFields, a.Chunk.Usual),
		sheetOf("Chunks with the most tokens a second", chunkSizeFields, a.Chunk.Best),
		sheetOf(fmt.Sprintf("The %d advised sizes compared with usual lists; gain allows for noise in choosing them",
			len(a.Sizes.Captured)), sizesFields, a.Sizes.Against),
		sheetOf("Never worth running", skipFields, a.Skips),
		settingSheet(a),
	}
	if len(a.Skips) == 0 {
		doc.Note(Neutral, "no size is known to be slower than a larger one by %s or more", FormatShare(a.MinGain))
	}
	if s := a.Skipping; s.Usual > 0 && (bounds{s.Saved, numbers(4)}).Text() != "" {
		doc.Note(Neutral, "padding sizes never worth running saves %s of a second of traffic, if every known size can be run",
			bounds{s.Saved, numbers(4)}.Text())
	}
	for _, s := range a.Settings {
		if s.Note != "" {
			doc.Note(Neutral, "%s, %s: %s", s.Engine, s.Advice, s.Note)
		}
	}
	for _, warning := range a.Warnings {
		doc.Notes = append(doc.Notes, Note{warning.Text, Warned})
	}
	if f == Wide {
		doc.Notes = append(doc.Notes, adviceMethod(a)...)
	}
	return doc.Render(w, f)
}

func adviceMethod(a *advice.Advice) []Note {
	var notes []Note
	if a.ClockMHz > 0 {
		notes = append(notes, Notef(Faint, "times are those at %.0f MHz", a.ClockMHz))
	}
	if a.Rest != nil {
		notes = append(notes,
			Notef(Faint, "a whole pass is the parts × %.2f to %.2f plus a rest fitted to %s of m%d to m%d, with residuals of %s",
				a.Rest.FactorFrom, a.Rest.FactorTo, Plural(a.Rest.Fitted, "measured pass", "measured passes"), a.Rest.FromM, a.Rest.ToM,
				FormatShare(a.Rest.Scatter)))
	}
	return notes
}

func bareMillis(seconds float64) string { return Significant(1e3*seconds, 4) }

func interval(v stats.Interval, factor float64) stats.Interval {
	return stats.Interval{Lo: v.Lo * factor, Mid: v.Mid * factor, Hi: v.Hi * factor}
}
