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

// CaseLevel is what a run says of one case: where its times lie, and how they follow the clock.
type CaseLevel struct {
	Series results.SeriesKey
	M      int
	// Row has the case's samples. It is shared with the data that it comes from.
	Row *results.Row
	// N counts the samples that carry a time.
	N int
	// Observed is the log of the time of a launch in microseconds as it was observed, AtClock the same at the
	// case's own mean clock: a log time at another clock is AtClock + Beta·log(mean clock ÷ that clock).
	Observed, AtClock float64
	// ClockMHz is the geometric mean of the samples' clocks, 0 where they are not known; Beta and BetaSE say how the
	// time follows the clock, with its standard error.
	ClockMHz, Beta, BetaSE float64
	// Spread is the standard deviation of a sample's log time.
	Spread float64
}

// CaseLevels returns the level of each case of a run that was measured, series by series, M ascending.
func CaseLevels(data Data, cfg Config) []CaseLevel {
	var out []CaseLevel
	for _, c := range prepareAt(data, referenceClocks(data, cfg)).curves {
		for i := range c.points {
			p := &c.points[i]
			if p.inferred {
				continue
			}
			level := CaseLevel{Series: c.series.Key, M: p.m, Row: &c.series.Rows[p.row], N: p.n, Observed: p.seen.y, AtClock: p.us.y,
				Beta: p.elastic.beta, BetaSE: p.elastic.se, Spread: p.us.se * math.Sqrt(float64(p.n)) / centreFactor}
			if c.clocked {
				x, n := 0.0, 0
				for j := range level.Row.Samples {
					if s := &level.Row.Samples[j]; usable(s) {
						x, n = x+math.Log(s.ClockMHz/c.reference), n+1
					}
				}
				x /= float64(n)
				level.AtClock -= p.elastic.beta * x
				level.ClockMHz = c.reference * math.Exp(x)
			}
			out = append(out, level)
		}
	}
	return out
}
