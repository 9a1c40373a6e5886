package report

import (
	"fmt"
	"io"
	"strconv"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Calibration is what came of measuring the constants by which a card's kernels are planned.
type Calibration struct {
	Device  string `json:"device"`
	Card    string `json:"card"`
	Driver  string `json:"driver"`
	Program string `json:"gemmaudit"`
	// InForce are the constants before, From names the card that ships at whose constants the fit began.
	InForce kernels.Constants `json:"in_force"`
	From    string            `json:"from"`
	// Measured are what needs no model: "clock under load".
	Measured []CalibrationQuantity `json:"measured,omitempty"`
	// Times of so many cases were fitted to, and Seconds is what all of it took.
	Cases     int                   `json:"cases,omitempty"`
	Times     int                   `json:"times,omitempty"`
	Seconds   float64               `json:"seconds,omitempty"`
	Constants []CalibrationConstant `json:"constants"`
	Parts     []CalibrationPart     `json:"parts,omitempty"`
	Checks    []CalibrationCheck    `json:"checks,omitempty"`
	// Kept is the file with the new constants, empty where none were kept.
	Kept string `json:"kept,omitempty"`
}

// CalibrationQuantity is a value with its unit.
type CalibrationQuantity struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// CalibrationConstant is a constant of a model: as it ships, in force, and as it was measured, 0 where it was not.
type CalibrationConstant struct {
	Model    string  `json:"model"`
	Name     string  `json:"constant"`
	Unit     string  `json:"unit"`
	Shipped  float64 `json:"shipped"`
	InForce  float64 `json:"in_force"`
	Measured float64 `json:"measured,omitempty"`
	Kept     bool    `json:"kept"` // it takes the place of what was in force
}

// CalibrationPart is how the picks of the models of one kind of operation hold on cases that nothing was fitted to: the
// time of what is picked over that of the best of what was timed, less 1.
type CalibrationPart struct {
	Name        string  `json:"part"`
	Cases       int     `json:"cases"`
	Changed     int     `json:"changed"`
	Before      float64 `json:"before"`
	After       float64 `json:"after"`
	WorstBefore float64 `json:"worst_before"`
	WorstAfter  float64 `json:"worst_after"`
	Verdict     string  `json:"verdict"` // better, worse, unchecked
}

// CalibrationCheck is one of those cases: times are microseconds.
type CalibrationCheck struct {
	Case     string  `json:"case"`
	Before   string  `json:"before"` // the plan that is picked
	After    string  `json:"after"`
	Best     string  `json:"best"`
	BeforeUS float64 `json:"before_us"`
	AfterUS  float64 `json:"after_us"`
	BestUS   float64 `json:"best_us"`
}

// constant is a number of any size, shown with four digits.
type constant float64

func (v constant) Text() string { return strconv.FormatFloat(float64(v), 'g', 4, 64) }
func (v constant) Raw() any     { return finite(float64(v)) }

// WriteCalibration prints constants, and how they were checked. CSV holds the constants.
func WriteCalibration(w io.Writer, f Format, c *Calibration) error {
	doc := &Document{Subject: "calibration", Value: c, Items: []any{}, Head: []Note{
		{fmt.Sprintf("%s  %s, driver %s", c.Device, c.Card, c.Driver), Neutral},
		{ConstantsText(c.InForce), constantsTone(c.InForce)},
	}}
	direct := Sheet{Title: "Measured", Columns: []Column{{Name: "what", Key: "what"}, {Name: "value", Key: "value", Align: Right}, {Name: "unit", Key: "unit"}}}
	for _, q := range c.Measured {
		direct.Rows = append(direct.Rows, []any{q.Name, constant(q.Value), q.Unit})
	}
	constants := c.constants()
	doc.Sheets = []Sheet{direct, constants, c.parts(), c.checks()}
	doc.Main = 1
	for _, x := range c.Constants {
		doc.Items = append(doc.Items, x)
	}
	if c.Times > 0 {
		doc.Notes = append(doc.Notes, Note{fmt.Sprintf("fitted to %d times of %s, beginning at the constants of %s, in %.1f s", c.Times, count(c.Cases, "case"), c.From, c.Seconds), Faint})
	}
	return doc.Render(w, f)
}

// constants lists them, without what was not measured where nothing was.
func (c *Calibration) constants() Sheet {
	s := Sheet{Title: "Constants", Columns: []Column{
		{Name: "model", Key: "model"}, {Name: "constant", Key: "constant"}, {Name: "unit", Key: "unit"},
		{Name: "shipped", Key: "shipped", Align: Right}, {Name: "in force", Key: "in_force", Align: Right},
		{Name: "measured", Key: "measured", Align: Right}, {Name: "change", Key: "change", Align: Right}, {Name: "kept", Key: "kept"},
	}}
	for _, x := range c.Constants {
		row := []any{x.Model, x.Name, x.Unit, constant(x.Shipped), constant(x.InForce), nil, nil, nil}
		if x.Measured > 0 {
			row[5], row[6], row[7] = constant(x.Measured), share(x.Measured/x.InForce-1), word{"no", Open}
			if x.Kept {
				row[7] = word{"yes", Good}
			}
		}
		s.Rows = append(s.Rows, row)
	}
	if c.Times == 0 {
		s.Columns = s.Columns[:5]
		for i := range s.Rows {
			s.Rows[i] = s.Rows[i][:5]
		}
	}
	return s
}

// parts lists how picks hold on other cases.
func (c *Calibration) parts() Sheet {
	s := Sheet{Title: "Picks on other cases, slower than the best that was timed", Columns: []Column{
		{Name: "of", Key: "part"}, {Name: "cases", Key: "cases", Align: Right}, {Name: "other picks", Key: "changed", Align: Right},
		{Name: "before", Key: "before", Align: Right}, {Name: "after", Key: "after", Align: Right},
		{Name: "worst before", Key: "worst_before", Align: Right}, {Name: "worst after", Key: "worst_after", Align: Right}, {Name: "verdict", Key: "verdict"},
	}}
	for _, p := range c.Parts {
		tone := map[string]Tone{"better": Good, "worse": Bad, "unchecked": Open}[p.Verdict]
		s.Rows = append(s.Rows, []any{p.Name, p.Cases, p.Changed, share(p.Before), share(p.After), share(p.WorstBefore), share(p.WorstAfter), word{p.Verdict, tone}})
	}
	return s
}

// checks lists those cases for which another plan is picked.
func (c *Calibration) checks() Sheet {
	s := Sheet{Title: "Cases with other picks", Columns: []Column{
		{Name: "case", Key: "case"}, {Name: "before", Key: "before", Flex: true}, {Name: "us", Key: "before_us", Align: Right},
		{Name: "after", Key: "after", Flex: true}, {Name: "us", Key: "after_us", Align: Right}, {Name: "best", Key: "best_us", Align: Right},
	}}
	for _, x := range c.Checks {
		if x.Before != x.After {
			s.Rows = append(s.Rows, []any{x.Case, x.Before, micros(x.BeforeUS), x.After, micros(x.AfterUS), micros(x.BestUS)})
		}
	}
	return s
}

// ConstantsText says by which constants a device's kernels are planned.
func ConstantsText(k kernels.Constants) string {
	switch {
	case k.Measured:
		return fmt.Sprintf("planned by constants that were measured here on %s (%s)", k.Date, k.ID)
	case k.Own:
		return fmt.Sprintf("planned by the constants of %s that ship (%s)", k.Card, k.ID)
	}
	return fmt.Sprintf("planned by the constants of %s, the nearest card that was seen (%s); `gemmaudit calibrate` measures its own", k.Card, k.ID)
}

func constantsTone(k kernels.Constants) Tone {
	if k.Measured || k.Own {
		return Faint
	}
	return Open
}
