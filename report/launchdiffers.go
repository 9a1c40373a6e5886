package report

import (
	"fmt"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/rules"
)

func launchDiffersNotes(a *rules.Audit) (out []Note) {
	if n := len(launchesThat(a, false)); n > 0 {
		out = append(out, Notef(Open,
			"launch-differs: %s ran another kernel, tile or split than predicted: rows inferred from choices may be wrong there",
			Count(n, "row")))
	}
	if n := len(launchesThat(a, true)); n > 0 {
		out = append(out, Notef(Open, "launch-differs: %s changed during the run, so samples of one row are of several kernels",
			Count(n, "launch")))
	}
	return out
}

// launchesThat returns the launches that changed during the run, or else those that differ from the prediction.
func launchesThat(a *rules.Audit, changed bool) []rules.LaunchDiffers {
	var out []rules.LaunchDiffers
	for _, d := range a.LaunchDiffers {
		if d.Changed() == changed {
			out = append(out, d)
		}
	}
	return out
}

var launchFields = field.Of([]field.Field[rules.LaunchDiffers]{
	{Name: "series", Head: "series", JSON: "-", Words: seriesWords, Value: func(d rules.LaunchDiffers) any { return seriesCell(d.Series) }},
	{Name: "m", Head: "m", Kind: field.Count, Words: rowMWords},
	{Name: "told", Head: "foretold", JSON: "-", Flex: true, Words: "the predicted launch",
		Value: func(d rules.LaunchDiffers) any { return launchText(d.Told.Label, d.Told.Tile, d.Told.Split) }},
	{Name: "ran", Head: "ran", JSON: "-", Flex: true, Words: "the launch that ran",
		Value: func(d rules.LaunchDiffers) any { return launchText(d.Label, d.Launch.Tile, d.Launch.Split) }},
})

var changedFields = field.Of([]field.Field[rules.LaunchDiffers]{
	{Name: "series", Head: "series", JSON: "-", Words: seriesWords, Value: func(d rules.LaunchDiffers) any { return seriesCell(d.Series) }},
	{Name: "m", Head: "m", Kind: field.Count, Words: rowMWords},
	{Name: "told", Head: "first", JSON: "-", Flex: true, Words: "the first launch of the row",
		Value: func(d rules.LaunchDiffers) any { return launchText(d.Told.Label, d.Told.Tile, d.Told.Split) }},
	{Name: "ran", Head: "later", JSON: "-", Flex: true, Words: "the other launch",
		Value: func(d rules.LaunchDiffers) any { return launchText(d.Label, d.Launch.Tile, d.Launch.Split) }},
	{Name: "since", Head: "since", JSON: "-", Words: "phase and round of the other launch's first sample",
		Value: func(d rules.LaunchDiffers) any { return fmt.Sprintf("%s %d", d.Phase, d.Round) }},
})

const (
	differTitle = "Launches that differ from the prediction"
	changeTitle = "Launches that changed during the run"
)

// launchSheets lists the launches that differ from the prediction, and those that changed.
func launchSheets(a *rules.Audit, all bool) []Sheet {
	sheet := func(title string, fields []field.Field[rules.LaunchDiffers], shown []rules.LaunchDiffers) Sheet {
		if n := len(shown); n > pageFindings && !all {
			shown = shown[:pageFindings]
			title += fmt.Sprintf(": the first %d of %d", pageFindings, n)
		}
		return sheetOf(title, fields, shown)
	}
	return []Sheet{sheet(differTitle, launchFields, launchesThat(a, false)), sheet(changeTitle, changedFields, launchesThat(a, true))}
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
	sheets := launchSheets(a, false)
	for i, s := range []struct{ heading, text string }{
		{differTitle, "These rows ran another kernel, tile or split than the library reported before timing."},
		{changeTitle, "These rows ran another kernel, tile or split in a later round, or when they were confirmed, than at first. " +
			"Their times are of several kernels."},
	} {
		if len(launchesThat(a, i == 1)) > 0 {
			p.add(section{heading: s.heading, sheet: &sheets[i], folded: true, full: "findings.json", text: []string{s.text}})
		}
	}
}
