package sweep

import (
	"time"

	"github.com/gemmaudit/gemmaudit/results"
)

// Observer is told what a sweep does. Calls come one at a time, between blocks:
// they are wall time during which nothing is measured, so they must be short.
type Observer interface {
	// Message is something that the user should know: what was left out, a
	// warm-up that did not settle, a case that failed.
	Message(text string)
	// Progress follows every block of the sweep.
	Progress(Progress)
	// Drift follows every visit to a sentinel.
	Drift(Drift)
	// Sample follows every sample that was stored, sentinels' included.
	Sample(c results.Case, s results.Sample)
}

// Progress is how far a sweep has come. With several devices, Done, Planned and
// Left speak of all of them, the rest of the device that reports.
type Progress struct {
	Device  string
	Round   int // from 0
	Rounds  int
	Done    int // samples and failures, earlier starts of the run included
	Planned int // of the rounds that are certain to come
	Elapsed time.Duration
	// Left is the expected time to Planned, 0 when nothing is known yet.
	Left time.Duration
	Case results.Case
	US   float64 // of a launch
	// MFU is relative to the device's peak, 0 when none is known.
	MFU float64
	// Busy is the share of wall time spent inside blocks so far.
	Busy float64
	// Known says of a plan that infers rows what is known of them; else it is zero.
	Known Known
}

// Drift is how far a sentinel's time is from what is usual in the run so far.
type Drift struct {
	Case results.Case `json:"case"`
	// UsualUS is the median of all samples, LastUS that of the latest few.
	UsualUS float64 `json:"usual_us"`
	LastUS  float64 `json:"last_us"`
	// Change is LastUS ÷ UsualUS − 1: zero, and no news, while there are no more
	// samples than the latest few.
	Change  float64 `json:"change"`
	Samples int     `json:"samples"`
}

// NoObserver observes nothing.
type NoObserver struct{}

// Message implements Observer.
func (NoObserver) Message(string) {}

// Progress implements Observer.
func (NoObserver) Progress(Progress) {}

// Drift implements Observer.
func (NoObserver) Drift(Drift) {}

// Sample implements Observer.
func (NoObserver) Sample(results.Case, results.Sample) {}

// Chooser says where more samples would help. It is asked after the screening
// rounds and at the later [results.Looks]; what it finds open is measured until the next.
type Chooser interface {
	// Open returns the ids of the cases whose verdict is open, given the
	// samples of all earlier rounds. It must answer equal questions equally, or
	// a resumed sweep would choose differently.
	Open(cases []results.Case, samples []results.Sample) ([]int64, error)
}
