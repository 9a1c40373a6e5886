package report

import (
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/field"
	"github.com/gemmaudit/gemmaudit/rules"
)

// sheetOf makes a table of records from the declaration of their fields.
func sheetOf[T any](title string, fields []field.Field[T], records []T) Sheet {
	s := Sheet{Title: title}
	var shown []field.Field[T]
	for _, f := range fields {
		if f.NoColumn || f.Only != nil && !f.Only(records) {
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
			row[k] = cellOf(shown[k].Kind, shown[k].Unit, shown[k].Value(r))
		}
		s.Rows[i] = row
	}
	return s
}

// fieldColumn is the column of a field. Numbers are aligned to the right.
func fieldColumn[T any](f field.Field[T]) Column {
	c := Column{
		Name: f.Head, Key: f.Name, Wide: f.Wide, Data: f.Head == "", Flex: f.Flex,
		Interval: f.Kind == field.Bounds, Hoist: f.Hoist, HoistName: f.HoistHead,
	}
	switch f.Kind {
	case field.Count, field.Number, field.Bounds:
		c.Align = Right
	}
	return c
}

// cellOf is a value as a table shows it: as its unit asks for, unless it has a text of its own.
func cellOf(kind field.Kind, unit field.Unit, v any) any {
	switch x := v.(type) {
	case rules.Interval:
		return bounds{x, func(v float64) Cell { return unitCell(unit, v) }}
	case float64:
		return unitCell(unit, x)
	}
	return v
}

// unitCell is a number in a unit.
func unitCell(unit field.Unit, v float64) Cell {
	switch unit {
	case field.Micros:
		return micros(v)
	case field.Share:
		return share(v)
	case field.Factor:
		return factor(v)
	case field.Probability:
		return probability(v)
	case field.MHz, field.Watts, field.Celsius:
		return number{v, 0}
	case field.Millijoules:
		return number{v, 1}
	case field.Error:
		return relativeError(v)
	}
	return number{v, 2}
}

// unlessNone is v, or nothing where 0 or less stands for unknown.
func unlessNone(v float64) any {
	if v > 0 {
		return v
	}
	return nil
}

// seriesFields are the facts of a record's series. Tables show the series in one column; CSV has it as text and JSON as an object.
func seriesFields[T any](series func(T) results.SeriesKey) (column field.Field[T], filters []field.Field[T]) {
	column = field.Field[T]{
		Name: "series", Head: "series", Kind: field.Text, Hoist: true, Words: "device, kernel, data type and dimensions",
		Value: func(r T) any { return seriesCell(series(r)) },
	}
	filters = field.Within("series", field.Via(field.Filters(results.SeriesFields), func(r T) (results.SeriesKey, bool) { return series(r), true }))
	return column, filters
}
