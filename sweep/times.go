package sweep

import (
	"cmp"
	"slices"
	"time"
)

// Times breaks down a sweep's time outside of kernels, in seconds, summed over devices. Hidden is host work
// while a block runs; it costs no time.
type Times struct {
	SetUp float64 `json:"set_up"` // weights and warm-up, before the first sample
	// Warmups is the time until kernels were compiled, tuned and loaded, in their first runs.
	Warmups    float64 `json:"warmups,omitempty"`
	Binding    float64 `json:"binding"`
	Launching  float64 `json:"launching"` // assembling blocks and waiting for their end
	Journal    float64 `json:"journal"`
	Telemetry  float64 `json:"telemetry"`
	Chooser    float64 `json:"chooser"`    // deciding on the next rounds
	Allocation float64 `json:"allocation"` // allocating operands anew
	Collector  float64 `json:"collector"`  // freeing the program's own memory
	Other      float64 `json:"other"`
	Hidden     float64 `json:"hidden"`
}

func (t *Times) add(o Times) {
	t.SetUp += o.SetUp
	t.Warmups += o.Warmups
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

func (t *Times) known() float64 {
	return t.SetUp + t.Warmups + t.Binding + t.Launching + t.Journal + t.Telemetry + t.Chooser + t.Allocation + t.Collector
}

// Part is one of the [Times] with its display name.
type Part struct {
	Name    string
	Seconds float64
}

// Largest lists the parts of at least least seconds, largest first, without hidden time.
func (t Times) Largest(least float64) []Part {
	parts := []Part{{"set-up", t.SetUp}, {"first runs of kernels", t.Warmups}, {"binding launches", t.Binding},
		{"launching", t.Launching}, {"storing samples", t.Journal}, {"telemetry", t.Telemetry},
		{"choosing cases", t.Chooser}, {"allocating", t.Allocation}, {"freeing memory", t.Collector}, {"other", t.Other}}
	parts = slices.DeleteFunc(parts, func(p Part) bool { return p.Seconds < least })
	slices.SortStableFunc(parts, func(a, b Part) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return parts
}

// stopwatch also records whether the time was hidden behind a block.
type stopwatch struct {
	Times
	now    func() time.Time // nil is time.Now
	hidden bool             // a block runs at the time
}

func (w *stopwatch) time() time.Time {
	if w.now == nil {
		return time.Now()
	}
	return w.now()
}

// took adds the time since began to one of the times, or to the hidden time.
func (w *stopwatch) took(to *float64, began time.Time) time.Duration {
	d := w.time().Sub(began)
	if w.hidden {
		to = &w.Hidden
	}
	*to += d.Seconds()
	return d
}
