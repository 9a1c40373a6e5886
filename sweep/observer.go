package sweep

import (
	"time"

	"github.com/gemmaudit/gemmaudit/results"
)

// Observer receives a sweep's events. Calls are sequential, between blocks: nothing is measured meanwhile, so
// they must be short.
type Observer interface {
	// Message reports something for the user: a case left out or failed, a warm-up that did not settle.
	Message(text string)
	// Progress is called after every block of the sweep.
	Progress(Progress)
	// Drift is called after every sentinel.
	Drift(Drift)
	// Sample is called for every stored sample, sentinels included.
	Sample(c results.Case, s results.Sample)
}

// Progress describes the progress of a sweep. Done, Planned and Left cover all devices, the rest the
// reporting one.
type Progress struct {
	Device  string
	Round   int // from 0
	Rounds  int
	Done    int // samples and failures, including earlier starts of the run
	Planned int // of the rounds that are certain to run
	Elapsed time.Duration
	// Left is the expected time until Planned, 0 if unknown.
	Left time.Duration
	Case results.Case
	US   float64 // of a launch
	// MFU is relative to the device's peak, 0 if that is unknown.
	MFU float64
	// Busy is the share of wall time inside blocks so far.
	Busy float64
	// Known counts known rows if the plan infers rows; else it is zero.
	Known Known
}

// Drift is the change of a sentinel's time since the run began.
type Drift struct {
	Case results.Case `json:"case"`
	// UsualUS is the median of all samples, LastUS the median of the latest few.
	UsualUS float64 `json:"usual_us"`
	LastUS  float64 `json:"last_us"`
	// Change is LastUS ÷ UsualUS − 1, and zero until there are more samples than the latest few.
	Change  float64 `json:"change"`
	Samples int     `json:"samples"`
}

// NoObserver ignores all events.
type NoObserver struct{}

// Message implements Observer.
func (NoObserver) Message(string) {}

// Progress implements Observer.
func (NoObserver) Progress(Progress) {}

// Drift implements Observer.
func (NoObserver) Drift(Drift) {}

// Sample implements Observer.
func (NoObserver) Sample(results.Case, results.Sample) {}

// Chooser selects the cases that need more samples. It is called after the screening and at the later
// [results.Looks].
type Chooser interface {
	// Open returns the ids of the cases with an open verdict, given the samples of all earlier rounds. It
	// must be deterministic, or a resumed sweep would differ.
	Open(cases []results.Case, samples []results.Sample) ([]int64, error)
}
