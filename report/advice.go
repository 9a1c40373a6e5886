package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/advice"
)

// WriteAdvice prints what to run. CSV holds the passes, a line for each M; JSONL is one line.
func WriteAdvice(w io.Writer, f Format, a *advice.Advice) error {
	doc := &Document{Subject: "advice", Value: a, Head: adviceHead(a)}
	doc.Sheets = []Sheet{passSheet(a), partSheet(a), chunkSheet(a), bestChunkSheet(a), captureSheet(a), skipSheet(a), settingSheet(a)}
	if len(a.Skips) == 0 {
		doc.Notes = append(doc.Notes, Note{fmt.Sprintf("no size is surely beaten by a larger one by %s or more", formatShare(a.MinGain)), Neutral})
	}
	if s := a.Skipping; s.Usual > 0 {
		doc.Notes = append(doc.Notes, Note{fmt.Sprintf("padding what is never worth running saves %s of a second of the traffic, where every known size can be run", bounds{s.Saved, fineCell}.Text()), Neutral})
	}
	for _, s := range a.Settings {
		if s.Note != "" {
			doc.Notes = append(doc.Notes, Note{fmt.Sprintf("%s, %s: %s", s.Engine, s.Advice, s.Note), Neutral})
		}
	}
	for _, warning := range a.Warnings {
		doc.Notes = append(doc.Notes, Note{warning.Text, Warned})
	}
	return doc.Render(w, f)
}

// adviceHead says what the passes are, what their times are times of, and what is advised.
func adviceHead(a *advice.Advice) []Note {
	device := a.Device
	if a.Card != "" && a.Card != a.Device {
		device += " (" + a.Card + ")"
	}
	model := a.Model
	if a.TP > 1 {
		model += fmt.Sprintf(", one of %d ranks,", a.TP)
	}
	first := fmt.Sprintf("%s in %s on %s, kernel %s: %s of m%d to m%d", model, a.DType, device, a.Kernel,
		plural(len(a.Passes), "pass", "passes"), a.Passes[0].M, a.Passes[len(a.Passes)-1].M)
	if a.ClockMHz > 0 {
		first += fmt.Sprintf(", times at %.0f MHz", a.ClockMHz)
	}
	return []Note{{first, Neutral}, coverageNote(a), {chunkText(a), Neutral}, {captureText(a), Neutral}}
}

// coverageNote says what the times are times of.
func coverageNote(a *advice.Advice) Note {
	switch a.Coverage {
	case advice.WholePass:
		return Note{fmt.Sprintf("times are of whole passes: the parts × %.2f to %.2f and a rest fitted to %s of m%d to m%d, from which they scatter by %s",
			a.Rest.FactorFrom, a.Rest.FactorTo, plural(a.Rest.Fitted, "measured pass", "measured passes"), a.Rest.FromM, a.Rest.ToM, formatShare(a.Rest.Scatter)), Neutral}
	case advice.KnownParts:
		return Note{"times are of the known parts alone; not in them: " + strings.Join(a.Missing, ", "), Open}
	}
	return Note{"times are of the swept products alone; not in them: " + strings.Join(a.Missing, ", "), Open}
}

func chunkText(a *advice.Advice) string {
	bound := ""
	if a.Chunk.LatencySeconds > 0 {
		bound = fmt.Sprintf(" within %s ms", bareMillis(a.Chunk.LatencySeconds))
	}
	if a.Chunk.M == 0 {
		return "chunk: none is surely" + bound
	}
	text := fmt.Sprintf("chunk: m%d%s, %s tokens/s", a.Chunk.M, bound, bounds{a.Chunk.TokensPerSecond, tokenRateCell}.Text())
	switch c := a.Chunk; {
	case c.OverM == c.M:
		text += "; it is a usual one"
	case c.Gains == advice.GainsNothing:
		text += fmt.Sprintf("; it gains nothing over the usual m%d", c.OverM)
	case c.Gains == advice.GainsUnsure:
		text += fmt.Sprintf("; it does not surely gain over the usual m%d", c.OverM)
	}
	return text
}

func captureText(a *advice.Advice) string {
	return fmt.Sprintf("sizes to capture (%d): %s", len(a.Sizes.Captured), advice.Text(a.Sizes.Captured))
}

// millis is a time in seconds, shown in milliseconds.
type millis float64

func (v millis) Text() string { return bareMillis(float64(v)) }
func (v millis) Raw() any     { return finite(float64(v)) }

// bareMillis prints seconds as milliseconds without the unit.
func bareMillis(seconds float64) string { return significant(1e3*seconds, 4) }

func millisCell(v float64) Cell { return millis(v) }

// tokenRate is tokens a second, whole ones where there are many.
type tokenRate float64

func (v tokenRate) Text() string { return significant(float64(v), 4) }
func (v tokenRate) Raw() any     { return finite(float64(v)) }

func tokenRateCell(v float64) Cell { return tokenRate(v) }

// passSheet has a line for each M; it is for CSV.
func passSheet(a *advice.Advice) Sheet {
	s := Sheet{Title: "Passes", Columns: []Column{
		{Key: "m", Data: true}, {Key: "seconds", Data: true, Interval: true}, {Key: "parts_seconds", Data: true}, {Key: "tokens_per_second", Data: true, Interval: true}, {Key: "inferred", Data: true},
	}}
	for _, p := range a.Passes {
		s.Rows = append(s.Rows, []any{p.M, bounds{p.Seconds, secondsCell}, p.PartsSeconds, bounds{p.TokensPerSecond, rateCell}, p.Inferred})
	}
	return s
}

func secondsCell(v float64) Cell { return number{v, 9} }
func rateCell(v float64) Cell    { return number{v, 1} }

func partSheet(a *advice.Advice) Sheet {
	s := Sheet{Title: "Parts of a pass", Columns: []Column{
		{Name: "part", Key: "part"}, {Name: "times", Key: "count", Align: Right}, {Name: "rows", Key: "rows"}, {Name: "source", Key: "source"}, {Name: "series", Key: "series"},
	}}
	for _, p := range a.Parts {
		rows, series := "all", ""
		if p.FixedM > 0 {
			rows = fmt.Sprintf("the last, as m%d", p.FixedM)
		}
		if p.Source == advice.Swept {
			series = p.Series.Text()
		}
		s.Rows = append(s.Rows, []any{p.Name(), p.Count, rows, string(p.Source), series})
	}
	return s
}

// savingColumns are those of an [advice.Saving].
func savingColumns() []Column {
	return []Column{{Name: "gain", Key: "gain", Align: Right, Interval: true}, {Name: "saved of a second", Key: "saved_seconds_per_second", Align: Right, Interval: true}}
}

func savingCells(s advice.Saving) []any {
	if s.Usual == 0 {
		return []any{nil, nil}
	}
	return []any{bounds{s.Gain, factorCell}, bounds{s.Saved, savedCell}}
}

// fineCell is a small part of a second.
func fineCell(v float64) Cell { return number{v, 4} }

// savedCell is a part of a second.
func savedCell(v float64) Cell { return saved(v) }

type saved float64

func (v saved) Text() string {
	if !isFinite(float64(v)) {
		return ""
	}
	return fmt.Sprintf("%.3f", float64(v))
}
func (v saved) Raw() any { return finite(float64(v)) }

func chunkSheet(a *advice.Advice) Sheet {
	s := Sheet{Title: "The advised chunk against usual ones", Columns: append([]Column{
		{Name: "chunk", Key: "m", Align: Right}, {Name: "ms", Key: "seconds", Align: Right, Interval: true}, {Name: "tokens/s", Key: "tokens_per_second", Align: Right, Interval: true},
	}, append(savingColumns(), Column{Name: "best up to it", Key: "best_m_up_to", Align: Right}, Column{Name: "its gain", Key: "best_gain", Align: Right, Interval: true})...)}
	for _, u := range a.Chunk.Usual {
		if !u.Known {
			s.Rows = append(s.Rows, []any{u.M, word{text: "unknown", tone: Faint}, nil, nil, nil, nil, nil})
			continue
		}
		row := append([]any{u.M, bounds{u.Seconds, millisCell}, bounds{u.TokensPerSecond, tokenRateCell}}, savingCells(u.Saving)...)
		s.Rows = append(s.Rows, append(row, unlessZero(u.BestM), bounds{u.BestGain, factorCell}))
	}
	return s
}

func bestChunkSheet(a *advice.Advice) Sheet {
	s := Sheet{Title: "Chunks with the most tokens a second", Columns: []Column{
		{Name: "chunk", Key: "m", Align: Right}, {Name: "ms", Key: "seconds", Align: Right, Interval: true}, {Name: "tokens/s", Key: "tokens_per_second", Align: Right, Interval: true},
	}}
	for _, c := range a.Chunk.Best {
		s.Rows = append(s.Rows, []any{c.M, bounds{c.Seconds, millisCell}, bounds{c.TokensPerSecond, tokenRateCell}})
	}
	return s
}

func captureSheet(a *advice.Advice) Sheet {
	s := Sheet{Title: fmt.Sprintf("The %d advised sizes against usual lists", len(a.Sizes.Captured)), Columns: append([]Column{
		{Name: "list", Key: "list"}, {Name: "sizes", Key: "sizes", Align: Right}, {Name: "unknown", Key: "unknown", Align: Right},
		{Name: "traffic compared", Key: "traffic_covered", Align: Right}, {Name: "ms a batch", Key: "usual_seconds", Align: Right}, {Name: "advised", Key: "advised_seconds", Align: Right},
	}, savingColumns()...)}
	for _, x := range a.Sizes.Against {
		row := []any{x.Name, len(x.Captured), unlessZero(len(x.Unknown)), share(x.Covered), nil, nil}
		if x.Usual > 0 {
			row[4], row[5] = millis(x.Usual), millis(x.Advised)
		}
		s.Rows = append(s.Rows, append(row, savingCells(x.Saving)...))
	}
	return s
}

func skipSheet(a *advice.Advice) Sheet {
	s := Sheet{Title: "Never worth running", Columns: []Column{
		{Name: "m", Key: "m", Align: Right}, {Name: "run", Key: "run_m", Align: Right}, {Name: "ms", Key: "seconds", Align: Right}, {Name: "as that", Key: "run_seconds", Align: Right},
		{Name: "gain", Key: "gain", Align: Right, Interval: true}, {Name: "adjusted p", Key: "p_adjusted", Align: Right},
	}}
	for _, x := range a.Skips {
		s.Rows = append(s.Rows, []any{x.M, x.RunM, millis(x.Seconds), millis(x.Run), bounds{x.Gain, factorCell}, probability(x.AdjustedP)})
	}
	return s
}

func settingSheet(a *advice.Advice) Sheet {
	s := Sheet{Title: "Settings", Columns: []Column{{Name: "engine", Key: "engine"}, {Name: "advice", Key: "advice"}, {Name: "gains", Key: "gains"}, {Name: "where", Key: "form"}, {Name: "setting", Key: "text"}}}
	for _, x := range a.Settings {
		for i, line := range strings.Split(x.Text, "\n") {
			row := []any{x.Engine, x.Advice, string(x.Gains), x.Form, code(line)}
			if i > 0 {
				row = []any{"", "", "", "", code(line)}
			}
			s.Rows = append(s.Rows, row)
		}
	}
	return s
}

// interval is a rules.Interval in other units.
func interval(v rules.Interval, factor float64) rules.Interval {
	return rules.Interval{Lo: v.Lo * factor, Mid: v.Mid * factor, Hi: v.Hi * factor}
}
