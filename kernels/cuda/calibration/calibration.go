// Package calibration holds the constants of the models by which kernels are planned. They
// are data of the card that they were fitted on: a file each, in the format that fitting
// them on another card writes.
package calibration

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"reflect"
	"slices"
	"sync"
	"time"
)

// files are the cards that are calibrated.
//
//go:embed *.json
var files embed.FS

// Reference is the card whose constants stand for cards that are not calibrated.
const Reference = "h200.json"

// Format is the version of the files.
const Format = 1

// Card is one file: what was fitted, on which card.
type Card struct {
	Format     int    `json:"format"`
	Card       string `json:"card"`       // the driver's name for it
	Capability int    `json:"capability"` // compute capability × 10
	SMs        int    `json:"sms"`        // streaming multiprocessors
	// Bandwidth is that of memory in bytes a second, as the data sheet has it: cards of one
	// chip differ by it.
	Bandwidth float64 `json:"bandwidth"`
	Driver    string  `json:"driver"` // its version, "unrecorded" where nobody wrote it down
	Date      string  `json:"date"`   // of the last measurement: "2026-11-21"
	// Program is the version of the program that measured, and From the card at whose constants
	// its fit began. Both are empty for the embedded cards.
	Program string `json:"program,omitempty"`
	From    string `json:"from,omitempty"`
	// Measured is what was measured beside the times that the models were fitted to: "clock".
	Measured map[string]Quantity `json:"measured,omitempty"`
	// Models are by name: "hopper".
	Models map[string]Model `json:"models"`
}

// Model is the constants of one model, and what they were fitted to.
type Model struct {
	FittedTo  string              `json:"fitted_to"`
	Constants map[string]Quantity `json:"constants"`
}

// Quantity is a value with its unit: "s", "B/s", "B/cycle", "cycles", or "1" for a pure number.
type Quantity struct {
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// positive says that the value is a positive number.
func (q Quantity) positive() bool { return q.Value > 0 && !math.IsInf(q.Value, 0) }

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
	for _, name := range slices.Sorted(maps.Keys(c.Measured)) {
		if q := c.Measured[name]; !q.positive() || q.Unit == "" {
			return nil, fmt.Errorf("calibration of %q: measured: %s is %v in %q, expected a positive number with a unit", c.Card, name, q.Value, q.Unit)
		}
	}
	return &c, nil
}

// Decode writes the constants of a model to the fields of a struct, to, a pointer to it.
// Every field is a float64 with the tags constant, its name in the file, and unit. A
// constant that has no field, a field that has no constant, another unit, and a value
// that is not a positive number are errors.
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
		case !q.positive():
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

// Cards are the embedded ones, the reference first.
var Cards = sync.OnceValues(func() ([]*Card, error) {
	names, err := fs.Glob(files, "*.json")
	if err != nil {
		return nil, err
	}
	slices.SortFunc(names, func(a, b string) int {
		switch {
		case a == Reference:
			return -1
		case b == Reference:
			return 1
		}
		return 0
	})
	var cards []*Card
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		c, err := Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		cards = append(cards, c)
	}
	return cards, nil
})
