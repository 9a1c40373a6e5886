package rules

import (
	"math"

	"github.com/gemmaudit/gemmaudit/results"
)

// CaseTime is the time of one case of a run.
type CaseTime struct {
	Series results.SeriesKey
	M      int
	// US is the median time of a launch in microseconds at the common clock.
	US float64
}

// CaseTimes returns the times of all cases of a run that were measured, and the clocks in MHz by the ids of
// devices. common are the clocks of earlier runs by the models of devices, into which those of new models are put: a run whose own
// clock is near enough is brought to that one, so that runs are compared at one clock.
func CaseTimes(data Data, cfg Config, common map[string]float64) (times []CaseTime, clocks map[string]float64) {
	clocks = referenceClocks(data, cfg)
	for id, mhz := range clocks {
		model := data.spec(id).Name
		if one := common[model]; one == 0 {
			common[model] = mhz
		} else if mhz > 0 && math.Abs(math.Log(mhz/one)) <= math.Log1p(clockGap) {
			clocks[id] = one
		}
	}
	for _, c := range prepareAt(data, clocks).curves {
		for i := range c.points {
			if p := &c.points[i]; !p.inferred {
				times = append(times, CaseTime{Series: c.series.Key, M: p.m, US: math.Exp(p.us.y)})
			}
		}
	}
	return times, clocks
}
