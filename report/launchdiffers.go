package report

import (
	"fmt"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules"
)

// launchDiffersNotes count the rows that ran something else than was foretold.
func launchDiffersNotes(a *rules.Audit) []Note {
	if len(a.LaunchDiffers) == 0 {
		return nil
	}
	return []Note{{fmt.Sprintf("launch-differs: %s ran another kernel, tile or split than was foretold without timing: what is inferred from choices may be wrong there",
		count(len(a.LaunchDiffers), "row")), Open}}
}

// launchDiffersSheet lists these rows, the first of them unless all are wanted.
func launchDiffersSheet(a *rules.Audit, all bool) Sheet {
	sheet := Sheet{Title: "Launches that differ from what was foretold", Columns: []Column{
		{Name: "series", Key: "series"}, {Name: "m", Key: "m", Align: Right}, {Name: "foretold", Key: "told", Flex: true}, {Name: "ran", Key: "ran", Flex: true},
	}}
	for i, d := range a.LaunchDiffers {
		if i == pageFindings && !all {
			sheet.Title += fmt.Sprintf(": the first %d of %d", pageFindings, len(a.LaunchDiffers))
			break
		}
		sheet.Rows = append(sheet.Rows, []any{seriesCell(d.Series), d.M, launchText(d.Told.Label, d.Told.Tile, d.Told.Split), launchText(d.Label, d.Launch.Tile, d.Launch.Split)})
	}
	return sheet
}

// launchText names what is known of a launch, "nvjet_128x256 tile 256x128 split 2".
func launchText(label string, tile [3]int, split int) string {
	words := []string{}
	if label != "" {
		words = append(words, label)
	}
	if (kernels.Tiling{Tile: tile}).Tiled() {
		words = append(words, "tile "+tileText(tile))
	}
	if split > 1 {
		words = append(words, fmt.Sprintf("split %d", split))
	}
	return strings.Join(words, " ")
}

// tileText is "128x256x64", M by N by K; K is left out where it is not known.
func tileText(tile [3]int) string {
	switch {
	case tile[0] < 1 || tile[1] < 1:
		return ""
	case tile[2] < 1:
		return fmt.Sprintf("%dx%d", tile[0], tile[1])
	}
	return fmt.Sprintf("%dx%dx%d", tile[0], tile[1], tile[2])
}

// launchDiffers is the section of a report with these rows.
func (p *page) launchDiffers(a *rules.Audit) {
	if len(a.LaunchDiffers) == 0 {
		return
	}
	sheet := launchDiffersSheet(a, false)
	p.add(section{heading: "Launches that differ from what was foretold", sheet: &sheet, folded: true, full: "findings.json", text: []string{
		"Before anything was timed the kernels were asked what they would run. These rows ran something else."}})
}
