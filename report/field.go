package report

import (
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

func sheetOf[T any](title string, fields []field.Field[T], records []T) Sheet {
	return sheetAmong(title, fields, records, records)
}

// sheetAmong is the sheet of some records; all decide which columns there are.
func sheetAmong[T any](title string, fields []field.Field[T], records, all []T) Sheet {
	s := Sheet{Title: title}
	var shown []field.Field[T]
	for _, f := range fields {
		if f.NoColumn || f.Only != nil && !f.Only(all) {
			continue
		}
		shown = append(shown, f)
		s.Columns = append(s.Columns, fieldColumn(f))
	}
	if len(records) == 0 {
		return s
	}
	s.Rows = make([][]any, len(records))
	for i, r := range records {
		row := make([]any, len(shown))
		for k := range shown {
			row[k] = cellOf(shown[k].Unit, shown[k].Value(r))
		}
		s.Rows[i] = row
	}
	showMillis(&s, shown)
	return s
}

// showMillis shows the times of a table in milliseconds if the largest is long. CSV keeps microseconds.
func showMillis[T any](s *Sheet, shown []field.Field[T]) {
	largest := 0.0
	var times []int
	for k, f := range shown {
		if f.Unit != field.Micros || !slices.Contains(strings.Fields(f.Head), "us") {
			continue
		}
		times = append(times, k)
		for _, row := range s.Rows {
			if us, ok := toCell(row[k]).Raw().(float64); ok {
				largest = max(largest, us)
			}
		}
	}
	unit, scale := timeUnit(largest)
	if scale == 1 {
		return
	}
	for _, k := range times {
		head := strings.Fields(s.Columns[k].Name)
		head[slices.Index(head, "us")] = unit
		s.Columns[k].Name = strings.Join(head, " ")
		for _, row := range s.Rows {
			if b, ok := row[k].(bounds); ok {
				row[k] = bounds{b.Interval, func(us float64) Cell { return inMillis{b.unit(us), 4} }}
			} else if row[k] != nil {
				row[k] = inMillis{toCell(row[k]), 3}
			}
		}
	}
}

// inMillis shows a cell with microseconds in milliseconds, with some significant digits.
type inMillis struct {
	Cell
	digits int
}

func (v inMillis) Text() string {
	us, ok := v.Raw().(float64)
	if !ok || v.Cell.Text() == "" {
		return v.Cell.Text()
	}
	return Significant(us/1e3, v.digits)
}

func fieldColumn[T any](f field.Field[T]) Column {
	c := Column{
		Name: f.Head, Key: f.Name, Wide: f.Wide, Data: f.Head == "", Flex: f.Flex, Keep: f.Keep,
		Interval: f.Type() == field.Bounds, Hoist: f.Hoist, HoistName: f.HoistHead,
	}
	switch f.Type() {
	case field.Count, field.Number, field.Bounds:
		c.Align = Right
	}
	return c
}

// cellOf formats numbers and intervals by unit; it returns other values unchanged.
func cellOf(unit field.Unit, v any) any {
	switch x := v.(type) {
	case stats.Interval:
		return bounds{x, func(v float64) Cell { return unitCell(unit, v) }}
	case float64:
		return unitCell(unit, x)
	}
	return v
}

// unitCells are the cells of units; those of other units have two decimals.
var unitCells = map[field.Unit]func(float64) Cell{
	field.Micros: Micros, field.Seconds: millis, field.PerSecond: fourFigures, field.OfSecond: saved, field.Share: Share,
	field.Factor: Factor, field.Probability: probability, field.Error: relativeError,
	field.MHz: numbers(0), field.Watts: numbers(0), field.Celsius: numbers(0), field.Millijoules: numbers(1),
}

func numbers(decimals int) func(float64) Cell {
	return func(v float64) Cell { return number{v, decimals} }
}

func unitCell(unit field.Unit, v float64) Cell {
	if cell := unitCells[unit]; cell != nil {
		return cell(v)
	}
	return number{v, 2}
}

// when is v if it is known, else nil.
func when(known bool, v any) any {
	if known {
		return v
	}
	return nil
}

// unlessNone is v, or nil if v ≤ 0, which means unknown.
func unlessNone(v float64) any { return when(v > 0, v) }

// seriesFields returns the fields of a record's series. Tables show the series in one column; CSV has it as
// text and JSON as an object.
func seriesFields[T any](series func(T) results.SeriesKey) (column field.Field[T], filters []field.Field[T]) {
	column = field.Field[T]{Name: "series", Head: "series", Hoist: true, Words: seriesWords,
		Value: func(r T) any { return seriesCell(series(r)) }}
	filters = field.Within("series",
		field.Via(field.Filters(results.SeriesFields), func(r T) (results.SeriesKey, bool) { return series(r), true }))
	return column, filters
}

// Property is a line of [PairSheet].
type Property struct {
	Name  string
	Value any
}

// PairSheet is a table of names and values.
func PairSheet(title, name, value string, lines []Property) Sheet {
	return sheetOf(title, []field.Field[Property]{
		{Name: name, Head: name, Words: "the name", Value: func(p Property) any { return p.Name }},
		{Name: value, Head: value, Flex: true, Words: "its value", Value: func(p Property) any { return p.Value }},
	}, lines)
}

func seriesColumn[T any](series func(T) results.SeriesKey) field.Field[T] {
	return field.Field[T]{Name: "series", Head: "series", JSON: "-", Words: seriesWords,
		Value: func(r T) any { return seriesCell(series(r)) }}
}

func seriesList(keys []results.SeriesKey) Sheet {
	return sheetOf("", []field.Field[results.SeriesKey]{seriesColumn(func(k results.SeriesKey) results.SeriesKey { return k })}, keys)
}
