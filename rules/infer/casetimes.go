package infer

import (
	"math"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// ClockGap is the largest distance of two runs' clocks, as a share, for adjusting both to the clock between
// them: each is then within ClockReach.
const ClockGap = 2 * ClockReach

// CaseTime is the time of one case of a run.
type CaseTime struct {
	Series results.SeriesKey
	M      int
	// US is the median time of a launch in microseconds at the common clock.
	US float64
}

// CaseTimes returns the times of all measured cases of a run, and the clocks in MHz by device id. common
// holds the clocks of earlier runs by device model; CaseTimes adds new models to it. A run whose own clock is
// near enough to the common one is adjusted to it, so runs are compared at one clock.
func CaseTimes(data Data, cfg Basis, common map[string]float64) (times []CaseTime, clocks map[string]float64) {
	clocks = ReferenceClocks(data, cfg)
	for id, mhz := range clocks {
		model := data.Spec(id).Name
		if one := common[model]; one == 0 {
			common[model] = mhz
		} else if mhz > 0 && math.Abs(math.Log(mhz/one)) <= math.Log1p(ClockGap) {
			clocks[id] = one
		}
	}
	for _, c := range PrepareAt(data, clocks).Curves {
		for i := range c.Points {
			if p := &c.Points[i]; !p.Inferred {
				times = append(times, CaseTime{Series: c.Series.Key, M: p.M, US: math.Exp(p.US.Y + c.meanOverCentre(p))})
			}
		}
	}
	return times, clocks
}

// meanOverCentre is the log of the mean of a row's samples over their center, for a curve with bimodal
// timings; 0 for others. The center jumps between the two levels from run to run, but the mean shows how
// often the machine is at each.
func (c *Curve) meanOverCentre(p *Point) float64 {
	if p.Like == nil {
		return 0
	}
	y, n := 0.0, 0.0
	for j := range c.Series.Rows[p.Row].Samples {
		if s := &c.Series.Rows[p.Row].Samples[j]; s.Usable() {
			y, n = y+math.Log(s.US), n+1
		}
	}
	return y/n - p.Seen.Y
}

// CaseLevel is the time of one case of a run, and its dependence on the clock.
type CaseLevel struct {
	Series results.SeriesKey
	M      int
	// Row has the case's samples. It is shared with the data that it comes from.
	Row *results.Row
	// N counts the samples with a time.
	N int
	// Observed is the log of a launch's time in microseconds as observed. AtClock is the same at the case's
	// own mean clock. The log time at another clock is AtClock + Beta·log(mean clock ÷ that clock).
	Observed, AtClock float64
	// ClockMHz is the geometric mean of the samples' clocks, 0 if unknown. Beta is the elasticity of time in
	// the clock, BetaSE its standard error.
	ClockMHz, Beta, BetaSE float64
	// Spread is the standard deviation of a sample's log time.
	Spread float64
}

// CaseLevels returns the level of each measured case of a run, series by series, M ascending.
func CaseLevels(data Data, cfg Basis) []CaseLevel {
	var out []CaseLevel
	for _, c := range PrepareAt(data, ReferenceClocks(data, cfg)).Curves {
		for i := range c.Points {
			p := &c.Points[i]
			if p.Inferred {
				continue
			}
			level := CaseLevel{Series: c.Series.Key, M: p.M, Row: &c.Series.Rows[p.Row], N: p.N, Observed: p.Seen.Y, AtClock: p.US.Y,
				Beta: p.Elastic.Beta, BetaSE: p.Elastic.SE, Spread: p.US.SE * math.Sqrt(float64(p.N)) / stats.CentreFactor}
			shift := c.meanOverCentre(p)
			level.Observed, level.AtClock = level.Observed+shift, level.AtClock+shift
			if c.Clocked {
				x, n := 0.0, 0
				for j := range level.Row.Samples {
					if s := &level.Row.Samples[j]; s.Usable() {
						x, n = x+math.Log(s.ClockMHz/c.Reference), n+1
					}
				}
				x /= float64(n)
				level.AtClock -= p.Elastic.Beta * x
				level.ClockMHz = c.Reference * math.Exp(x)
			}
			out = append(out, level)
		}
	}
	return out
}
