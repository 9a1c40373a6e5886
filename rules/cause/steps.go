package cause

import (
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

// Step is a rise in the times of a series where the kernel needs one more wave or tile.
type Step struct {
	// M is the last one before the step.
	M int
	// Kind is [WaveQuantization] for a wave of tiles, [TileQuantization] for a tile along M.
	Kind Kind
}

// waveShare is the least share of one wave's predicted rise that counts as the start of a new wave.
const waveShare = 0.5

// Steps finds the steps in the times of a series of the data, ascending in M; nil if the data lack the series
// or nothing is known. If the tile and the number of units are known, a step is where the tiles begin a new
// wave or a new row of tiles and the time rises. Otherwise the times must show a period.
func Steps(data infer.Data, key results.SeriesKey) []Step {
	at := slices.IndexFunc(data.Series, func(s results.Series) bool { return s.Key == key })
	if at < 0 {
		return nil
	}
	single := infer.Data{Name: data.Name, Meta: data.Meta, Series: data.Series[at : at+1], Sentinels: data.Sentinels}
	c := infer.Prepare(single, infer.Basis{}).Curves[0]
	s := infer.StairsOf(c, infer.AllOctaves)
	rises := map[int]bool{}
	for _, i := range s.Steps {
		rises[i] = true
	}
	var out []Step
	for i := 1; i < len(c.Points); i++ {
		before, p := c.Points[i-1], c.Points[i]
		if step, known := tiledStep(c, i, rises[i]); known {
			if step.M > 0 {
				out = append(out, step)
			}
			continue
		}
		if !rises[i] || s.Period == 0 || (p.M-1)/s.Period == (before.M-1)/s.Period {
			continue
		}
		out = append(out, Step{max(before.M, (p.M-1)/s.Period*s.Period), kind(s)})
	}
	return out
}

// tiledStep checks for a step before a point, using the tiles of its kernel. known is false if the tiles are
// not known on both sides; M is 0 if there is no step.
func tiledStep(c *infer.Curve, i int, rises bool) (step Step, known bool) {
	before, p := c.Points[i-1], c.Points[i]
	t, ok := c.TileOf(before)
	next, nextOK := c.TileOf(p)
	if !ok || !nextOK {
		return Step{}, false
	}
	if next != t && !rises {
		// Another tile takes over, often because the old one no longer fits. The step is then where the old
		// tile's wave or row of tiles ends, if there is one.
		return Step{}, true
	}
	old, now := t.Fill(before.M), t.Fill(p.M)
	rise := math.Expm1(p.US.Y - before.US.Y)
	switch {
	case now.Waves > old.Waves && (rises || rise >= waveShare*float64(now.Waves-old.Waves)/float64(old.Waves)):
		return Step{min(max(before.M, t.LastOf(now.Waves-1)), p.M-1), WaveQuantization}, true
	case now.Tiles > old.Tiles && rises:
		return Step{max(before.M, (p.M-1)/t.M*t.M), TileQuantization}, true
	}
	return Step{}, true
}

func kind(s *infer.Stairs) Kind {
	if s.Period <= tilePeriod {
		return TileQuantization
	}
	return WaveQuantization
}
