package report

import (
	"context"
	"io"
	"slices"

	"github.com/gemmaudit/gemmaudit/rules/fleet"
)

// WriteFleetFolder writes a fleet's folder at dir: index.html with a heatmap of card × case, report.md,
// fleet.json and cards.csv. It has the guarantees of [Write].
func WriteFleetFolder(ctx context.Context, dir string, r *fleet.Result) error {
	return writeFolder(dir, func(tmp string) error {
		return writeFiles(ctx, tmp, []folderFile{
			{"index.html", func(w io.Writer) error { return newFleetPage(r).fleetHTML(w, newFleetData(r)) }},
			{"report.md", func(w io.Writer) error { return WriteFleet(w, Markdown, r) }},
			{"fleet.json", func(w io.Writer) error { return writeJSON(w, r) }},
			{"cards.csv", func(w io.Writer) error { return WriteFleet(w, CSV, r) }},
		})
	})
}

func newFleetPage(r *fleet.Result) *page {
	p := &page{title: "GEMM audit of a fleet"}
	p.summary = slices.Concat(fleetSentences(r), fleetWarnings(r), fleetMethod(r))
	named, cases, confounds, groups, remedies := fleetCardSheet(r, false), slowCaseSheet(r), confoundSheet(r), groupSheet(r), remedySheet(r)
	for _, s := range []struct {
		sheet  *Sheet
		folded bool
	}{{&named, false}, {&cases, true}, {&confounds, false}, {&groups, false}, {&remedies, false}} {
		if len(s.sheet.Rows) == 0 {
			continue
		}
		heading := s.sheet.Title
		switch s.sheet {
		case &named:
			heading = "Cards to drain or to watch"
		case &cases:
			heading = "Their slowest cases"
		}
		s.sheet.Title = ""
		p.add(section{heading: heading, sheet: s.sheet, limit: pageRows, full: "cards.csv", folded: s.folded})
	}
	return p
}
