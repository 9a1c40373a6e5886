package report

import (
	"fmt"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/rules"
)

func launchDiffersNotes(a *rules.Audit) []Note {
	if len(a.LaunchDiffers) == 0 {
		return nil
	}
	return []Note{Notef(Open,
		"launch-differs: %s ran another kernel, tile or split than predicted: rows inferred from choices may be "+"wrong there",
		Count(len(a.LaunchDiffers), "row"))}
}

var launchFields = field.Of([]field.Field[rules.LaunchDiffers]{
	{Name: "series", Head: "series", JSON: "-", Words: seriesWords, Value: func(d rules.LaunchDiffers) any { return seriesCell(d.Series) }},
	{Name: "m", Head: "m", Kind: field.Count, Words: rowMWords},
	{Name: "told", Head: "foretold", JSON: "-", Flex: true, Words: "the predicted launch",
		Value: func(d rules.LaunchDiffers) any { return launchText(d.Told.Label, d.Told.Tile, d.Told.Split) }},
	{Name: "ran", Head: "ran", JSON: "-", Flex: true, Words: "the launch that ran",
		Value: func(d rules.LaunchDiffers) any { return launchText(d.Label, d.Launch.Tile, d.Launch.Split) }},
})

func launchDiffersSheet(a *rules.Audit, all bool) Sheet {
	shown, title := a.LaunchDiffers, "Launches that differ from the prediction"
	if n := len(shown); n > pageFindings && !all {
		shown = shown[:pageFindings]
		title += fmt.Sprintf(": the first %d of %d", pageFindings, n)
	}
	return sheetOf(title, launchFields, shown)
}

// launchText names the known properties of a launch: "nvjet_128x256 tile 256x128 split 2".
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

// tileText is "128x256x64", M by N by K, without K if it is unknown.
func tileText(tile [3]int) string {
	switch {
	case tile[0] < 1 || tile[1] < 1:
		return ""
	case tile[2] < 1:
		return fmt.Sprintf("%dx%d", tile[0], tile[1])
	}
	return fmt.Sprintf("%dx%dx%d", tile[0], tile[1], tile[2])
}

func (p *page) launchDiffers(a *rules.Audit) {
	if len(a.LaunchDiffers) == 0 {
		return
	}
	sheet := launchDiffersSheet(a, false)
	p.add(section{heading: "Launches that differ from the prediction", sheet: &sheet, folded: true, full: "findings.json", text: []string{
		"These rows ran another kernel, tile or split than the library reported before timing."}})
}
