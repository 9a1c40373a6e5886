package report

import (
	"fmt"
	"io"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
)

// ChoicesSchema is the value of Choices.Schema.
const ChoicesSchema = "gemmaudit.choices/1"

// Choices are what kernels say that they would run, as stretches of M.
type Choices struct {
	Schema string `json:"schema"`
	// Run is the run file that keeps them, empty where they were just told.
	Run    string          `json:"run,omitempty"`
	Series []SeriesChoices `json:"series"`
	// Untold are the series of which nothing was told, or not all.
	Untold []UntoldChoices `json:"untold,omitempty"`
}

// SeriesChoices are the stretches of one series.
type SeriesChoices struct {
	Series results.SeriesKey `json:"series"`
	// Asked is how many Ms were asked about; 0 where that is not known.
	Asked int `json:"asked,omitempty"`
	// Kinds is how many different launches there are.
	Kinds     int             `json:"kinds"`
	Stretches []ChoiceStretch `json:"stretches"`
}

// ChoiceStretch is a run of asked Ms for which one launch is told.
type ChoiceStretch struct {
	results.Stretch
	// WavesFrom and WavesTo are how often the tiles fill the device at both ends; 0 unknown.
	WavesFrom float64 `json:"waves_from,omitempty"`
	WavesTo   float64 `json:"waves_to,omitempty"`
}

// UntoldChoices is a series of which something was not told, and why.
type UntoldChoices struct {
	Series results.SeriesKey `json:"series"`
	Reason string            `json:"reason"`
}

// NewChoices arranges what was told. asked are the Ms that were asked about, by series, and
// untold says why nothing was told of others; either may be nil.
func NewChoices(run string, told map[results.SeriesKey]results.Choices, asked map[results.SeriesKey][]int, untold map[results.SeriesKey]string) *Choices {
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

// WriteChoices prints what would run. JSONL and CSV hold one stretch a line.
func WriteChoices(w io.Writer, f Format, c *Choices) error {
	doc := &Document{Subject: "choices", Value: c, Items: []any{}}
	sheet := Sheet{Title: "What would run", Columns: slices.Concat(seriesColumns(), []Column{
		{Name: "series", Key: "series", Hoist: true}, {Name: "m from", Key: "from_m", Align: Right}, {Name: "to", Key: "to_m", Align: Right}}, kindColumns("", ""), []Column{
		{Name: "waves from", Key: "waves_from", Align: Right}, {Name: "to", Key: "waves_to", Align: Right},
	})}
	summary := Sheet{Title: "Series", Columns: []Column{
		{Name: "series", Key: "series"}, {Name: "batches", Key: "asked", Align: Right}, {Name: "stretches", Key: "stretches", Align: Right}, {Name: "launches", Key: "kinds", Align: Right},
	}}
	for _, s := range c.Series {
		summary.Rows = append(summary.Rows, []any{seriesCell(s.Series), unlessZero(s.Asked), len(s.Stretches), s.Kinds})
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
	untold := Sheet{Title: "Not told", Columns: []Column{{Name: "series", Key: "series"}, {Name: "reason", Key: "reason", Flex: true}}}
	for _, u := range c.Untold {
		untold.Rows = append(untold.Rows, []any{seriesCell(u.Series), u.Reason})
	}
	doc.Sheets = []Sheet{sheet, summary, untold}
	if len(c.Series) == 0 {
		doc.Notes = []Note{{"nothing was told of what would run", Open}}
	}
	return doc.Render(w, f)
}

// seriesColumns and seriesCells name a series field by field, for CSV.
func seriesColumns() []Column {
	return []Column{{Key: "device", Data: true}, {Key: "kernel", Data: true}, {Key: "dtype", Data: true}, {Key: "n", Data: true}, {Key: "k", Data: true}, {Key: "layout", Data: true}}
}

func seriesCells(k results.SeriesKey) []any {
	return []any{k.Device, k.Kernel, string(k.DType), k.N, k.K, k.Layout.String()}
}

// kindColumns and kindCells are a launch; of several in one table each has a prefix.
func kindColumns(name, key string) []Column {
	return []Column{
		{Name: name + "label", Key: key + "label", Flex: true}, {Name: name + "tile", Key: key + "tile"}, {Name: name + "split", Key: key + "split", Align: Right},
		{Name: name + "stages", Key: key + "stages", Align: Right}, {Name: name + "cluster", Key: key + "cluster"},
		{Name: name + "orientation", Key: key + "orientation", Wide: true}, {Name: name + "tiles at a time", Key: key + "slots", Align: Right, Wide: true},
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

// waves are a number with two decimals, nothing where they are not known.
func waves(w float64) any {
	if w == 0 {
		return nil
	}
	return number{w, 2}
}
