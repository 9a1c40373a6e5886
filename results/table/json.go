package table

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// MaxBytes is the longest table, in bytes of JSON, that is read.
const MaxBytes = 256 << 20

// Parse reads a table from its JSON form, of this or of an earlier [Schema]. It is
// strict: an unknown schema, a field that the schema does not have, anything after
// the table and everything that [Table.Validate] finds are errors.
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
	t := &Table{}
	var err error
	switch *head.Schema {
	case Schema:
		err = decode(data, t)
	case schemaV3:
		if err = decode(data, t); err == nil {
			err = t.fromV3()
		}
	case schemaV2:
		if err = decode(data, t); err == nil {
			err = t.fromV2()
		}
	case schemaV1:
		t, err = parseV1(data)
	default:
		err = fmt.Errorf("schema is %q, this program reads %q, %q, %q and %q", *head.Schema, Schema, schemaV3, schemaV2, schemaV1)
	}
	if err == nil {
		err = t.Validate()
	}
	if err != nil {
		return nil, fmt.Errorf("table: %w", err)
	}
	return t, nil
}

// parseV1 reads a table of the first version as one of this.
func parseV1(data []byte) (*Table, error) {
	var old struct {
		Table
		Gemmaudit string `json:"gemmaudit"`
	}
	if err := decode(data, &old); err != nil {
		return nil, err
	}
	t, v := &old.Table, &old.Validators
	if v.Features != nil || v.Gemmaudit != "" {
		return nil, fmt.Errorf("validators of schema %q have no features and no gemmaudit", schemaV1)
	}
	v.Gemmaudit = old.Gemmaudit
	return t, t.fromV2()
}

// fromV2 makes a table of the second version one of this.
func (t *Table) fromV2() error {
	for i := range t.Series {
		s := &t.Series[i]
		if s.Layout != "" || s.Weights != "" {
			return fmt.Errorf("series %v: series of schema %q have neither layout nor weights", s, t.Schema)
		}
		s.Layout = KN
	}
	return t.fromV3()
}

// fromV3 makes a table of the third version one of this: its pads were proven in place.
func (t *Table) fromV3() error {
	for i := range t.Series {
		s := &t.Series[i]
		newer := s.FromM != 0 || s.ToM != 0 || s.Served != 0 || s.Default.newer()
		for j := range s.Intervals {
			iv := &s.Intervals[j]
			newer = newer || iv.Filled || iv.Action.newer() || slices.ContainsFunc(iv.Proofs, func(p Proof) bool { return p.Numerics != nil })
			if iv.Action.Kind == Pad {
				iv.Action.Pad = InPlace
			}
		}
		if newer {
			return fmt.Errorf("series %v: schema %q has no kinds of pads, no algorithms, no numerics and no range of m", s, t.Schema)
		}
	}
	t.Schema = Schema
	return nil
}

// newer says whether an action has what the third version had not.
func (a Action) newer() bool {
	return a.Pad != "" || a.Algorithm != Attributes{} || a.Kind == Algorithm
}

// decode reads the one value that data holds into v, whose fields are all it may have.
func decode(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("there is more after its end, at byte %d", d.InputOffset())
	}
	return nil
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
