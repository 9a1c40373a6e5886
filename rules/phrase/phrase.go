package phrase

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/results"
)

// Dimension names the dimension that a curve runs along in a sentence: "M", "N", "query heads".
func Dimension(key results.SeriesKey) string {
	switch name := key.Along.Dimension; {
	case key.OverM():
		return "M"
	case len(name) == 1:
		return strings.ToUpper(name)
	default:
		return strings.ReplaceAll(name, "_", " ")
	}
}

// Figure formats a positive number with four significant digits and no exponent: times range from a
// microsecond to a minute.
func Figure(v float64) string {
	if !(v > 0) || math.IsInf(v, 1) {
		return fmt.Sprint(v)
	}
	return strconv.FormatFloat(v, 'f', max(0, 3-int(math.Floor(math.Log10(v)))), 64)
}

// Percent formats a share: "0.25 %" below one percent, "12.5 %" above.
func Percent(share float64) string {
	if share < 0.01 {
		return fmt.Sprintf("%.2f %%", 100*share)
	}
	return fmt.Sprintf("%.1f %%", 100*share)
}

// Count is a number of things: "1 row", "2 rows".
func Count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Rates compares two rates in FLOP/s, in the unit of the second.
func Rates(flops, against float64) string {
	unit, name := 1e12, "TFLOP/s"
	if against < unit {
		unit, name = 1e9, "GFLOP/s"
	}
	return fmt.Sprintf("%s of %s %s", Figure(flops/unit), Figure(against/unit), name)
}

// Kernel shortens the label of a kernel to the part that tells it from others.
func Kernel(label string) string {
	if label = strings.TrimPrefix(label, "void "); label == "" {
		return "an unnamed algorithm"
	}
	if open := indexAfter(label, "Kernel2<"); open > 0 {
		label = label[open:]
	}
	for i, r := range label {
		if i > 0 && (r == '>' || r == '(') {
			label = label[:i]
			break
		}
	}
	if len(label) > 64 {
		label = label[:64] + "…"
	}
	return label
}

func indexAfter(s, part string) int {
	if i := strings.Index(s, part); i >= 0 {
		return i + len(part)
	}
	return -1
}

// Roughly formats a share with two significant digits, rounded up.
func Roughly(share float64) string {
	percent := 100 * share
	unit := math.Pow(10, math.Floor(math.Log10(math.Max(percent, 0.01)))-1)
	return strconv.FormatFloat(math.Ceil(percent/unit-1e-9)*unit, 'f', max(0, -int(math.Floor(math.Log10(unit)+1e-9))), 64) + " %"
}
