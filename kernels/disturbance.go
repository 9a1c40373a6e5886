package kernels

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Disturbance is the system's interference with a block. The zero value means that none was detected.
type Disturbance struct {
	Stolen    time.Duration // the hypervisor ran other guests on our CPUs
	Suspended time.Duration // the machine slept
	HeldUp    time.Duration // the host delayed launches that the device waited for
	Preempted int           // number of times that threads were descheduled
	// Lost is how much of the block's time, Block, its threads were descheduled; 0 if unknown.
	Lost, Block time.Duration
	// Other is any other stored text, such as an imported sample's.
	Other string
}

// String lists the disturbances as run files and exports store them: "stolen 4 ms, preempted 3 times: lost
// 2.1 of 9.8 ms". Times are rounded. [ParseDisturbance] reads it.
func (d Disturbance) String() string {
	var words []string
	if d.Stolen > 0 {
		words = append(words, fmt.Sprintf("stolen %d ms", d.Stolen.Milliseconds()))
	}
	if d.Suspended > 0 {
		words = append(words, fmt.Sprintf("suspended for %.3g s", d.Suspended.Seconds()))
	}
	if d.HeldUp > 0 {
		words = append(words, fmt.Sprintf("the host was held up for %.0f ms", 1e3*d.HeldUp.Seconds()))
	}
	if kept := d.offCPU(); kept != "" {
		if d.Lost > 0 {
			kept += fmt.Sprintf(": lost %s of %s ms", millis(d.Lost), millis(d.Block))
		}
		words = append(words, kept)
	}
	if d.Other != "" {
		words = append(words, d.Other)
	}
	return strings.Join(words, ", ")
}

func (d Disturbance) offCPU() string {
	switch {
	case d.Preempted == 1:
		return "preempted once"
	case d.Preempted > 1:
		return fmt.Sprintf("preempted %d times", d.Preempted)
	case d.Lost > 0:
		return "stopped"
	}
	return ""
}

func millis(t time.Duration) string {
	ms := 1e3 * t.Seconds()
	switch {
	case ms >= 9.95:
		return strconv.FormatFloat(ms, 'f', 0, 64)
	case ms >= 0.995:
		return strconv.FormatFloat(ms, 'f', 1, 64)
	}
	return strconv.FormatFloat(ms, 'f', 2, 64)
}

// ParseDisturbance reads a stored text. Parts unknown to [Disturbance.String] go to Other.
func ParseDisturbance(text string) Disturbance {
	var d Disturbance
	for text != "" {
		var part string
		part, text, _ = strings.Cut(text, ", ")
		if part != "" && !d.read(part) {
			if d.Other != "" {
				d.Other += ", "
			}
			d.Other += part
		}
	}
	return d
}

// read reads one part. It returns false for unknown parts and then changes nothing.
func (d *Disturbance) read(part string) bool {
	for _, f := range []struct {
		to          *time.Duration
		before, end string
		unit        time.Duration
	}{
		{&d.Stolen, "stolen ", " ms", time.Millisecond},
		{&d.Suspended, "suspended for ", " s", time.Second},
		{&d.HeldUp, "the host was held up for ", " ms", time.Millisecond},
	} {
		if number, ok := strings.CutPrefix(part, f.before); ok {
			number, ok = strings.CutSuffix(number, f.end)
			t := duration(number, f.unit)
			if !ok || t <= 0 || *f.to > 0 {
				return false
			}
			*f.to = t
			return true
		}
	}
	return d.readOffCPU(part)
}

func (d *Disturbance) readOffCPU(part string) bool {
	kept, lost, told := strings.Cut(part, ": lost ")
	var read Disturbance
	if told {
		of, block, ok := strings.Cut(strings.TrimSuffix(lost, " ms"), " of ")
		read.Lost, read.Block = duration(of, time.Millisecond), duration(block, time.Millisecond)
		if !ok || read.Lost <= 0 || read.Block <= 0 {
			return false
		}
	}
	if times, ok := strings.CutPrefix(kept, "preempted "); ok {
		read.Preempted, _ = strconv.Atoi(strings.TrimSuffix(times, " times"))
		if times == "once" {
			read.Preempted = 1
		}
	}
	if read.offCPU() != kept || d.offCPU() != "" {
		return false
	}
	d.Preempted, d.Lost, d.Block = read.Preempted, read.Lost, read.Block
	return true
}

// duration returns a number of units, or 0 if it is invalid or overflows a [time.Duration].
func duration(number string, unit time.Duration) time.Duration {
	v, err := strconv.ParseFloat(number, 64)
	if t := v * float64(unit); err == nil && t > 0 && t < 1<<62 {
		return time.Duration(t + 0.5)
	}
	return 0
}

// Kinds returns short names of the disturbances: "preempted", "stolen". For Other it returns the first word
// of each part.
func (d Disturbance) Kinds() []string {
	var kinds []string
	add := func(seen bool, kind string) {
		if seen {
			kinds = append(kinds, kind)
		}
	}
	add(d.Stolen > 0, "stolen")
	add(d.Suspended > 0, "suspended")
	add(d.HeldUp > 0, "held up")
	add(d.Preempted > 0, "preempted")
	add(d.Preempted == 0 && d.Lost > 0, "stopped")
	for _, part := range strings.FieldsFunc(d.Other, func(r rune) bool { return r == ',' || r == ';' }) {
		if words := strings.FieldsFunc(part, func(r rune) bool { return r == ' ' || r == '=' || r == ':' }); len(words) > 0 {
			kinds = append(kinds, words[0])
		}
	}
	return kinds
}
