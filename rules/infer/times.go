package infer

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
	p := Prepare(data, cfg)
	for _, c := range p.Curves {
		s := SeriesTimes{Key: c.Series.Key}
		if c.Clocked {
			s.ClockMHz = c.Reference
		}
		scatter := c.ScatterOf(cfg.MinSamples)
		for i, pt := range c.Points {
			us, own := c.Known(i, cfg.MinSamples, scatter)
			origin := OwnScatter
			if !own {
				origin = scatter.Origin
			}
			se := us.SE
			if x := pt.Modes; x != nil {
				se = math.Hypot(se, math.Abs(x.Slow-x.Fast)*math.Sqrt(x.share*(1-x.share)))
			}
			s.Rows = append(s.Rows, RowTime{M: pt.M, US: math.Exp(pt.US.Y), SE: se, DF: us.DF, Scatter: origin, Inferred: pt.Inferred})
		}
		times = append(times, s)
	}
	return times, p.Invalid(p.Resolve(cfg), cfg)
}
