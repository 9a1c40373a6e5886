package infer

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Data is the rules' input from one run. The rules access no device or file, so they run on a table of
// numbers too.
type Data struct {
	// Name is the run's name in output: the file's base name.
	Name string
	Meta results.Meta
	// Series are the curves, rows ascending in M.
	Series []results.Series
	// Sentinels are the samples of the recurring cases, in order of Seq. Without them drift is unknown and
	// not corrected.
	Sentinels []results.Sample
	// Sustained are the cases of the sustained phase, with their samples.
	Sustained []results.Row
	// Choices are the kernels that would run at each M of a series, as reported before the timing. A series
	// without a report is absent.
	Choices map[results.SeriesKey]results.Choices
	// Launches are further launches of cases whose launch changed during the run.
	Launches []results.OtherLaunch
	// Asked are the Ms, ascending, of each series that is measured only in part; the other rows are inferred.
	// A series that is measured whole is absent.
	Asked map[results.SeriesKey][]int
	// Looks is the most looks that the run's plan allows; see [LooksAt]. 0 if there is no plan: verdicts then
	// pay for the looks that the numbers of samples suggest.
	Looks int
	// Traffic is the weight of time at stake, by default the plan's. Nil is 1 for every row.
	Traffic results.Traffic
	// Recorded is the recorded workload of the plan. It takes precedence as the weight of the series that it
	// covers.
	Recorded results.Recorded
	// Cut is what a deadline took from the request before the sweep; nil if nothing.
	Cut *results.Cut
}

// LoadData reads a run. The data is shared with the run, which reads its file once, and must not be changed.
func LoadData(run *results.Run) (Data, error) {
	loaded, err := run.Load()
	if err != nil {
		return Data{}, fmt.Errorf("read the samples of %q: %w", run.Path(), err)
	}
	data := Data{Name: filepath.Base(run.Path()), Meta: run.Meta(), Series: loaded.Series, Sentinels: loaded.Sentinels}
	if data.Sustained, err = run.RowsOf(loaded.Sustained); err != nil {
		return Data{}, fmt.Errorf("read the cases of %q: %w", run.Path(), err)
	}
	if data.Choices, err = run.Choices(); err != nil {
		return Data{}, fmt.Errorf("read the choices of %q: %w", run.Path(), err)
	}
	if data.Launches, err = run.OtherLaunches(); err != nil {
		return Data{}, fmt.Errorf("read the launches of %q: %w", run.Path(), err)
	}
	plan, err := data.Meta.Planned()
	if err != nil {
		return Data{}, fmt.Errorf("read %q: %w", run.Path(), err)
	}
	data.Cut = plan.Cut
	data.Asked, data.Looks, data.Traffic = results.Inferred(plan.Series), plannedLooks(plan), plan.Traffic
	if data.Traffic.Validate() != nil { // not planned by a sweep
		data.Traffic = nil
	}
	if data.Recorded = plan.Recorded; data.Recorded.Validate() != nil {
		data.Recorded = nil
	}
	return data, nil
}

// TrafficOf is the traffic of a series' subject: the recorded workload's, or else the plan's.
func (d Data) TrafficOf(s kernels.Subject) results.Traffic {
	if t := d.Recorded.Traffic(s); t != nil {
		return t
	}
	return d.Traffic
}

// Samples is the number of samples of the sweep.
func (d Data) Samples() int {
	n := 0
	for _, s := range d.Series {
		for _, r := range s.Rows {
			n += len(r.Samples)
		}
	}
	return n
}

// Taken is the time of the sweep's first sample. known is false if no sample has a time; then it is the time
// of the run's creation or import.
func (d Data) Taken() (at time.Time, known bool) {
	var first int64
	for _, s := range d.Series {
		for _, r := range s.Rows {
			for i := range r.Samples {
				if t := r.Samples[i].StartedUnixMicro; t > 0 && (first == 0 || t < first) {
					first = t
				}
			}
		}
	}
	if first == 0 {
		return d.Meta.Created, d.Meta.Source == ""
	}
	return time.UnixMicro(first).UTC(), true
}

// Keys lists the series.
func (d Data) Keys() []results.SeriesKey {
	keys := make([]results.SeriesKey, len(d.Series))
	for i, s := range d.Series {
		keys[i] = s.Key
	}
	return keys
}

// devices maps the cases of the sentinels to their devices. It adds one case per series, so it names all
// devices.
func (d Data) devices() map[int64]string {
	recur := map[int64]bool{}
	for i := range d.Sentinels {
		recur[d.Sentinels[i].CaseID] = true
	}
	out := map[int64]string{}
	for _, s := range d.Series {
		for i := range s.Rows {
			if id := s.Rows[i].Case.ID; i == 0 || recur[id] {
				out[id] = s.Key.Device
			}
		}
	}
	return out
}

// Spec returns the spec of a device of the run, or the zero Spec with the id as its name if it is unknown
// (imported data).
func (d Data) Spec(device string) kernels.Spec {
	devices := d.Meta.Fingerprint.Devices
	named := -1
	for i := range devices {
		if devices[i].ID == device {
			return devices[i]
		}
		if named < 0 && devices[i].Name == device {
			named = i
		}
	}
	if named >= 0 {
		return devices[named]
	}
	return kernels.Spec{ID: device, Name: device}
}

// Specs is [Data.Spec] for many calls.
func (d Data) Specs() func(device string) kernels.Spec {
	devices := d.Meta.Fingerprint.Devices
	byID, byName := make(map[string]*kernels.Spec, len(devices)), make(map[string]*kernels.Spec, len(devices))
	for i := len(devices) - 1; i >= 0; i-- { // the first of equal ids wins
		byID[devices[i].ID], byName[devices[i].Name] = &devices[i], &devices[i]
	}
	return func(device string) kernels.Spec {
		if s := cmp.Or(byID[device], byName[device]); s != nil {
			return *s
		}
		return kernels.Spec{ID: device, Name: device}
	}
}

// RowMedian is the plain median time of a row in microseconds, without drift correction or weighting. ok is
// false for a row without a usable sample.
func RowMedian(r results.Row) (us float64, ok bool) {
	values := make([]float64, 0, len(r.Samples))
	for i := range r.Samples {
		if s := &r.Samples[i]; s.Usable() {
			values = append(values, s.US)
		}
	}
	if len(values) == 0 {
		return 0, false
	}
	return stats.Median(values), true
}

const (
	// lostReach is the largest share of a block's time that is subtracted as lost to other processes. A block
	// that lost more keeps its time: it was slowed in other ways too, or ran while the system counted it as
	// waiting.
	lostReach = 0.1
	// lostDoubt is the standard error of lost time as a share of it. The threads that wait for the preempted
	// one lose as much time, less if they still had work, and more until caches are filled again.
	lostDoubt = 0.5
)

// waited is the log of a sample's time over its time without the lost part; 0 if that is unknown.
func waited(s *results.Sample) float64 {
	if s.Disturbance == "" {
		return 0
	}
	share := s.LostUS() / s.US
	if share > lostReach {
		return 0
	}
	return -math.Log1p(-share)
}

// RanFor is the log of a sample's time in microseconds, without the time lost to other processes.
func RanFor(s *results.Sample) float64 { return math.Log(s.US) - waited(s) }

// The range of plausible clocks in MHz.
const leastClock, mostClock = 1, 1e6

func clocked(s *results.Sample) bool { return clockTold(s.ClockMHz) }

func clockTold(mhz float64) bool { return mhz >= leastClock && mhz <= mostClock }

// LooksAt is how many looks a sweep takes at samples that grow from screening to rounds: one at the end of
// screening, and one more each time the rounds have grown by half.
func LooksAt(screening, rounds int) int {
	if screening < 1 {
		return 1
	}
	return 1 + len(results.Looks(screening, rounds))
}

func plannedLooks(p results.Planned) int {
	if p.Screening < 1 || p.Rounds < p.Screening {
		return 0
	}
	return LooksAt(p.Screening, p.Rounds)
}
