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
	// of freedom.
	US, SE, DF float64
	// Scatter is where SE comes from. Nothing is sure by what is not [OwnScatter].
	Scatter  ScatterOrigin
	Inferred bool
}

// AssumedError is the standard error of the logarithm of a time of which no error is known, with its degrees of freedom.
func AssumedError() (se, df float64) { return assumedScatter, assumedDF }

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
		scatter := c.scatterOf(cfg.MinSamples)
		for i, pt := range c.points {
			us, own := c.known(i, cfg.MinSamples, scatter)
			origin := OwnScatter
			if !own {
				origin = scatter.Origin
			}
			se := us.se
			if x := pt.modes; x != nil {
				se = math.Hypot(se, math.Abs(x.slow-x.fast)*math.Sqrt(x.share*(1-x.share)))
			}
			s.Rows = append(s.Rows, RowTime{M: pt.m, US: math.Exp(pt.us.y), SE: se, DF: us.df, Scatter: origin, Inferred: pt.inferred})
		}
		times = append(times, s)
	}
	return times, p.invalid(p.resolve(cfg), cfg), nil
}

// AdjustP adjusts the p-values of one family by Benjamini and Hochberg, so that rejecting those at
// most q keeps the false discovery rate at q.
func AdjustP(p []float64) []float64 { return benjaminiHochberg(p) }
