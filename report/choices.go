package report

import (
	"fmt"
	"io"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/field"
)

// ChoicesSchema is the value of Choices.Schema.
const ChoicesSchema = "gemmaudit.choices/1"

// Choices holds the launches that kernels report for ranges of M, without running them.
type Choices struct {
	Schema string `json:"schema"`
	// Run is the run file that stores the choices, empty if they were just queried.
	Run    string          `json:"run,omitempty"`
	Series []SeriesChoices `json:"series"`
	// Untold lists the series whose choices are missing or incomplete.
	Untold []UntoldChoices `json:"untold,omitempty"`
}

type SeriesChoices struct {
	Series results.SeriesKey `json:"series"`
	// Asked is the number of Ms queried; 0 means unknown.
	Asked int `json:"asked,omitempty"`
	// Kinds is the number of different launches.
	Kinds     int             `json:"kinds"`
	Stretches []ChoiceStretch `json:"stretches"`
}

// ChoiceStretch is a range of queried Ms with one launch.
type ChoiceStretch struct {
	results.Stretch
	// WavesFrom and WavesTo are the waves (tiles over the device's capacity) at both ends; 0 means unknown.
	WavesFrom float64 `json:"waves_from,omitempty"`
	WavesTo   float64 `json:"waves_to,omitempty"`
}

// UntoldChoices is a series with missing choices, and the reason.
type UntoldChoices struct {
	Series results.SeriesKey `json:"series"`
	Reason string            `json:"reason"`
}

// NewChoices arranges the choices in told. asked holds the queried Ms by series, untold the reasons for
// missing choices; either may be nil.
func NewChoices(run string, told map[results.SeriesKey]results.Choices, asked map[results.SeriesKey][]int,
	untold map[results.SeriesKey]string) *Choices {
	c := &Choices{Schema: ChoicesSchema, Run: run, Series: []SeriesChoices{}}
	for _, key := range results.ChosenSeries(told) {
		s := SeriesChoices{Series: key, Asked: len(asked[key]), Stretches: []ChoiceStretch{}}
		kinds := map[results.LaunchKind]bool{}
		for _, stretch := range told[key] {
			kinds[stretch.Kind] = true
			s.Stretches = append(s.Stretches, ChoiceStretch{
				Stretch: stretch, WavesFrom: stretch.Kind.Waves(stretch.From, key.N), WavesTo: stretch.Kind.Waves(stretch.To, key.N),
			})
		}
		s.Kinds = len(kinds)
		c.Series = append(c.Series, s)
	}
	reasons := map[results.SeriesKey]results.Choices{}
	for key := range untold {
		reasons[key] = nil
	}
	for _, key := range results.ChosenSeries(reasons) {
		c.Untold = append(c.Untold, UntoldChoices{key, untold[key]})
	}
	return c
}

var seriesChoicesFields = field.Of([]field.Field[SeriesChoices]{
	seriesColumn(func(s SeriesChoices) results.SeriesKey { return s.Series }),
	{Name: "asked", Head: "batches", Kind: field.Count, JSON: "-", Words: "Ms that were asked about",
		Value: func(s SeriesChoices) any { return unlessZero(s.Asked) }},
	{Name: "stretches", Head: "stretches", Kind: field.Count, JSON: "-", Words: "stretches of M with one launch each",
		Value: func(s SeriesChoices) any { return len(s.Stretches) }},
	{Name: "kinds", Head: "launches", Kind: field.Count, Words: "different launches"},
})

var untoldFields = field.Of([]field.Field[UntoldChoices]{
	seriesColumn(func(u UntoldChoices) results.SeriesKey { return u.Series }),
	{Name: "reason", Head: "reason", Flex: true, Words: "why nothing was told"},
})

// WriteChoices prints the launches. JSONL and CSV hold one range of M a line.
func WriteChoices(w io.Writer, f Format, c *Choices) error {
	doc := &Document{Subject: "choices", Value: c, Items: []any{}}
	sheet := Sheet{Title: "What would run", Columns: slices.Concat(seriesColumns(), []Column{
		{Name: "series", Key: "series", Hoist: true}, {Name: "m from", Key: "from_m", Align: Right},
		{Name: "to", Key: "to_m", Align: Right}}, kindColumns("", ""), []Column{
		{Name: "waves from", Key: "waves_from", Align: Right}, {Name: "to", Key: "waves_to", Align: Right},
	})}
	for _, s := range c.Series {
		for _, x := range s.Stretches {
			doc.Items = append(doc.Items, struct {
				Series results.SeriesKey `json:"series"`
				ChoiceStretch
			}{s.Series, x})
			row := append(seriesCells(s.Series), seriesCell(s.Series), x.From, x.To)
			row = append(append(row, kindCells(x.Kind)...), waves(x.WavesFrom), waves(x.WavesTo))
			sheet.Rows = append(sheet.Rows, row)
		}
	}
	doc.Sheets = []Sheet{sheet, sheetOf("Series", seriesChoicesFields, c.Series), sheetOf("Not told", untoldFields, c.Untold)}
	if len(c.Series) == 0 {
		doc.Notes = []Note{{"no kernel reported its choices", Open}}
	}
	return doc.Render(w, f)
}

func seriesColumns() []Column {
	return []Column{{Key: "device", Data: true}, {Key: "kernel", Data: true}, {Key: "dtype", Data: true}, {Key: "n", Data: true},
		{Key: "k", Data: true}, {Key: "layout", Data: true}}
}

func seriesCells(k results.SeriesKey) []any {
	return []any{k.Device, k.Kernel, string(k.DType), k.N, k.K, k.Layout.String()}
}

func kindColumns(name, key string) []Column {
	return []Column{
		{Name: name + "label", Key: key + "label", Flex: true}, {Name: name + "tile", Key: key + "tile"},
		{Name: name + "split", Key: key + "split", Align: Right},
		{Name: name + "stages", Key: key + "stages", Align: Right}, {Name: name + "cluster", Key: key + "cluster"},
		{Name: name + "orientation", Key: key + "orientation", Wide: true},
		{Name: name + "tiles at a time", Key: key + "slots", Align: Right, Wide: true},
	}
}

func kindCells(k results.LaunchKind) []any {
	cluster := ""
	if k.Cluster[0] > 0 {
		cluster = fmt.Sprintf("%dx%dx%d", k.Cluster[0], max(1, k.Cluster[1]), max(1, k.Cluster[2]))
	}
	var slots any
	if k.Slots > 0 {
		slots = number{k.Slots, 0}
	}
	return []any{k.Label, tileText(k.Tile), unlessZero(k.Split), unlessZero(k.Stages), cluster, k.Orientation, slots}
}

func waves(w float64) any {
	if w == 0 {
		return nil
	}
	return number{w, 2}
}
