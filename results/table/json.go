package table

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// MaxBytes is the longest table, in bytes of JSON, that is read.
const MaxBytes = 256 << 20

// Parse reads a table from its JSON form. It is strict: an unknown schema, an
// unknown field, anything after the table and everything that [Table.Validate]
// finds are errors.
func Parse(data []byte) (*Table, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("table: %d bytes, expected at most %d", len(data), MaxBytes)
	}
	// The schema comes first, so that a table of a newer format is refused for
	// that, and not for the first field that is new in it.
	var head struct {
		Schema *string `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("table: not JSON: %w", err)
	}
	if head.Schema == nil {
		return nil, fmt.Errorf("table: there is no field schema: expected %q", Schema)
	}
	if *head.Schema != Schema {
		return nil, fmt.Errorf("table: schema is %q, this program reads %q", *head.Schema, Schema)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var t Table
	if err := d.Decode(&t); err != nil {
		return nil, fmt.Errorf("table: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("table: there is more after its end, at byte %d", d.InputOffset())
	}
	if err := t.Validate(); err != nil {
		return nil, fmt.Errorf("table: %w", err)
	}
	return &t, nil
}

// Marshal returns the JSON form of a valid table, indented, with a newline at
// its end: every action with its kind, every list present. The same table always
// gives the same bytes.
func (t *Table) Marshal() ([]byte, error) {
	if err := t.Validate(); err != nil {
		return nil, fmt.Errorf("table: %w", err)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(t.explicit()); err != nil {
		return nil, fmt.Errorf("table: %w", err)
	}
	return b.Bytes(), nil
}

// explicit is a copy of the table in which nothing is left to its zero value.
func (t *Table) explicit() *Table {
	c := *t
	c.Series = append([]Series{}, t.Series...)
	for i := range c.Series {
		s := &c.Series[i]
		s.Default.Kind = s.Default.kind()
		s.Intervals = append([]Interval{}, s.Intervals...)
		for j := range s.Intervals {
			s.Intervals[j].Action.Kind = s.Intervals[j].Action.kind()
		}
	}
	return &c
}
