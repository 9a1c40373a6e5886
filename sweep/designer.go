package sweep

import (
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
)

// Designer chooses the measured rows of inferred series: see [PlannedSeries].Infer.
type Designer interface {
	// Seeds returns the Ms of s that the screening rounds measure, ascending. choices describes what would
	// run; it may be nil.
	Seeds(s PlannedSeries, choices results.Choices) (Batches, error)
	// More returns further cases to measure, given the samples of all earlier rounds, or none if every row is
	// known well enough. inferred counts rows known without measurement. More must be deterministic, or a
	// resumed sweep would differ.
	//
	// series are the inferred ones of one device in the sweep's shard; cases are all measured ones.
	More(series []PlannedSeries, choices map[results.SeriesKey]results.Choices, cases []results.Case,
		samples []results.Sample) (more []results.Case, inferred int, err error)
}

// Known counts the rows of a plan's shard on the devices present.
type Known struct {
	// Rows is the total. Measured rows have at least the screening's samples. Inferred rows are known without
	// being measured.
	Rows     int `json:"rows"`
	Measured int `json:"measured"`
	Inferred int `json:"inferred"`
}

// Open returns the number of rows neither measured nor inferred.
func (k Known) Open() int { return max(0, k.Rows-k.Measured-k.Inferred) }

func (k *Known) add(o Known) {
	k.Rows += o.Rows
	k.Measured += o.Measured
	k.Inferred += o.Inferred
}

func (p *Plan) inferred() []PlannedSeries {
	return slices.DeleteFunc(p.Own(), func(s PlannedSeries) bool { return !s.Infer })
}

// Seeds holds the Ms of inferred series that the screening rounds measure.
type Seeds map[results.SeriesKey]Batches

// Seeds asks a designer for the seeds of the inferred series in the plan's shard.
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
