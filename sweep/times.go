package sweep

import (
	"cmp"
	"slices"
	"time"
)

// Times is where the time of a sweep outside of kernels went, in seconds, summed over
// devices. What the host does while a block runs costs nothing and is Hidden.
type Times struct {
	SetUp      float64 `json:"set_up"`     // weights and warm-up, before the first sample
	Binding    float64 `json:"binding"`    // making launches of cases
	Launching  float64 `json:"launching"`  // putting blocks together and waiting for their end
	Journal    float64 `json:"journal"`    // storing samples and labels
	Telemetry  float64 `json:"telemetry"`  // asking devices for their state
	Chooser    float64 `json:"chooser"`    // deciding on the rounds to come
	Allocation float64 `json:"allocation"` // allocating operands anew
	Collector  float64 `json:"collector"`  // freeing the program's own memory
	Other      float64 `json:"other"`
	Hidden     float64 `json:"hidden"`
}

// add sums up.
func (t *Times) add(o Times) {
	t.SetUp += o.SetUp
	t.Binding += o.Binding
	t.Launching += o.Launching
	t.Journal += o.Journal
	t.Telemetry += o.Telemetry
	t.Chooser += o.Chooser
	t.Allocation += o.Allocation
	t.Collector += o.Collector
	t.Other += o.Other
	t.Hidden += o.Hidden
}

// known is all but what is hidden or left over.
func (t *Times) known() float64 {
	return t.SetUp + t.Binding + t.Launching + t.Journal + t.Telemetry + t.Chooser + t.Allocation + t.Collector
}

// Part is one of the [Times] under its name for people.
type Part struct {
	Name    string
	Seconds float64
}

// Largest lists the parts of at least the seconds given, largest first; hidden ones cost
// nothing and are left out.
func (t Times) Largest(least float64) []Part {
	parts := []Part{{"set-up", t.SetUp}, {"binding launches", t.Binding}, {"launching", t.Launching}, {"storing samples", t.Journal},
		{"telemetry", t.Telemetry}, {"choosing cases", t.Chooser}, {"allocating", t.Allocation}, {"freeing memory", t.Collector}, {"other", t.Other}}
	parts = slices.DeleteFunc(parts, func(p Part) bool { return p.Seconds < least })
	slices.SortStableFunc(parts, func(a, b Part) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return parts
}

// stopwatch tells how long something took, unless it is hidden behind a block.
type stopwatch struct {
	Times
	now    func() time.Time // nil is time.Now
	hidden bool             // a block runs meanwhile
}

func (w *stopwatch) time() time.Time {
	if w.now == nil {
		return time.Now()
	}
	return w.now()
}

// took adds the time since began to one of the times, or to what is hidden, and returns how
// long it is.
func (w *stopwatch) took(to *float64, began time.Time) time.Duration {
	d := w.time().Sub(began)
	if w.hidden {
		to = &w.Hidden
	}
	*to += d.Seconds()
	return d
}
