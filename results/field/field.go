// Package field declares the fields of records. A record is one line of output: a finding, a row, a remedy, a
// sample. Each [Field] is declared once. Tables, CSV, --where, --sort and their documentation are generated
// from it; JSON and Parquet, which use struct tags, are tested against it.
package field

import (
	"reflect"
	"slices"
	"strings"
)

// Kind is the type of a field's value.
type Kind string

const (
	Text   Kind = "text"
	Count  Kind = "count"  // a whole number
	Number Kind = "number" // a number with a fraction
	Flag   Kind = "flag"   // true or false
	// Bounds is a number with its confidence interval. CSV has three columns: the number, NAME_lo and
	// NAME_hi.
	Bounds Kind = "bounds"
)

// Unit is a number's unit. Tables format by it.
type Unit string

// The units; None is for counts, texts and plain numbers.
const (
	None        Unit = ""
	Micros      Unit = "us"
	Seconds     Unit = "s"     // in tables milliseconds
	PerSecond   Unit = "1/s"   // four digits in tables
	OfSecond    Unit = "s/s"   // a part of each second
	Share       Unit = "share" // 0.5 for half; 50 % in tables
	Factor      Unit = "factor"
	Probability Unit = "p"
	MHz         Unit = "MHz"
	Millijoules Unit = "mJ"
	Watts       Unit = "W"
	Celsius     Unit = "°C"
	GFLOPS      Unit = "GFLOP/s"
	Error       Unit = "error" // relative to the exact result
)

// Field is one property of records of type T.
type Field[T any] struct {
	// Name is its JSON key and CSV column, with the unit: "stake_us".
	Name string
	// Head is its table header; empty for CSV only.
	Head string
	// Kind may be left out: then the field is a Number if it has a unit, else Text. [Field.Type] returns it.
	Kind Kind
	Unit Unit
	// Words describe it in one line.
	Words string
	// Where is its name in --where and --sort; empty if it can't be filtered by.
	Where string
	// JSON is its path in the record's JSON if not Name: "remedy.gain", or "-" for none.
	JSON string
	// Value returns a record's value: a string, int, float64, bool, interval, or a value with a method Raw
	// that returns one of them and its own text for tables. It is nil if the record has none. [Of] derives it.
	Value func(T) any

	// NoColumn omits it from tables and CSV, because other fields show it.
	NoColumn bool
	// Wide limits it to wide tables and CSV.
	Wide bool
	// Flex wraps its cells on narrow terminals.
	Flex bool
	// Keep shows it on any terminal; other columns are dropped from the right until a row fits.
	Keep bool
	// Hoist moves it to the title of a narrow table if all rows agree, with its header if HoistHead is set.
	Hoist, HoistHead bool
	// Only reports whether some records have the column; nil means always.
	Only func([]T) bool
}

// Type returns the kind of the field.
func (f Field[T]) Type() Kind {
	switch {
	case f.Kind != "":
		return f.Kind
	case f.Unit != None:
		return Number
	}
	return Text
}

// Word explains a field: its name in CSV and JSON, its header in tables, empty if only CSV and JSON have it.
type Word struct{ Name, Head, Meaning string }

var words []Word

// Words explains the fields that [Of] declared.
func Words() []Word { return words }

// Of declares fields. Those without a Value get that of the record in JSON: what its struct calls by the field's JSON path, or
// nil for a number that JSON leaves out. Each value copies the record, so long tables declare their own. It
// panics if JSON has no such field.
func Of[T any](fields []Field[T]) []Field[T] {
	for i, f := range fields {
		words = append(words, Word{f.Name, f.Head, f.Words})
		if f.Value != nil {
			continue
		}
		path := f.JSON
		if path == "" {
			path = f.Name
		}
		index, omitted := tagged(reflect.TypeFor[T](), strings.Split(path, "."))
		if index == nil {
			panic("field: JSON has no " + path)
		}
		fields[i].Value = func(record T) any {
			v, err := reflect.Indirect(reflect.ValueOf(record)).FieldByIndexErr(index)
			switch {
			case err != nil, omitted && v.CanFloat() && !(v.Float() > 0), omitted && v.CanInt() && v.IsZero():
				return nil
			case v.Kind() == reflect.String:
				return v.String()
			}
			return v.Interface()
		}
	}
	return fields
}

// tagged returns the index of the field at a path of JSON names, and whether JSON omits it if it is zero.
func tagged(t reflect.Type, path []string) (index []int, omitted bool) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		rest := path
		switch {
		case name == path[0] && len(path) == 1:
			return f.Index, strings.Contains(options, "omitempty")
		case name == path[0]:
			rest = path[1:]
		case name != "" || !f.Anonymous:
			continue
		}
		if k := f.Type.Kind(); k != reflect.Struct && (k != reflect.Pointer || f.Type.Elem().Kind() != reflect.Struct) {
			continue
		}
		if below, omitted := tagged(f.Type, rest); below != nil {
			return append(slices.Clone(f.Index), below...), omitted
		}
	}
	return nil, false
}

// Via declares the fields of a part of a record; part returns false if the record has none.
func Via[T, U any](fields []Field[U], part func(T) (U, bool)) []Field[T] {
	out := make([]Field[T], len(fields))
	for i, f := range fields {
		value := f.Value
		out[i] = Field[T]{
			Name: f.Name, Head: f.Head, Kind: f.Kind, Unit: f.Unit, Words: f.Words, Where: f.Where, JSON: f.JSON,
			NoColumn: f.NoColumn, Wide: f.Wide, Flex: f.Flex, Keep: f.Keep, Hoist: f.Hoist, HoistHead: f.HoistHead,
			Value: func(record T) any {
				if u, ok := part(record); ok {
					return value(u)
				}
				return nil
			},
		}
	}
	return out
}

// Filters returns fields for filtering only, without columns.
func Filters[T any](fields []Field[T]) []Field[T] {
	var out []Field[T]
	for _, f := range fields {
		if f.Where != "" {
			f.NoColumn = true
			out = append(out, f)
		}
	}
	return out
}

// Raw returns a field's unformatted value: a string, int, float64, bool, or nil.
func Raw(v any) any {
	if cell, ok := v.(interface{ Raw() any }); ok {
		v = cell.Raw()
	}
	switch v.(type) {
	case nil, string, int, float64, bool:
		return v
	}
	switch r := reflect.ValueOf(v); {
	case r.Kind() == reflect.String:
		return r.String()
	case r.CanInt():
		return int(r.Int())
	}
	return v
}

// Pick returns the named fields in that order. It panics on an unknown name.
func Pick[T any](fields []Field[T], names ...string) []Field[T] {
	out := make([]Field[T], len(names))
	for i, name := range names {
		at := slices.IndexFunc(fields, func(f Field[T]) bool { return f.Name == name })
		if at < 0 {
			panic("field: there is no field " + name)
		}
		out[i] = fields[at]
	}
	return out
}

// Without returns the fields except the named ones.
func Without[T any](fields []Field[T], names ...string) []Field[T] {
	return slices.DeleteFunc(slices.Clone(fields), func(f Field[T]) bool { return slices.Contains(names, f.Name) })
}

// Within puts the fields' JSON inside an object of the record: "remedy".
func Within[T any](object string, fields []Field[T]) []Field[T] {
	out := slices.Clone(fields)
	for i, f := range out {
		switch f.JSON {
		case "":
			out[i].JSON = object + "." + f.Name
		case "-":
		default:
			out[i].JSON = object + "." + f.JSON
		}
	}
	return out
}
