package rules

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// Data is what the rules read of one run. They never look at a device or a
// file: everything is here, so a rule runs on a table of numbers as well.
type Data struct {
	// Name is the run's, for output: the file's base name.
	Name string
	Meta results.Meta
	// Series are the curves, rows ascending in M.
	Series []results.Series
	// Sentinels are the samples of the recurring cases, in order of Seq. None
	// means that drift is unknown and not corrected for.
	Sentinels []results.Sample
	// Sustained are the cases that ran by themselves for a while, with their samples of that phase.
	Sustained []results.Row
	// Choices are what was told, before anything was timed, to run at each M of a series.
	// A series of which nothing was told is not in it.
	Choices map[results.SeriesKey]results.Choices
	// Asked are the Ms, ascending, of the series of which not every one has to be measured: the
	// others are inferred. A series that is not in it is what its rows are.
	Asked map[results.SeriesKey][]int
	// Looks is the most looks at its samples that the run's plan allows; see [LooksAt]. 0 is that
	// no plan says, and verdicts pay for the looks that the numbers of samples suggest.
	Looks int
	// Traffic is the weight of time at stake: of the plan, unless somebody knows better. Nil is 1 for
	// every row.
	Traffic results.Traffic
}

// LoadData reads a run. What it returns is shared with the run, which reads its file
// once, and must not be changed.
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
	plan, err := data.Meta.Planned()
	if err != nil {
		return Data{}, fmt.Errorf("read %q: %w", run.Path(), err)
	}
	data.Asked, data.Looks, data.Traffic = results.Inferred(plan.Series), plannedLooks(plan), plan.Traffic
	if data.Traffic.Validate() != nil { // nothing that a sweep has planned
		data.Traffic = nil
	}
	return data, nil
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

// Taken is when the first sample of the sweep was taken. known is false where no sample tells, and the time is that at which the
// run was made, which for an import is when it was imported.
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

// devices maps the cases of the sentinels to their devices, and for each series one case
// more, so that all devices are named.
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

// spec returns what is known about a device of the run; the zero Spec with the
// id as its name when nothing is (imported data).
func (d Data) spec(device string) kernels.Spec {
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

// specs is [Data.spec] for many devices.
func (d Data) specs() func(device string) kernels.Spec {
	devices := d.Meta.Fingerprint.Devices
	byID, byName := make(map[string]*kernels.Spec, len(devices)), make(map[string]*kernels.Spec, len(devices))
	for i := len(devices) - 1; i >= 0; i-- { // of equals the first
		byID[devices[i].ID], byName[devices[i].Name] = &devices[i], &devices[i]
	}
	return func(device string) kernels.Spec {
		if s := cmp.Or(byID[device], byName[device]); s != nil {
			return *s
		}
		return kernels.Spec{ID: device, Name: device}
	}
}

// rowMedian is the plain median time of a row in microseconds: no drift
// correction, no weighting. ok is false for a row without a usable sample.
func rowMedian(r results.Row) (us float64, ok bool) {
	values := make([]float64, 0, len(r.Samples))
	for i := range r.Samples {
		if s := &r.Samples[i]; usable(s) {
			values = append(values, s.US)
		}
	}
	if len(values) == 0 {
		return 0, false
	}
	return median(values), true
}

// usable is false for samples that carry no time: a launch takes more than a
// picosecond and less than thirty years. A disturbed sample is used: to drop slow
// samples because they were slow would flatter, and the estimates stand a
// minority of them.
func usable(s *results.Sample) bool { return s.US >= 1e-6 && s.US <= 1e15 }

const (
	// lostReach is the largest share of a block's time that is subtracted as lost to others. Blocks that lost
	// more were slowed in other ways too, or ran while the system counted them as waiting: they keep
	// their time.
	lostReach = 0.1
	// lostDoubt is the standard error of lost time as a share of it. Threads that wait for the one that
	// was taken off its CPU lose as much, less where they had work left, and more until caches are filled again.
	lostDoubt = 0.5
)

// waited is the log of a sample's time over that without the time for which the block stood still; 0 where that is not
// known.
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

// ranFor is the log of a sample's time in microseconds, without what is known to be lost to others.
func ranFor(s *results.Sample) float64 { return math.Log(s.US) - waited(s) }

// The clocks in MHz that a sample is believed to tell.
const leastClock, mostClock = 1, 1e6

// clocked says whether a sample tells its clock.
func clocked(s *results.Sample) bool { return clockTold(s.ClockMHz) }

// clockTold says whether a clock in MHz is one.
func clockTold(mhz float64) bool { return mhz >= leastClock && mhz <= mostClock }
