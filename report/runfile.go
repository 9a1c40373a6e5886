package report

import (
	"fmt"
	"io"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/results/importing"
	"github.com/gemmaudit/gemmaudit/rules"
)

// RunFile is the result of an import or a merge.
type RunFile struct {
	// Action is "imported" or "merged".
	Action string `json:"action"`
	Path   string `json:"path"`
	// Sources are the input files.
	Sources  []RunSource         `json:"sources"`
	Series   []results.SeriesKey `json:"series"`
	Cases    int                 `json:"cases"`
	Samples  int                 `json:"samples"`
	Failures int                 `json:"failures"`
	// Files holds the recognized format of each imported file and the skipped rows.
	Files []importing.Imported `json:"files,omitempty"`
	// Labels are the labels of the new run.
	Labels   results.Labels  `json:"labels,omitempty"`
	Warnings []rules.Warning `json:"warnings,omitempty"`
}

// RunSource is one input file.
type RunSource struct {
	Path    string `json:"path"`
	Cases   int    `json:"cases"`
	Samples int    `json:"samples"`
	// Note is a remark on the file: "12 samples were already there".
	Note string `json:"note,omitempty"`
}

var sourceFields = field.Of([]field.Field[RunSource]{
	{Name: "source", Head: "source", JSON: "path", Words: "the file that was read", Value: func(s RunSource) any { return code(s.Path) }},
	{Name: "cases", Head: "cases", Kind: field.Count, Words: "its cases"},
	{Name: "samples", Head: "samples", Kind: field.Count, Words: "its samples"},
	{Name: "note", Head: "note", JSON: "-", Flex: true, Words: "what is special", Value: func(s RunSource) any { return s.Note }},
})

// WriteRunFile prints the summary of an import or a merge.
func WriteRunFile(w io.Writer, f Format, r *RunFile) error {
	doc := &Document{Subject: r.Action + " run", Value: r, Items: items(r.Sources)}
	doc.Sheets = []Sheet{sheetOf("", sourceFields, r.Sources), seriesList(r.Series)}
	line := fmt.Sprintf("%s into %s: %s, %s, %s", r.Action, r.Path, Count(len(r.Series), "series"), Count(r.Cases, "case"),
		Count(r.Samples, "sample"))
	if r.Failures > 0 {
		line += ", " + Count(r.Failures, "failed case")
	}
	if len(r.Labels) > 0 {
		line += "; labels: " + r.Labels.String()
	}
	doc.Notes = append([]Note{{line, Good}}, fileNotes(r.Files)...)
	doc.Notes = append(doc.Notes, warningNotes(r.Warnings)...)
	return doc.Render(w, f)
}

// mostReasons is the number of reasons printed per file; JSON has all.
const mostReasons = 10

func fileNotes(files []importing.Imported) []Note {
	var out []Note
	for _, f := range files {
		line := Notef(Neutral, "%s: format %s, %s taken", f.Path, f.Format, Count(f.Rows, "row"))
		left := 0
		for _, l := range f.LeftOut {
			left += l.Rows
		}
		if left > 0 {
			line.Text, line.Tone = fmt.Sprintf("%s, %d left out", line.Text, left), Open
		}
		if f.Repeated > 0 {
			line.Text += fmt.Sprintf("; %d of them more samples of a size", f.Repeated)
		}
		out = append(out, line)
		for _, l := range f.LeftOut[:min(mostReasons, len(f.LeftOut))] {
			out = append(out, Notef(Open, "  %s left out, the first in line %d: %s", Count(l.Rows, "row"), l.Line, l.Reason))
		}
		if f.LayoutAssumed {
			out = append(out,
				Note{Text: f.Path + ": weights are taken as [K,N], as in torch.mm; for torch.nn.Linear, import with --layout nk"})
		}
	}
	return out
}

var formatFields = field.Of([]field.Field[importing.Format]{
	{Name: "format", Head: "format", JSON: "-", Words: "its name", Value: func(f importing.Format) any { return code(f.Name) }},
	{Name: "holds", Head: "holds", JSON: "-", Words: "the records of such a file",
		Value: func(f importing.Format) any { return f.Holds }},
	{Name: "written_by", Head: "written by", JSON: "-", Words: "programs that write it",
		Value: func(f importing.Format) any { return f.WrittenBy }},
	{Name: "reads", Head: "reads", JSON: "-", Words: "the columns that are read",
		Value: func(f importing.Format) any { return f.Reads }},
	{Name: "leaves_out", Head: "leaves out", JSON: "-", Flex: true, Words: "the skipped rows",
		Value: func(f importing.Format) any { return f.LeavesOut }},
})

// WriteFormats prints the formats that an import reads.
func WriteFormats(w io.Writer, f Format, formats []importing.Format) error {
	doc := &Document{Subject: "formats", Value: formats, Items: items(formats)}
	doc.Sheets = []Sheet{sheetOf("", formatFields, formats)}
	return doc.Render(w, f)
}
