package rules

import (
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
)

// Step is a rise in the times of a series where the kernel needs one more wave or tile.
type Step struct {
	// M is the last one before the step.
	M int
	// Kind is [WaveQuantization] for a wave of tiles, [TileQuantization] for a tile along M.
	Kind Cause
}

// waveShare is the least share of one wave's predicted rise that counts as the start of a new wave.
const waveShare = 0.5

// Steps finds the steps in the times of a series of the data, ascending in M; nil if the data lack the series
// or nothing is known. If the tile and the number of units are known, a step is where the tiles begin a new
// wave or a new row of tiles and the time rises. Otherwise the times must show a period.
func Steps(data Data, key results.SeriesKey) []Step {
	at := slices.IndexFunc(data.Series, func(s results.Series) bool { return s.Key == key })
	if at < 0 {
		return nil
	}
	single := Data{Name: data.Name, Meta: data.Meta, Series: data.Series[at : at+1], Sentinels: data.Sentinels}
	c := prepare(single, Basis{}).curves[0]
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

// tiledStep checks for a step before a point, using the tiles of its kernel. known is false if the tiles are
// not known on both sides; M is 0 if there is no step.
func (c *curve) tiledStep(i int, rises bool) (step Step, known bool) {
	before, p := c.points[i-1], c.points[i]
	t, ok := c.tileOf(before)
	next, nextOK := c.tileOf(p)
	if !ok || !nextOK {
		return Step{}, false
	}
	if next != t && !rises {
		// Another tile takes over, often because the old one no longer fits. The step is then where the old
		// tile's wave or row of tiles ends, if there is one.
		return Step{}, true
	}
	old, now := t.fill(before.m), t.fill(p.m)
	rise := math.Expm1(p.us.Y - before.us.Y)
	switch {
	case now.waves > old.waves && (rises || rise >= waveShare*float64(now.waves-old.waves)/float64(old.waves)):
		return Step{min(max(before.m, t.lastOf(now.waves-1)), p.m-1), WaveQuantization}, true
	case now.tiles > old.tiles && rises:
		return Step{max(before.m, (p.m-1)/t.m*t.m), TileQuantization}, true
	}
	return Step{}, true
}

func (s *stairs) kind() Cause {
	if s.period <= tilePeriod {
		return TileQuantization
	}
	return WaveQuantization
}
