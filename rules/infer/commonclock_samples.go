package infer

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
)

// CommonClock adjusts single samples of a run to the common clock.
type CommonClock struct {
	clocks map[string]float64 // in MHz, by device
	betas  map[int64]float64  // by the ids of cases
}

// FitCommonClock fits how the time of each row of a run depends on the clock. It reads the run once and keeps
// none of its samples. While it reads, it holds a time and a clock per sample of the sweep, about an eighth
// of the memory that the rules need.
func FitCommonClock(run *results.Run, cfg Basis) (CommonClock, error) {
	readings, sentinels, err := readClocks(run)
	if err != nil {
		return CommonClock{}, fmt.Errorf("read the samples of %q: %w", run.Path(), err)
	}
	cases, err := run.Cases()
	if err != nil {
		return CommonClock{}, fmt.Errorf("read the cases of %q: %w", run.Path(), err)
	}
	data := Data{Meta: run.Meta(), Series: curvesOf(cases, readings), Sentinels: sentinels}
	out := CommonClock{betas: map[int64]float64{}}
	out.clocks = clocksToJudgeAt(data, cfg, func(device string) (clocks []float64) {
		for _, s := range data.Series {
			if s.Key.Device != device {
				continue
			}
			for _, row := range s.Rows {
				for _, x := range readings[row.Case.ID] {
					if clockTold(x.mhz) {
						clocks = append(clocks, x.mhz)
					}
				}
			}
		}
		return clocks
	})
	for _, s := range data.Series {
		out.fit(s, readings)
	}
	return out, nil
}

type reading struct{ us, mhz float64 }

func readClocks(run *results.Run) (sweep map[int64][]reading, sentinels []results.Sample, err error) {
	sweep = map[int64][]reading{}
	err = run.EachSample(func(s *results.Sample) {
		switch s.Phase {
		case results.PhaseSweep:
			sweep[s.CaseID] = append(sweep[s.CaseID], reading{s.US, s.ClockMHz})
		case results.PhaseSentinel:
			sentinels = append(sentinels, results.Sample{CaseID: s.CaseID, ClockMHz: s.ClockMHz})
		}
	})
	return sweep, sentinels, err
}

// curvesOf returns the curves of a run without samples, limited to single launches that the sweep has
// reached.
func curvesOf(cases []results.Case, reached map[int64][]reading) []results.Series {
	var out []results.Series
	place := map[results.SeriesKey]int{}
	for _, c := range cases {
		if len(c.Parts) > 0 || c.PadTo > 0 || len(reached[c.ID]) == 0 {
			continue
		}
		at, ok := place[c.SeriesKey]
		if !ok {
			at = len(out)
			place[c.SeriesKey], out = at, append(out, results.Series{Key: c.SeriesKey})
		}
		out[at].Rows = append(out[at].Rows, results.Row{Case: c})
	}
	for _, s := range out {
		slices.SortFunc(s.Rows, func(a, b results.Row) int {
			return cmp.Or(cmp.Compare(a.Case.M, b.Case.M), cmp.Compare(a.Case.ID, b.Case.ID))
		})
	}
	return out
}

func (c CommonClock) fit(s results.Series, readings map[int64][]reading) {
	reference := c.clocks[s.Key.Device]
	if reference <= 0 {
		return
	}
	tracks := make([]track, len(s.Rows))
	for i, row := range s.Rows {
		for _, x := range readings[row.Case.ID] { // a run's times are all usable
			if !clockTold(x.mhz) {
				return
			}
			tracks[i].y, tracks[i].x = append(tracks[i].y, math.Log(x.us)), append(tracks[i].x, math.Log(x.mhz/reference))
		}
	}
	for i, e := range elasticities(tracks) {
		c.betas[s.Rows[i].Case.ID] = e.Beta
	}
}

// At returns the time of a sample in microseconds at the common clock, and that clock in MHz. It returns 0, 0
// if the sample has no clock, and for cases outside of curves, such as remedies.
func (c CommonClock) At(of results.Case, s results.Sample) (us, mhz float64) {
	beta, ok := c.betas[of.ID] // only devices with a known clock
	if !ok || !clocked(&s) || !s.Usable() {
		return 0, 0
	}
	mhz = c.clocks[of.Device]
	return math.Exp(AtClock(s, beta, mhz)), mhz
}
