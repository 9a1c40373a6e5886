package rules

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/results"
)

// SeriesTimes are the times of a series at the common clock, by which its rows are judged.
type SeriesTimes struct {
	Key results.SeriesKey
	// ClockMHz is the clock that the times hold at, 0 where clocks are not known.
	ClockMHz float64
	// Rows are those that are known, measured or inferred, ascending in M.
	Rows []RowTime
}

// RowTime is what is known of the time of one launch.
type RowTime struct {
	M int
	// US is the time in microseconds, SE the standard error of its logarithm with DF degrees
	// of freedom. SE is 0 where one sample a row tells nothing of the noise.
	US, SE, DF float64
	Inferred   bool
}

// Times are the times of a run's series, and why the run can't be judged, empty where it can.
// The error of a row with two levels holds the distance of both, as a launch may meet either.
func Times(data Data, cfg Config) (times []SeriesTimes, invalid string, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, "", fmt.Errorf("rules: %w", err)
	}
	p := prepare(data, cfg)
	for _, c := range p.curves {
		s := SeriesTimes{Key: c.series.Key}
		if c.clocked {
			s.ClockMHz = c.reference
		}
		for _, pt := range c.points {
			se := pt.us.se
			if x := pt.modes; x != nil {
				se = math.Hypot(se, math.Abs(x.slow-x.fast)*math.Sqrt(x.share*(1-x.share)))
			}
			s.Rows = append(s.Rows, RowTime{M: pt.m, US: math.Exp(pt.us.y), SE: se, DF: pt.us.df, Inferred: pt.inferred})
		}
		times = append(times, s)
	}
	return times, p.invalid(p.resolve(cfg), cfg), nil
}

// AdjustP adjusts the p-values of one family by Benjamini and Hochberg, so that rejecting those at
// most q keeps the false discovery rate at q.
func AdjustP(p []float64) []float64 { return benjaminiHochberg(p) }
