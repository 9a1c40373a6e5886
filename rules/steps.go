package rules

import (
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
)

// Step is a place at which the time of a series steps up because a kernel needs
// one more of something.
type Step struct {
	// M is the last one before the step: the last that still fits.
	M int
	// Kind is what the kernel needs one more of: [WaveQuantisation] for a wave of
	// tiles, [TileQuantisation] for a tile along M.
	Kind Cause
}

// waveShare is the share of the rise that one more wave should bring, from which
// on a rise where the tiles begin a new wave is taken for that.
const waveShare = 0.5

// Steps finds the steps in the times of a series of the data, ascending in M; nil
// when the data lack the series or nothing is known. Where labels tell the tile
// and the number of units is known, a step is one when the tiles begin a new wave
// or a new row of tiles and the time rises there; elsewhere the times have
// to show a period by themselves.
func Steps(data Data, key results.SeriesKey) []Step {
	at := slices.IndexFunc(data.Series, func(s results.Series) bool { return s.Key == key })
	if at < 0 {
		return nil
	}
	single := Data{Name: data.Name, Meta: data.Meta, Series: data.Series[at : at+1], Sentinels: data.Sentinels}
	c := prepare(single, Config{}).curves[0]
	s := stairsOf(c, allOctaves)
	rises := map[int]bool{}
	for _, i := range s.steps {
		rises[i] = true
	}
	var out []Step
	for i := 1; i < len(c.points); i++ {
		before, p := c.points[i-1], c.points[i]
		if step, known := c.tiledStep(i, rises[i]); known {
			if step.M > 0 {
				out = append(out, step)
			}
			continue
		}
		if !rises[i] || s.period == 0 || (p.m-1)/s.period == (before.m-1)/s.period {
			continue
		}
		out = append(out, Step{max(before.m, (p.m-1)/s.period*s.period), s.kind()})
	}
	return out
}

// tiledStep looks at the step before a point with the tiles of its kernel. known
// is false when they are not known on both sides; M is 0 when there is no step.
func (c *curve) tiledStep(i int, rises bool) (step Step, known bool) {
	before, p := c.points[i-1], c.points[i]
	t, ok := c.tileOf(before)
	next, nextOK := c.tileOf(p)
	if !ok || !nextOK {
		return Step{}, false
	}
	if next != t && !rises {
		// Another tile takes over, often because the old one no longer fits: then the step
		// is where the old one's wave or row of tiles ends, if there is one.
		return Step{}, true
	}
	old, now := t.fill(before.m), t.fill(p.m)
	rise := math.Expm1(p.us.y - before.us.y)
	switch {
	case now.waves > old.waves && (rises || rise >= waveShare*float64(now.waves-old.waves)/float64(old.waves)):
		return Step{min(max(before.m, t.lastOf(now.waves-1)), p.m-1), WaveQuantisation}, true
	case now.tiles > old.tiles && rises:
		return Step{max(before.m, (p.m-1)/t.m*t.m), TileQuantisation}, true
	}
	return Step{}, true
}

// kind is what steps of the period are put down to.
func (s *stairs) kind() Cause {
	if s.period <= tilePeriod {
		return TileQuantisation
	}
	return WaveQuantisation
}
