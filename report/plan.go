package report

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/field"
)

// Plan describes a sweep for a dry run.
type Plan struct {
	Series   []PlanSeries   `json:"series"`
	Cases    int            `json:"cases"`
	Rounds   int            `json:"rounds"`
	Samples  int            `json:"samples"` // upper limit if Open
	Open     bool           `json:"-"`       // later rounds measure only undecided cases
	Regime   results.Regime `json:"regime"`
	Seed     uint64         `json:"seed"`
	Shard    string         `json:"shard,omitempty"` // "3/8"
	Deadline Seconds        `json:"deadline_s,omitempty"`
	Estimate Seconds        `json:"estimate_s"` // of all rounds
	// Proof limits the time to measure suspects again and to execute remedies after the sweep: nil if the
	// command does neither, 0 for no limit.
	Proof *Seconds `json:"proof_s,omitempty"`
	// Inference is nil unless the plan infers rows; Cases then counts the rows that are measured in any case.
	Inference *PlanInference `json:"inference,omitempty"`
	Skipped   []PlanSkip     `json:"skipped,omitempty"`
	Settings  []PlanSetting  `json:"settings,omitempty"`
}

// PlanInference describes a sweep that infers rows.
type PlanInference struct {
	// Rows is the final number of known rows: at least Measured are measured, at most Inferred are inferred.
	Rows     int `json:"rows"`
	Measured int `json:"measured_at_least"`
	Inferred int `json:"inferred_at_most"`
	// Screening is the time until the first inference; EveryRow is the screening time if every row must be
	// measured.
	Screening Seconds `json:"screening_s"`
	EveryRow  Seconds `json:"every_row_s"`
}

// PlanSeries is one curve to measure.
type PlanSeries struct {
	Series results.SeriesKey `json:"series"`
	// From names the source of the shape: "llama3-8b:gate_up_proj".
	From string `json:"from,omitempty"`
	// Rows is the number of known rows in a plan that infers rows.
	Rows     int     `json:"rows,omitempty"`
	Cases    int     `json:"cases"`
	FromM    int     `json:"from_m"`
	ToM      int     `json:"to_m"`
	Estimate Seconds `json:"estimate_s"` // of all rounds
}

// Seconds is a duration that JSON shows in seconds.
type Seconds time.Duration

// MarshalJSON writes seconds with millisecond precision.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(s).Round(time.Millisecond).Seconds(), 'f', -1, 64), nil
}

// PlanSkip is a combination that cannot be measured, and the reason.
type PlanSkip struct {
	What   string `json:"what"`
	Reason string `json:"reason"`
	// Part is the model part with its shape and count; nil for other combinations.
	Part any `json:"part,omitempty"`
}

// PlanSetting is one default or choice in effect.
type PlanSetting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

var planFields = field.Of([]field.Field[PlanSeries]{
	seriesColumn(func(s PlanSeries) results.SeriesKey { return s.Series }),
	{Name: "from", Head: "from", JSON: "-", Words: "where the shape comes from", Value: func(s PlanSeries) any { return s.From }},
	{Name: "rows", Head: "rows", Kind: field.Count, JSON: "-", Words: "rows that would be known",
		Value: func(s PlanSeries) any { return s.Rows }},
	{Name: "cases", Head: "cases", Kind: field.Count, Words: "cases that are measured"},
	{Name: "from_m", Head: "m from", Kind: field.Count, Words: "the smallest M"},
	{Name: "to_m", Head: "m to", Kind: field.Count, Words: "the largest M"},
	{Name: "estimate_s", Head: "estimate", Unit: field.Seconds, Words: "time of all rounds",
		Value: func(s PlanSeries) any { return span(time.Duration(s.Estimate)) }},
})

// sheet has a row per series, with measured rows separate in a plan that infers rows.
func (p *Plan) sheet() Sheet {
	if p.Inference == nil {
		return sheetOf("Series", field.Without(planFields, "rows"), p.Series)
	}
	s := sheetOf("Series", planFields, p.Series)
	s.column("cases").Name = "measured"
	return s
}

// WritePlan prints a plan with its time estimate.
func WritePlan(w io.Writer, f Format, p *Plan) error {
	doc := &Document{Subject: "plan", Value: p, Items: items(p.Series)}
	var settings []Property
	add := func(name, value string) {
		if value != "" {
			settings = append(settings, Property{name, value})
		}
	}
	add("regime", string(p.Regime))
	add("seed", fmt.Sprint(p.Seed))
	add("shard", p.Shard)
	for _, s := range p.Settings {
		add(s.Name, s.Value)
	}
	var skipped []Property
	for _, s := range p.Skipped {
		skipped = append(skipped, Property{s.What, s.Reason})
	}
	doc.Sheets = []Sheet{p.sheet(), PairSheet("Settings", "setting", "value", settings),
		PairSheet("Not measured", "what", "reason", skipped)}
	line := fmt.Sprintf("%s × %s = %s, about %s", Count(p.Cases, "case"), Count(p.Rounds, "round"), Count(p.Samples, "sample"),
		Duration(time.Duration(p.Estimate)))
	if p.Open {
		line = fmt.Sprintf("%s × up to %s = at most %s, about %s", Count(p.Cases, "case"), Count(p.Rounds, "round"),
			Count(p.Samples, "sample"), Duration(time.Duration(p.Estimate)))
	}
	if i := p.Inference; i != nil {
		line = fmt.Sprintf("%s: at least %d measured and at most %d inferred; first known after about %s, on a quiet machine done after "+
			"about %s; if every row had to be measured, %s",
			Count(i.Rows, "row"), i.Measured, i.Inferred, Duration(time.Duration(i.Screening)), Duration(time.Duration(p.Estimate)),
			Duration(time.Duration(i.EveryRow)))
	}
	tone := Neutral
	if p.Deadline > 0 {
		line += ", deadline " + Duration(time.Duration(p.Deadline))
		if p.Estimate > p.Deadline {
			tone = Open
		}
	}
	doc.Notes = []Note{{line, tone}}
	if p.Proof != nil {
		doc.Notes = append(doc.Notes, Note{Text: p.proofText()})
	}
	return doc.Render(w, f)
}

// proofText describes the time after the sweep, and the whole.
func (p *Plan) proofText() string {
	const then = "then suspects are measured again and remedies executed"
	most := time.Duration(*p.Proof)
	if most == 0 {
		return then + ", without a time limit: --deadline sets one"
	}
	return fmt.Sprintf("%s, at most %s more: at most about %s in all", then, Duration(most),
		Duration(time.Duration(max(p.Deadline, p.Estimate))+most))
}
