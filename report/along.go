package report

import (
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
)

// extentText is a stretch of a curve's rows: "2055-2073", along another dimension than M "n 2055-2073".
func extentText(key results.SeriesKey, from, to int) string {
	if key.OverM() {
		return IntervalText(from, to)
	}
	return key.Axis() + " " + IntervalText(from, to)
}

// alongOf names the dimension that a curve runs along, for the page; empty for M.
func alongOf(key results.SeriesKey) string {
	if key.OverM() {
		return ""
	}
	return key.Axis()
}

// nameAxis puts axis in place of M into the heads of the sizes.
func nameAxis(sheet *Sheet, axis string) {
	for i := range sheet.Columns {
		switch c := &sheet.Columns[i]; c.Name {
		case "M":
			c.Name = axis
		case "m", "worst m":
			c.Name = strings.TrimSuffix(c.Name, "m") + strings.ToLower(axis)
		}
	}
}

// axisOf is the dimension of the records' curves, or "size" if they differ.
func axisOf[T any](records []T, series func(T) results.SeriesKey) string {
	word := func(r T) string { return series(r).AxisWord() }
	switch {
	case len(records) == 0:
		return "M"
	case differ(records, word):
		return "size"
	}
	return word(records[0])
}
