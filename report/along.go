package report

import "github.com/gemmaudit/gemmaudit/results"

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
