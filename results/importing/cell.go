package importing

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/results/producer"
)

// text reads a text cell. Equal texts share one string.
func (f *csvFile) text(column string) (string, error) { return f.textIn(f.column(column)) }

func (f *csvFile) textIn(c column) (string, error) {
	s := f.in(c)
	if known, ok := f.words[s]; ok {
		return known, nil
	}
	if err := results.CheckText(s, results.MaxText); err != nil {
		return "", &Error{Path: f.path, Line: f.line, Reason: fmt.Sprintf("column %s: %v", c.name, err)}
	}
	s = strings.Clone(s) // without the line around it
	if len(f.words) < mostCellTexts {
		f.words[s] = s
	}
	return s, nil
}

func (f *csvFile) whole(c column, least int64) (int64, error) {
	s := f.in(c)
	if s == "" {
		return 0, f.fail(c.name, "is missing")
	}
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil:
		return 0, f.fail(c.name, "is not a whole number")
	case n < least:
		return 0, f.fail(c.name, "is below %d", least)
	}
	return n, nil
}

func (f *csvFile) dimension(column string, least int64) (int, error) {
	return f.dimensionIn(f.column(column), least)
}

func (f *csvFile) dimensionIn(c column, least int64) (int, error) {
	n, err := f.whole(c, least)
	if err == nil && n > results.MaxDimension {
		err = f.fail(c.name, "is above %d", int64(results.MaxDimension))
	}
	return int(n), err
}

// number reads a cell with a finite number of at least 0.
func (f *csvFile) number(c column) (float64, error) {
	s := f.in(c)
	if s == "" {
		return 0, f.fail(c.name, "is missing")
	}
	x, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange):
		return 0, f.fail(c.name, "is not a number")
	case err != nil || math.IsNaN(x) || math.IsInf(x, 0):
		return 0, f.fail(c.name, "is not a finite number")
	case x < 0:
		return 0, f.fail(c.name, "is negative")
	}
	return x, nil
}

// optional reads a number, 0 if missing.
func (f *csvFile) optional(column string) (float64, error) { return f.optionalIn(f.column(column)) }

func (f *csvFile) optionalIn(c column) (float64, error) {
	if f.in(c) == "" {
		return 0, nil
	}
	v, err := f.number(c)
	if err == nil && math.Abs(v) > results.MostFigure {
		return 0, f.fail(c.name, "is %g, above %g", v, results.MostFigure)
	}
	return v, err
}

// timeColumn is the launch time's column with its unit in microseconds.
type timeColumn struct {
	column
	unit float64
}

// time returns the file's time column; its name is empty if there is none.
func (f *csvFile) time() timeColumn {
	for _, t := range producer.TimeColumns {
		if f.has(t.Name) {
			return timeColumn{f.column(t.Name), t.Unit}
		}
	}
	return timeColumn{}
}

func (f *csvFile) microseconds(column string) (float64, error) {
	return f.microsecondsIn(timeColumn{f.column(column), 1})
}

func (f *csvFile) microsecondsIn(c timeColumn) (float64, error) {
	x, err := f.number(c.column)
	x *= c.unit
	if err == nil && (x < results.LeastUS || x > results.MostUS) {
		err = f.fail(c.name, "is not a time: expected %g to %g us", results.LeastUS, results.MostUS)
	}
	return x, err
}
