package sweep

import (
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
)

// Designer chooses which rows of inferred series are measured: see [PlannedSeries].Infer.
type Designer interface {
	// Seeds returns the Ms of s that the screening rounds measure, ascending, given what would
	// run; choices is nil where nothing was told.
	Seeds(s PlannedSeries, choices results.Choices) (Batches, error)
	// More returns further cases of series to measure, given the samples of all earlier
	// rounds; none when every row is known well enough. inferred is how many rows are known
	// though they were not measured. It answers equal questions equally, or a resumed sweep
	// would choose differently.
	//
	// The series are the inferred ones of one device and of the sweep's shard. The cases are
	// those that are measured, of other series too.
	More(series []PlannedSeries, choices map[results.SeriesKey]results.Choices, cases []results.Case, samples []results.Sample) (more []results.Case, inferred int, err error)
}

// Known says what is known of the rows of a plan: those of the shard, on the devices that
// are there.
type Known struct {
	// Rows is how many there are, Measured how many have the samples of the screening at
	// least. Inferred rows are known without being measured.
	Rows     int `json:"rows"`
	Measured int `json:"measured"`
	Inferred int `json:"inferred"`
}

// Open is how many rows are neither measured nor inferred.
func (k Known) Open() int { return max(0, k.Rows-k.Measured-k.Inferred) }

func (k *Known) add(o Known) {
	k.Rows += o.Rows
	k.Measured += o.Measured
	k.Inferred += o.Inferred
}

// inferred lists the series of the plan's shard of which not every M has to be measured.
func (p *Plan) inferred() []PlannedSeries {
	return slices.DeleteFunc(p.Own(), func(s PlannedSeries) bool { return !s.Infer })
}

// Seeds are the Ms of inferred series that the screening rounds measure.
type Seeds map[results.SeriesKey]Batches

// Seeds asks a designer for the seeds of the inferred series of the plan's shard.
func (p *Plan) Seeds(d Designer, choices map[results.SeriesKey]results.Choices) (Seeds, error) {
	out := Seeds{}
	for _, s := range p.inferred() {
		ms, err := d.Seeds(s, choices[s.SeriesKey])
		if err != nil {
			return nil, fmt.Errorf("choosing the seeds of %v: %w", s.SeriesKey, err)
		}
		if len(ms) == 0 {
			return nil, fmt.Errorf("choosing the seeds of %v: there are none", s.SeriesKey)
		}
		for _, m := range ms {
			if !s.Ms.Has(m) {
				return nil, fmt.Errorf("choosing the seeds of %v: m%d is not in the plan", s.SeriesKey, m)
			}
		}
		out[s.SeriesKey] = ms
	}
	return out, nil
}
