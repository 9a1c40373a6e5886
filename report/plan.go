package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/gemmaudit/gemmaudit/results"
)

// Plan is what a sweep would do, as a dry run shows it.
type Plan struct {
	Series   []PlanSeries   `json:"series"`
	Cases    int            `json:"cases"`
	Rounds   int            `json:"rounds"`
	Samples  int            `json:"samples"` // at most, when Open
	Open     bool           `json:"-"`       // later rounds measure only what is undecided
	Regime   results.Regime `json:"regime"`
	Seed     uint64         `json:"seed"`
	Shard    string         `json:"shard,omitempty"` // "3/8"
	Deadline Seconds        `json:"deadline_s,omitempty"`
	Estimate Seconds        `json:"estimate_s"` // of all rounds
	// Inference is of a plan that infers rows, else nil; Cases are then those that are
	// measured in any case.
	Inference *PlanInference `json:"inference,omitempty"`
	Skipped   []PlanSkip     `json:"skipped,omitempty"`
	Settings  []PlanSetting  `json:"settings,omitempty"`
}

// PlanInference says what a sweep that infers rows would know.
type PlanInference struct {
	// Rows are known in the end, of which Measured are measured at the least and Inferred
	// inferred at the most.
	Rows     int `json:"rows"`
	Measured int `json:"measured_at_least"`
	Inferred int `json:"inferred_at_most"`
	// Screening is the time until rows are inferred first, EveryRow what the screening would
	// take if every row had to be measured.
	Screening Seconds `json:"screening_s"`
	EveryRow  Seconds `json:"every_row_s"`
}

// PlanSeries is one curve that would be measured.
type PlanSeries struct {
	Series results.SeriesKey `json:"series"`
	// From names where the shape comes from: "llama3-8b:gate_up_proj".
	From string `json:"from,omitempty"`
	// Rows are those that would be known, of a plan that infers rows.
	Rows     int     `json:"rows,omitempty"`
	Cases    int     `json:"cases"`
	FromM    int     `json:"from_m"`
	ToM      int     `json:"to_m"`
	Estimate Seconds `json:"estimate_s"` // of all rounds
}

// Seconds is a duration that is a number of seconds in JSON.
type Seconds time.Duration

// MarshalJSON writes the seconds to the millisecond.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(s).Round(time.Millisecond).Seconds(), 'f', -1, 64), nil
}

// PlanSkip is a combination that can't be measured, and why.
type PlanSkip struct {
	What   string `json:"what"`
	Reason string `json:"reason"`
	// Part is the part of a model that it is, with its shape and count; nil for anything else.
	Part any `json:"part,omitempty"`
}

// PlanSetting is one default or choice that is echoed.
type PlanSetting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// WritePlan prints a plan with its time estimate.
func WritePlan(w io.Writer, f Format, p *Plan) error {
	doc := &Document{Subject: "plan", Value: p, Items: []any{}}
	sheet := Sheet{Title: "Series", Columns: []Column{
		{Name: "series", Key: "series"}, {Name: "from", Key: "from"}, {Name: "cases", Key: "cases", Align: Right},
		{Name: "m from", Key: "from_m", Align: Right}, {Name: "m to", Key: "to_m", Align: Right}, {Name: "estimate", Key: "estimate_s", Align: Right},
	}}
	if p.Inference != nil {
		sheet.Columns[2].Name = "measured"
		sheet.Columns = slices.Insert(sheet.Columns, 2, Column{Name: "rows", Key: "rows", Align: Right})
	}
	for _, s := range p.Series {
		doc.Items = append(doc.Items, s)
		row := []any{seriesCell(s.Series), s.From, s.Cases, s.FromM, s.ToM, span(time.Duration(s.Estimate))}
		if p.Inference != nil {
			row = slices.Insert(row, 2, any(s.Rows))
		}
		sheet.Rows = append(sheet.Rows, row)
	}
	settings := Sheet{Title: "Settings", Columns: []Column{{Name: "setting", Key: "setting"}, {Name: "value", Key: "value", Flex: true}}}
	add := func(name, value string) {
		if value != "" {
			settings.Rows = append(settings.Rows, []any{name, value})
		}
	}
	add("regime", string(p.Regime))
	add("seed", fmt.Sprint(p.Seed))
	add("shard", p.Shard)
	for _, s := range p.Settings {
		add(s.Name, s.Value)
	}
	skipped := Sheet{Title: "Not measured", Columns: []Column{{Name: "what", Key: "what"}, {Name: "reason", Key: "reason", Flex: true}}}
	for _, s := range p.Skipped {
		skipped.Rows = append(skipped.Rows, []any{s.What, s.Reason})
	}
	doc.Sheets = []Sheet{sheet, settings, skipped}
	line := fmt.Sprintf("%s × %s = %s, about %s", count(p.Cases, "case"), count(p.Rounds, "round"), count(p.Samples, "sample"), Duration(time.Duration(p.Estimate)))
	if p.Open {
		line = fmt.Sprintf("%s × up to %s = at most %s, about %s", count(p.Cases, "case"), count(p.Rounds, "round"), count(p.Samples, "sample"), Duration(time.Duration(p.Estimate)))
	}
	if i := p.Inference; i != nil {
		line = fmt.Sprintf("%s: at least %d measured and at most %d inferred; first known after about %s, on a quiet machine done after about %s; if every row had to be measured, %s",
			count(i.Rows, "row"), i.Measured, i.Inferred, Duration(time.Duration(i.Screening)), Duration(time.Duration(p.Estimate)), Duration(time.Duration(i.EveryRow)))
	}
	tone := Neutral
	if p.Deadline > 0 {
		line += ", deadline " + Duration(time.Duration(p.Deadline))
		if p.Estimate > p.Deadline {
			tone = Open
		}
	}
	doc.Notes = []Note{{line, tone}}
	return doc.Render(w, f)
}
