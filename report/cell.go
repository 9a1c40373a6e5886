package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Cell is a typed value of a table: text for people, and a raw value (a number in the column's unit, a
// string, a bool or nil) for programs.
type Cell interface {
	Text() string
	Raw() any
}

// Tone is the meaning of a word; it selects the color.
type Tone int

const (
	Neutral Tone = iota
	Good         // green
	Bad          // red
	Open         // yellow: undecided, a warning
	Faint        // waived, absent
	Warned       // the text begins with "warning: "
	Command      // the text ends in a command to copy and is never wrapped
)

type word struct {
	text string
	tone Tone
}

func (w word) Text() string { return w.text }
func (w word) Raw() any     { return w.text }

// Tone returns the tone of the text.
func (w word) Tone() Tone { return w.tone }

// shown is a value with a text for people and a tone.
type shown struct {
	text string
	raw  any
	tone Tone
}

func (s shown) Text() string { return s.text }
func (s shown) Raw() any     { return s.raw }

// Tone returns the tone of the text.
func (s shown) Tone() Tone { return s.tone }

// code is text to be typed or compared exactly: a command, a path, a library's kernel name. Markdown shows it
// in a code span.
type code string

func (c code) Text() string { return string(c) }
func (c code) Raw() any     { return string(c) }

// quantity is a number with the text that its unit has in tables.
type quantity struct {
	float64
	text *func(float64) string // a pointer, so that quantities compare
}

func (q quantity) Text() string { return (*q.text)(q.float64) }
func (q quantity) Raw() any     { return finite(q.float64) }

// quantities returns the cells of a unit.
func quantities(text func(float64) string) func(float64) Cell {
	return func(v float64) Cell { return quantity{v, &text} }
}

// fixed is the text of finite numbers with a fixed count of decimals.
func fixed(n int) func(float64) string {
	return func(v float64) string { return number{v, n}.Text() }
}

// knownText is the text of v, but empty for zero, which means unknown, and for what is not finite.
func knownText(v float64, text func(float64) string, unit string) string {
	if v == 0 || !IsFinite(v) {
		return ""
	}
	return text(v) + unit
}

// Cells by unit. The raw value is the number itself.
var (
	Micros = quantities(formatMicros)
	millis = quantities(bareMillis) // of seconds
	saved  = quantities(fixed(3))
	Share  = quantities(FormatShare)
	// Factor is a ratio, shown as "1.23×", predicted one that was not measured.
	Factor        = quantities(func(v float64) string { return knownText(v, fixed(3), "×") })
	predicted     = quantities(func(v float64) string { return predictedMark + Factor(v).Text() })
	digits3       = quantities(func(v float64) string { return knownText(v, short3, "") })
	gain3         = quantities(func(v float64) string { return knownText(v, short3, "×") })
	fourFigures   = quantities(func(v float64) string { return Significant(v, 4) })
	sevenFigures  = quantities(func(v float64) string { return Significant(v, 7) })
	scientific    = quantities(func(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) })
	relativeError = quantities(func(v float64) string { return strconv.FormatFloat(v, 'e', 2, 64) })
	probability   = quantities(func(v float64) string {
		if v != 0 && v < 0.0001 {
			return "<0.0001"
		}
		return number{v, 4}.Text()
	})
	// stake is the time at stake in microseconds. Tables leave an unknown cell empty.
	stake = quantities(func(v float64) string {
		if v <= 0 {
			return ""
		}
		return formatMicros(v)
	})
)

// rate is a rate in operations per second; the raw value is in 1e9 operations per second.
type rate struct {
	v     float64
	dtype kernels.DType
}

func (r rate) Text() string { return formatOps(r.v, r.dtype) }
func (r rate) Raw() any     { return finite(r.v / 1e9) }

// gbytes is a bandwidth in bytes per second; the raw value is in GB/s.
type gbytes float64

func (v gbytes) Text() string { return formatRate(float64(v), "B/s") }
func (v gbytes) Raw() any     { return finite(float64(v) / 1e9) }

type size int64

func (v size) Text() string { return Bytes(int64(v)) }
func (v size) Raw() any     { return int64(v) }

type span time.Duration

func (v span) Text() string { return Duration(time.Duration(v)) }
func (v span) Raw() any     { return time.Duration(v).Seconds() }

// bounds is an estimate with its interval: "12.0 % [10.1, 13.9]".
type bounds struct {
	stats.Interval
	unit func(float64) Cell
}

// Estimate is an estimate in a unit with its interval.
func Estimate(v stats.Interval, unit func(float64) Cell) Cell { return bounds{v, unit} }

func (b bounds) Text() string {
	if b.Interval == (stats.Interval{}) || math.IsNaN(b.Mid) {
		return ""
	}
	mid := b.unit(b.Mid).Text()
	if b.Lo == b.Hi {
		return mid
	}
	trim := func(v float64) string {
		if math.IsInf(v, -1) {
			return "-inf"
		}
		if math.IsInf(v, 1) {
			return "inf"
		}
		return strings.TrimRight(b.unit(v).Text(), " %×")
	}
	return mid + " [" + trim(b.Lo) + ", " + trim(b.Hi) + "]"
}

// Short returns the estimate without the interval.
func (b bounds) Short() string {
	b.Lo, b.Hi = b.Mid, b.Mid
	return b.Text()
}

func (b bounds) Raw() any { return b.unit(b.Mid).Raw() }

func toCell(v any) Cell {
	switch v := v.(type) {
	case nil:
		return word{}
	case Cell:
		return v
	case string:
		return word{text: v}
	case fmt.Stringer:
		return word{text: v.String()}
	}
	return plain{v}
}

type plain struct{ v any }

func (p plain) Text() string {
	if b, ok := p.v.(bool); ok {
		if b {
			return "yes"
		}
		return "no"
	}
	return fmt.Sprint(p.v)
}
func (p plain) Raw() any { return p.v }

// IsFinite is false for infinities and NaN.
func IsFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// finite is v, or nil if JSON cannot represent it.
func finite(v float64) any {
	if !IsFinite(v) {
		return nil
	}
	return v
}

// number has a fixed count of decimals; its unit is in the header.
type number struct {
	v        float64
	decimals int
}

func (n number) Text() string {
	if !IsFinite(n.v) {
		return ""
	}
	return strconv.FormatFloat(n.v, 'f', n.decimals, 64)
}
func (n number) Raw() any { return finite(n.v) }
