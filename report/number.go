package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// formatMicros prints microseconds; the unit is in the column header. From 100 us on it prints one decimal,
// like published sweeps. Below it prints more, because a hundredth of a microsecond can still be a percent.
func formatMicros(us float64) string {
	a := math.Abs(us)
	switch {
	case !IsFinite(us):
		return ""
	case a < 10:
		return strconv.FormatFloat(us, 'f', 3, 64)
	case a < 100:
		return strconv.FormatFloat(us, 'f', 2, 64)
	case a < 1e6:
		return strconv.FormatFloat(us, 'f', 1, 64)
	}
	return strconv.FormatFloat(us, 'f', 0, 64)
}

// timeUnit chooses the unit for times up to us microseconds, and the factor from microseconds to it.
func timeUnit(us float64) (unit string, scale float64) {
	const most = 1e4 // more digits are hard to compare
	if us >= most && IsFinite(us) {
		return "ms", 1e-3
	}
	return "us", 1
}

// Significant prints n significant digits without an exponent.
func Significant(v float64, n int) string {
	if v == 0 {
		return "0"
	}
	digits := n - 1 - int(math.Floor(math.Log10(math.Abs(v))))
	if digits < 0 {
		digits = 0
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

// scaled prints four significant digits with a decimal prefix.
func scaled(v float64, unit string) string {
	if !IsFinite(v) {
		return ""
	}
	prefixes := []struct {
		factor float64
		name   string
	}{{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}
	for _, p := range prefixes {
		if math.Abs(v) >= p.factor {
			return Significant(v/p.factor, 4) + " " + p.name + unit
		}
	}
	return Significant(v, 4) + " " + unit
}

// formatRate prints a rate with its unit: "1.39 TFLOP/s", "28.1 GB/s". Zero means unknown and prints "".
func formatRate(v float64, unit string) string {
	if v == 0 {
		return ""
	}
	return scaled(v, unit)
}

func formatOps(v float64, d kernels.DType) string {
	if d == kernels.INT8 {
		return formatRate(v, "OP/s")
	}
	return formatRate(v, "FLOP/s")
}

// FormatShare prints a share as a percentage, with two digits for small ones.
func FormatShare(v float64) string {
	if !IsFinite(v) {
		return ""
	}
	p := 100 * v
	switch a := math.Abs(p); {
	case a != 0 && a < 0.1:
		return strconv.FormatFloat(p, 'f', 3, 64) + " %"
	case a != 0 && a < 1:
		return strconv.FormatFloat(p, 'f', 2, 64) + " %"
	}
	return strconv.FormatFloat(p, 'f', 1, 64) + " %"
}

// Bytes prints a size in binary units, "13.5 GiB", or "" if unknown.
func Bytes(n int64) string {
	if n <= 0 {
		return ""
	}
	v, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for v >= 1024 && i < len(units)-1 {
		v /= 1024
		i++
	}
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) + " " + units[i]
}

// Duration prints a duration for people: "1h 04m", "3m 20s", "12 s".
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Duration(-d)
	case d < time.Millisecond:
		return fmt.Sprintf("%d us", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	s := int64(d.Round(time.Second) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%dm %02ds", s/60, s%60)
	case s < 48*3600:
		return fmt.Sprintf("%dh %02dm", s/3600, s%3600/60)
	}
	return fmt.Sprintf("%dd %dh", s/86400, s%86400/3600)
}

// Count prints a number with its noun: "1 row", "3021 rows".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	switch {
	case noun == "series":
	case strings.HasSuffix(noun, "ch"):
		noun += "es"
	default:
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// countOf counts the elements that are so.
func countOf[T any](all []T, so func(T) bool) (n int) {
	for _, x := range all {
		if so(x) {
			n++
		}
	}
	return n
}

// formatRaw prints the shortest number that reads back exactly.
func formatRaw(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

func itoa(n int) string { return strconv.Itoa(n) }

// Plural prints a number with its noun or verb: "1 row lies", "2 rows lie".
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return itoa(n) + " " + many
}
