// Package calibration holds the constants of the planning models, one file per card. A fit on another card
// writes the same format.
package calibration

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math"
	"reflect"
	"slices"
	"sync"
	"time"
)

//go:embed *.json
var files embed.FS

// Reference is the card whose constants apply to uncalibrated cards.
const Reference = "h200.json"

// Format is the version of the files.
const Format = 1

// Card is one file: the fitted constants and their card.
type Card struct {
	Format     int    `json:"format"`
	Card       string `json:"card"`       // the driver's name for it
	Capability int    `json:"capability"` // compute capability × 10
	SMs        int    `json:"sms"`        // streaming multiprocessors
	// Bandwidth is data-sheet memory bandwidth in bytes per second; cards with the same chip differ in it.
	Bandwidth float64 `json:"bandwidth"`
	Driver    string  `json:"driver"` // its version, or "unrecorded" if unknown
	Date      string  `json:"date"`   // of the last measurement: "2026-11-21"
	// Models are by name: "hopper".
	Models map[string]Model `json:"models"`
}

// Model is the constants of one model, and a summary of the fitted times.
type Model struct {
	FittedTo  string              `json:"fitted_to"`
	Constants map[string]Quantity `json:"constants"`
}

// Quantity is a value with its unit: "s", "B/s", "B/cycle", "cycles", or "1" for a pure number.
type Quantity struct {
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// Parse reads a file and checks it.
func Parse(text []byte) (*Card, error) {
	var c Card
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return nil, fmt.Errorf("calibration: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("calibration: more than one object")
	}
	switch {
	case c.Format != Format:
		return nil, fmt.Errorf("calibration: format %d, expected %d", c.Format, Format)
	case c.Card == "" || c.Capability <= 0 || c.SMs <= 0 || !(c.Bandwidth > 0) || c.Driver == "" || c.Date == "":
		return nil, fmt.Errorf("calibration of %q: card, capability, sms, bandwidth, driver or date is missing", c.Card)
	}
	if _, err := time.Parse(time.DateOnly, c.Date); err != nil {
		return nil, fmt.Errorf("calibration of %q: date %q, expected one like 2026-11-21", c.Card, c.Date)
	}
	return &c, nil
}

// Decode stores the constants of a model in the struct that to points to. Every field is a float64 with the
// tags constant, its name in the file, and unit. These are errors: a constant without a field, a field
// without a constant, a different unit, and a value that is not a positive number.
func (c *Card) Decode(model string, to any) error {
	m, ok := c.Models[model]
	if !ok {
		return fmt.Errorf("calibration of %s: no model %s", c.Card, model)
	}
	v := reflect.ValueOf(to).Elem()
	known := map[string]bool{}
	for f := range v.Type().Fields() {
		name, unit := f.Tag.Get("constant"), f.Tag.Get("unit")
		q, ok := m.Constants[name]
		switch {
		case !ok:
			return fmt.Errorf("calibration of %s: model %s: no constant %s", c.Card, model, name)
		case q.Unit != unit:
			return fmt.Errorf("calibration of %s: model %s: %s in %q, expected %q", c.Card, model, name, q.Unit, unit)
		case !(q.Value > 0) || math.IsInf(q.Value, 0):
			return fmt.Errorf("calibration of %s: model %s: %s is %v, expected a positive number", c.Card, model, name, q.Value)
		}
		v.FieldByIndex(f.Index).SetFloat(q.Value)
		known[name] = true
	}
	for name := range m.Constants {
		if !known[name] {
			return fmt.Errorf("calibration of %s: model %s has no constant %s", c.Card, model, name)
		}
	}
	return nil
}

// Cards returns the embedded cards, the reference first. It panics if a file is damaged, which a test rules
// out.
var Cards = sync.OnceValue(func() []*Card {
	names, err := fs.Glob(files, "*.json")
	if err != nil {
		panic(err)
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(order(a), order(b)) })
	var cards []*Card
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err)
		}
		c, err := Parse(text)
		if err != nil {
			panic(fmt.Errorf("%s: %w", name, err))
		}
		cards = append(cards, c)
	}
	return cards
})

func order(name string) int {
	if name == Reference {
		return 0
	}
	return 1
}
