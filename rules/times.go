package rules

import (
	"math"

	"github.com/gemmaudit/gemmaudit/results"
)

// SeriesTimes are the times of a series at the common clock.
type SeriesTimes struct {
	Key results.SeriesKey
	// ClockMHz is the common clock, 0 if clocks are unknown.
	ClockMHz float64
	// Rows are the known rows, measured or inferred, ascending in M.
	Rows []RowTime
}

// RowTime is the time of one launch with its error.
type RowTime struct {
	M int
	// US is the time in microseconds, SE the standard error of its logarithm with DF degrees
	// of freedom.
	US, SE, DF float64
	// Scatter is the source of SE. Only [OwnScatter] proves anything.
	Scatter  ScatterOrigin
	Inferred bool
}

// AssumedError is the standard error, with its degrees of freedom, of the logarithm of a time whose error is
// unknown.
func AssumedError() (se, df float64) { return assumedScatter, assumedDF }

// Times returns the times of a run's series, and the reason why the run can't be judged, empty if it can. The
// error of a bimodal row includes the distance of its levels, because a launch may be at either.
func Times(data Data, cfg Basis) (times []SeriesTimes, invalid string) {
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
			se := us.SE
			if x := pt.modes; x != nil {
				se = math.Hypot(se, math.Abs(x.slow-x.fast)*math.Sqrt(x.share*(1-x.share)))
			}
			s.Rows = append(s.Rows, RowTime{M: pt.m, US: math.Exp(pt.us.Y), SE: se, DF: us.DF, Scatter: origin, Inferred: pt.inferred})
		}
		times = append(times, s)
	}
	return times, p.invalid(p.resolve(cfg), cfg)
}
