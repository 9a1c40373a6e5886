package report

import (
	"fmt"
	"io"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
)

// RunFile is what an import or a merge left behind.
type RunFile struct {
	// Action is "imported" or "merged".
	Action string `json:"action"`
	Path   string `json:"path"`
	// Sources are the files that were read.
	Sources  []RunSource         `json:"sources"`
	Series   []results.SeriesKey `json:"series"`
	Cases    int                 `json:"cases"`
	Samples  int                 `json:"samples"`
	Failures int                 `json:"failures"`
	// Files say of each imported file what it was recognized as and which rows were left out.
	Files []results.Imported `json:"files,omitempty"`
	// Labels are those of the new run.
	Labels   results.Labels  `json:"labels,omitempty"`
	Warnings []rules.Warning `json:"warnings,omitempty"`
}

// RunSource is one file that went in.
type RunSource struct {
	Path    string `json:"path"`
	Cases   int    `json:"cases"`
	Samples int    `json:"samples"`
	// Note says what is special: "12 samples were already there".
	Note string `json:"note,omitempty"`
}

// WriteRunFile prints the summary of an import or a merge.
func WriteRunFile(w io.Writer, f Format, r *RunFile) error {
	doc := &Document{Subject: r.Action + " run", Value: r, Items: []any{}}
	sheet := Sheet{Columns: []Column{
		{Name: "source", Key: "source"}, {Name: "cases", Key: "cases", Align: Right}, {Name: "samples", Key: "samples", Align: Right}, {Name: "note", Key: "note", Flex: true},
	}}
	for _, s := range r.Sources {
		doc.Items = append(doc.Items, s)
		sheet.Rows = append(sheet.Rows, []any{code(s.Path), s.Cases, s.Samples, s.Note})
	}
	series := Sheet{Columns: []Column{{Name: "series", Key: "series"}}}
	for _, k := range r.Series {
		series.Rows = append(series.Rows, []any{seriesCell(k)})
	}
	doc.Sheets = []Sheet{sheet, series}
	line := fmt.Sprintf("%s into %s: %s, %s, %s", r.Action, r.Path, count(len(r.Series), "series"), count(r.Cases, "case"), count(r.Samples, "sample"))
	if r.Failures > 0 {
		line += ", " + count(r.Failures, "failed case")
	}
	if len(r.Labels) > 0 {
		line += "; labels: " + r.Labels.String()
	}
	doc.Notes = append([]Note{{line, Good}}, fileNotes(r.Files)...)
	doc.Notes = append(doc.Notes, warningNotes(r.Warnings)...)
	return doc.Render(w, f)
}

// mostReasons is how many reasons of a file are printed; JSON has all.
const mostReasons = 10

// fileNotes say what was recognized, and how many rows were left out for which reason.
func fileNotes(files []results.Imported) []Note {
	var out []Note
	for _, f := range files {
		left := 0
		for _, l := range f.LeftOut {
			left += l.Rows
		}
		line := fmt.Sprintf("%s: format %s, %s taken", f.Path, f.Format, count(f.Rows, "row"))
		if left == 0 {
			out = append(out, Note{Text: line})
			continue
		}
		out = append(out, Note{fmt.Sprintf("%s, %d left out", line, left), Open})
		for _, l := range f.LeftOut[:min(mostReasons, len(f.LeftOut))] {
			out = append(out, Note{fmt.Sprintf("  %s left out, the first in line %d: %s", count(l.Rows, "row"), l.Line, l.Reason), Open})
		}
	}
	return out
}

// WriteFormats prints the formats that an import reads.
func WriteFormats(w io.Writer, f Format, formats []results.ImportFormat) error {
	doc := &Document{Subject: "formats", Value: formats, Items: []any{}}
	sheet := Sheet{Columns: []Column{
		{Name: "format", Key: "format"}, {Name: "holds", Key: "holds"}, {Name: "written by", Key: "written_by"}, {Name: "reads", Key: "reads"},
		{Name: "leaves out", Key: "leaves_out", Flex: true},
	}}
	for _, x := range formats {
		doc.Items = append(doc.Items, x)
		sheet.Rows = append(sheet.Rows, []any{code(x.Name), x.Holds, x.WrittenBy, x.Reads, x.LeavesOut})
	}
	doc.Sheets = []Sheet{sheet}
	return doc.Render(w, f)
}
