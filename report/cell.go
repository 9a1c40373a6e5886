package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules"
)

// Cell is a typed value of a table: text for people, and a raw value (a number
// in the column's unit, a string, a bool or nil) for machines.
type Cell interface {
	Text() string
	Raw() any
}

// Tone is the meaning of a word, from which its colour follows.
type Tone int

// The tones.
const (
	Neutral Tone = iota
	Good         // green
	Bad          // red
	Open         // yellow: undecided, a warning
	Faint        // waived, absent
	Warned       // a note that text begins with "warning: "
)

// word is a text with a meaning.
type word struct {
	text string
	tone Tone
}

func (w word) Text() string { return w.text }
func (w word) Raw() any     { return w.text }

// Tone is the meaning of the text.
func (w word) Tone() Tone { return w.tone }

// code is text to be typed or compared letter by letter: a command, a path, a
// library's name of a kernel. Markdown shows it in a code span.
type code string

func (c code) Text() string { return string(c) }
func (c code) Raw() any     { return string(c) }

// micros is a time in microseconds.
type micros float64

func (v micros) Text() string { return formatMicros(float64(v)) }
func (v micros) Raw() any     { return finite(float64(v)) }

// rate is a rate in operations a second, raw in 1e9 operations a second.
type rate struct {
	v     float64
	dtype kernels.DType
}

func (r rate) Text() string { return formatOps(r.v, r.dtype) }
func (r rate) Raw() any     { return finite(r.v / 1e9) }

// gbytes is a bandwidth in bytes a second, raw in GB/s.
type gbytes float64

func (v gbytes) Text() string { return formatRate(float64(v), "B/s") }
func (v gbytes) Raw() any     { return finite(float64(v) / 1e9) }

// size is a number of bytes, raw in bytes.
type size int64

func (v size) Text() string { return Bytes(int64(v)) }
func (v size) Raw() any     { return int64(v) }

// share is a part of 1, shown in per cent.
type share float64

func (v share) Text() string { return formatShare(float64(v)) }
func (v share) Raw() any     { return finite(float64(v)) }

// factor is a ratio, shown as "1.23×".
type factor float64

func (v factor) Text() string {
	if !isFinite(float64(v)) || v == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(v), 'f', 3, 64) + "×"
}
func (v factor) Raw() any { return finite(float64(v)) }

// probability is a p-value.
type probability float64

func (v probability) Text() string {
	switch p := float64(v); {
	case math.IsNaN(p):
		return ""
	case p != 0 && p < 0.0001:
		return "<0.0001"
	default:
		return strconv.FormatFloat(p, 'f', 4, 64)
	}
}
func (v probability) Raw() any { return finite(float64(v)) }

// span is a duration.
type span time.Duration

func (v span) Text() string { return Duration(time.Duration(v)) }
func (v span) Raw() any     { return time.Duration(v).Seconds() }

// bounds is an interval of one kind of number: "12.0 % [10.1, 13.9]".
type bounds struct {
	rules.Interval
	unit func(float64) Cell
}

func (b bounds) Text() string {
	if b.Interval == (rules.Interval{}) || math.IsNaN(b.Mid) {
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
func (b bounds) Raw() any { return b.unit(b.Mid).Raw() }

func shareCell(v float64) Cell  { return share(v) }
func factorCell(v float64) Cell { return factor(v) }
func microsCell(v float64) Cell { return micros(v) }

// toCell gives any value of a row its cell.
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

// plain is a value that prints as Go prints it: an int, a bool.
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

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// finite is v, or nil where JSON has no number for it.
func finite(v float64) any {
	if !isFinite(v) {
		return nil
	}
	return v
}

// number is a number with a fixed count of decimals; its unit is in the header.
type number struct {
	v        float64
	decimals int
}

func (n number) Text() string {
	if !isFinite(n.v) {
		return ""
	}
	return strconv.FormatFloat(n.v, 'f', n.decimals, 64)
}
func (n number) Raw() any { return finite(n.v) }
