// Package field declares what records hold. A record is one line of output: a finding, a row, a remedy, a
// sample. Each fact of it is a [Field], declared once. Tables, CSV, --where, --sort and their explanation are made
// from the declaration; JSON and Parquet, which follow from the tags of Go structs, are tested against it.
package field

import (
	"reflect"
	"slices"
)

// Kind is the type of a field's value.
type Kind string

// The kinds.
const (
	Text   Kind = "text"
	Count  Kind = "count"  // a whole number
	Number Kind = "number" // a number with a fraction
	Flag   Kind = "flag"   // true or false
	// Bounds is a number with its confidence interval. CSV has it in three columns: the number, and its bounds as NAME_lo and NAME_hi.
	Bounds Kind = "bounds"
)

// Unit is the unit of a number. Tables choose its format by it.
type Unit string

// The units; None is that of counts, texts and plain numbers.
const (
	None        Unit = ""
	Micros      Unit = "us"
	Share       Unit = "share" // 0.5 for half, in tables 50 %
	Factor      Unit = "factor"
	Probability Unit = "p"
	MHz         Unit = "MHz"
	Millijoules Unit = "mJ"
	Watts       Unit = "W"
	Celsius     Unit = "°C"
	GFLOPS      Unit = "GFLOP/s"
	Error       Unit = "error" // relative to the exact result
)

// Field is one fact of records of type T.
type Field[T any] struct {
	// Name is its key in JSON and its column in CSV, with the unit: "stake_us".
	Name string
	// Head is the header of its column in tables; empty for a column that only CSV has.
	Head string
	Kind Kind
	Unit Unit
	// Words explain it in one line.
	Words string
	// Where is its name in --where and --sort; empty for one that is not filtered by.
	Where string
	// JSON is its place in the record's JSON where that is not Name: "remedy.gain", or "-" for none.
	JSON string
	// Value is the fact of a record: a string, an int, a float64, a bool, an interval, or a value with a method
	// Raw that returns one of them, which has a text of its own for tables. It is nil where the record lacks it.
	Value func(T) any

	// NoColumn keeps it out of tables and CSV: other fields show it.
	NoColumn bool
	// Wide shows it only in wide tables and CSV.
	Wide bool
	// Flex wraps its cells where the terminal is too narrow.
	Flex bool
	// Hoist moves it to the title of a narrow table whose rows agree, behind its header with HoistHead.
	Hoist, HoistHead bool
	// Only says whether some records have the column at all; nil for a column that is always there.
	Only func([]T) bool
}

// Via declares the facts of a part of a record: part returns it, false where the record has none.
func Via[T, U any](fields []Field[U], part func(T) (U, bool)) []Field[T] {
	out := make([]Field[T], len(fields))
	for i, f := range fields {
		value := f.Value
		out[i] = Field[T]{
			Name: f.Name, Head: f.Head, Kind: f.Kind, Unit: f.Unit, Words: f.Words, Where: f.Where, JSON: f.JSON,
			NoColumn: f.NoColumn, Wide: f.Wide, Flex: f.Flex, Hoist: f.Hoist, HoistHead: f.HoistHead,
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

// Filters are fields that are filtered by, without a column.
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

// Raw is the value of a field without a format: a string, an int, a float64, a bool, or nil.
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

// Pick returns the fields of the given names, in their order. A name that no field has is a fault of the caller.
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

// Without returns the fields that have none of the given names.
func Without[T any](fields []Field[T], names ...string) []Field[T] {
	return slices.DeleteFunc(slices.Clone(fields), func(f Field[T]) bool { return slices.Contains(names, f.Name) })
}

// Within says that the JSON of fields lies within an object of the record: "remedy".
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
