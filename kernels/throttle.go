package kernels

import (
	"iter"
	"strings"
)

// Throttle lists the reasons for a reduced clock as run files and exports store them: separated by ", ",
// empty for none. [Throttled] makes it and [Throttle.Reasons] reads it.
type Throttle string

// ThrottleReason is a reason for a reduced clock. Imported samples may have other values.
type ThrottleReason string

// The reasons that devices report. PowerCap means that the device is at its power limit.
const (
	PowerCap          ThrottleReason = "power cap"
	TooHotDriver      ThrottleReason = "too hot (driver)"
	TooHotHardware    ThrottleReason = "too hot (hardware)"
	PowerBrake        ThrottleReason = "power brake"
	HardwareSlowdown  ThrottleReason = "hardware slowdown"
	ApplicationClocks ThrottleReason = "application clocks"
	SyncBoost         ThrottleReason = "sync boost"
	DisplayClocks     ThrottleReason = "display clocks"
	BoardLimit        ThrottleReason = "board limit"
	Reliability       ThrottleReason = "reliability"
)

// ThrottleKind is the cause of a reduced clock.
type ThrottleKind int

const (
	OtherThrottle ThrottleKind = iota
	HeatThrottle
	PowerThrottle
)

// Kind returns the reason's cause. Other programs' reasons are recognized by "thermal" and "power".
func (r ThrottleReason) Kind() ThrottleKind {
	switch r {
	case TooHotDriver, TooHotHardware:
		return HeatThrottle
	case PowerCap, PowerBrake:
		return PowerThrottle
	}
	switch words := strings.ToLower(string(r)); {
	case strings.Contains(words, "thermal"), strings.Contains(words, "too hot"):
		return HeatThrottle
	case strings.Contains(words, "power"):
		return PowerThrottle
	}
	return OtherThrottle
}

const reasonSeparator = ", "

// Throttled lists reasons.
func Throttled(reasons ...ThrottleReason) Throttle {
	var b strings.Builder
	for i, r := range reasons {
		if i > 0 {
			b.WriteString(reasonSeparator)
		}
		b.WriteString(string(r))
	}
	return Throttle(b.String())
}

// Reasons iterates over the listed reasons.
func (t Throttle) Reasons() iter.Seq[ThrottleReason] {
	return func(yield func(ThrottleReason) bool) {
		if t == "" {
			return
		}
		for r := range strings.SplitSeq(string(t), reasonSeparator) {
			if !yield(ThrottleReason(r)) {
				return
			}
		}
	}
}

// Has reports whether a reason is listed.
func (t Throttle) Has(reason ThrottleReason) bool {
	for r := range t.Reasons() {
		if r == reason {
			return true
		}
	}
	return false
}
