package candidates

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/jsonlines"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Format is the version of the files.
const Format = 1

// Card is the first line of a file: the card of its times.
type Card struct {
	Format     int     `json:"format"`
	Card       string  `json:"card"`       // the driver's name for it
	Driver     string  `json:"driver"`     // its version, [Unrecorded] if unknown
	Date       string  `json:"date"`       // "2026-11-21"
	Capability int     `json:"capability"` // compute capability × 10
	SMs        int     `json:"sms"`        // streaming multiprocessors
	Shared     int     `json:"shared"`     // maximum opt-in shared memory of a block, in bytes
	L2         int64   `json:"l2"`         // bytes
	ClockMHz   float64 `json:"clock_mhz"`  // the highest SM clock
	Bandwidth  float64 `json:"bandwidth"`  // data-sheet memory bandwidth, bytes per second
}

// Unrecorded is the value for an unknown driver version.
const Unrecorded = "unrecorded"

// Describe returns the first line for a GPU.
func Describe(name, driver, date string, a planning.Arch) Card {
	return Card{
		Format: Format, Card: name, Driver: driver, Date: date,
		Capability: a.CC, SMs: a.SMs, Shared: a.SharedMax, L2: a.L2, ClockMHz: a.ClockMHz, Bandwidth: a.Bandwidth,
	}
}

// Arch returns the card's description for planning.
func (c Card) Arch() planning.Arch {
	return planning.Arch{CC: c.Capability, SMs: c.SMs, SharedMax: c.Shared, L2: c.L2, ClockMHz: c.ClockMHz, Bandwidth: c.Bandwidth}
}

func (c Card) validate() error {
	switch {
	case c.Format != Format:
		return fmt.Errorf("format %d, expected %d", c.Format, Format)
	case c.Card == "" || c.Driver == "" || c.Date == "":
		return fmt.Errorf("card, driver or date is missing")
	case c.Capability < 1 || c.SMs < 1 || c.Shared < 1 || c.L2 < 1 || !positive(c.ClockMHz) || !positive(c.Bandwidth):
		return fmt.Errorf("card %q: capability, sms, shared, l2, clock_mhz or bandwidth is not positive", c.Card)
	}
	return nil
}

// Time is a further line: the time of a launch of a candidate.
type Time struct {
	Case
	Family  string  `json:"family"`
	Index   int     `json:"index"` // among the family's candidates for the case
	Label   string  `json:"label"` // the candidate's plan label
	Seconds float64 `json:"seconds"`
	// Interval is a 95 % confidence interval of the median, if there are enough rounds.
	Interval [2]float64 `json:"interval"`
	// MHz is the median SM clock of the rounds, 0 if unknown.
	MHz float64 `json:"mhz,omitempty"`
}

func (t Time) validate() error {
	switch {
	case t.Index < 0:
		return fmt.Errorf("index is %d, expected at least 0", t.Index)
	case !positive(t.Seconds) || !positive(t.Interval[0]) || !positive(t.Interval[1]):
		return fmt.Errorf("%v seconds in %v, expected positive numbers", t.Seconds, t.Interval)
	case t.Seconds < t.Interval[0] || t.Seconds > t.Interval[1]:
		return fmt.Errorf("%v seconds are outside of %v", t.Seconds, t.Interval)
	case !(t.MHz >= 0) || math.IsInf(t.MHz, 0):
		return fmt.Errorf("%v MHz, expected a clock or 0", t.MHz)
	}
	return t.Validate()
}

func positive(x float64) bool { return x > 0 && !math.IsInf(x, 0) }

// WriteCard writes the first line.
func WriteCard(w io.Writer, c Card) error { return json.NewEncoder(w).Encode(c) }

// WriteTimes writes further lines in a single write.
func WriteTimes(w io.Writer, times []Time) error {
	var b bytes.Buffer
	for _, t := range times {
		if err := json.NewEncoder(&b).Encode(t); err != nil {
			return err
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// Read reads a file and checks it; the error names the line.
func Read(r io.Reader) (c Card, times []Time, err error) {
	return jsonlines.Read(r, 1<<20, "a card and at least one time", Card.validate, Time.validate)
}
