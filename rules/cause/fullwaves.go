package cause

import (
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/phrase"
)

// Libraries pick the height of a tile to fit M, in steps of heightStep rows. Waves of such tiles are full at
// every multiple of rows × heightStep, where rows is how many rows of tiles fit into the waves: 33 × 8 = 264
// for four waves of tiles 256 wide over n4096 on 132 units.
const (
	heightStep              = 8
	leastHeight, mostHeight = 64, 256
	chance                  = 0.05
)

var widths = []int{256, 128, 192, 64}

// fullWaves: the kernel has no name, but the time steps up below the row where waves of tiles are full, and
// also for slightly higher and lower tiles.
func (w *Witness) fullWaves() (Kind, string) {
	units := infer.Units(w.Curve.Spec)
	switch {
	case !w.Curve.Series.Key.Operation.IsProduct(), !w.Curve.Series.Key.OverM():
		return "", "" // tiles cover the C of a product, whose N is constant
	case w.tiled():
		return "", "" // the tiles themselves were checked
	case units == 0:
		return "", "the number of tiles in one wave is unknown"
	case w.Reference.M == 0 || w.Reference.M > w.Row.M:
		return "", ""
	}
	first, ok := w.Curve.At(w.Reference.M)
	if !ok {
		return "", ""
	}
	why := ""
	for at := w.At; at > first; at-- {
		if !w.explains(w.Curve.Fall(at)) {
			continue
		}
		rise := phrase.Percent(math.Expm1(w.Curve.Envelope()[at] - w.Curve.Envelope()[at-1]))
		if f, ok := w.fullAt(at, units); ok {
			return WaveQuantization,
				fmt.Sprintf("tiles of %dx%d would fill %s of %d units at m%d, where the time steps up by %s; other tile heights do the "+
					"same, every %d rows from m%d to m%d",
					f.last/f.rows, f.width, phrase.Count(f.waves, "wave"), units, f.last, rise, f.rows*heightStep, f.first, f.final)
		}
		if t, luck, ok := w.exactAt(at, units); ok {
			last := (w.Curve.Points[at].M - 1) / t.M * t.M
			o := t.Fill(last)
			return WaveQuantization,
				fmt.Sprintf("%d tiles of %dx%d would fill %s of %d units at m%d to %s, which is true for %s of the sizes around it, and "+
					"the time steps up there by %s",
					o.Tiles, t.M, t.N, phrase.Count(o.Waves, "wave"), units, last, phrase.Percent(o.Wave), phrase.Percent(luck), rise)
		}
		if why == "" {
			why = fmt.Sprintf("the time steps up by %s after m%d, but tiles of %d to %d rows fill no wave of %d units that shows as "+
				"steps at other sizes",
				rise, w.Curve.Points[at-1].M, leastHeight, mostHeight, units)
		}
	}
	if why == "" {
		why = fmt.Sprintf("no single step of the time between m%d and m%d costs %s", w.Reference.M, w.Row.M,
			phrase.Percent(explainShare*w.Loss))
	}
	return "", why
}

// usualTiles are the tiles that are tried for exactly full waves.
var usualTiles = [][2]int{{128, 256}, {256, 128}, {128, 128}}

// exact is the least occupancy of exactly full waves.
const exact = 0.99

// exactAt reports whether a usual tile fills whole waves exactly just before a point. luck is the share of
// such Ms around the point; it must be small.
func (w *Witness) exactAt(at, units int) (t infer.Tiling, luck float64, ok bool) {
	c := w.Curve
	tilings := make([]infer.Tiling, len(usualTiles))
	for i, s := range usualTiles {
		tilings[i] = infer.Tiling{M: s[0], N: s[1], Across: (c.Series.Key.N + s[1] - 1) / s[1], Units: units, Columns: c.Series.Key.N}
	}
	fullBefore := func(i int, t infer.Tiling) bool {
		last := (c.Points[i].M - 1) / t.M * t.M
		return last >= c.Points[i-1].M && t.Fill(last).Wave >= exact
	}
	full, places := 0, 0
	for i := 1; i < len(c.Points); i++ {
		if 2*c.Points[i].M < c.Points[at].M || c.Points[i].M > 2*c.Points[at].M {
			continue
		}
		places++
		if slices.ContainsFunc(tilings, func(t infer.Tiling) bool { return fullBefore(i, t) }) {
			full++
		}
	}
	luck = float64(full) / float64(max(places, 1))
	for _, t := range tilings {
		if luck > chance || !fullBefore(at, t) {
			continue
		}
		row, before := t.Fill(w.Row.M), t.Fill((c.Points[at].M-1)/t.M*t.M)
		if w.explains(1 - row.Wave*row.Tile/(before.Wave*before.Tile)) {
			return t, luck, true
		}
	}
	return infer.Tiling{}, luck, false
}

type fullWave struct {
	width, waves, rows int // the tiles' width, the waves, the rows of tiles in them
	last               int // the last M that fits
	// first and final are the ends of the run of places with a step, rows × heightStep apart, that includes
	// last; more is the number of the other places.
	first, final, more int
}

// fullAt finds waves that are full just before a point. One M is no evidence, because many waves are
// possible. So the steps must continue without a gap at the neighboring tile heights, for longer than chance
// allows.
func (w *Witness) fullAt(at, units int) (best fullWave, ok bool) {
	c := w.Curve
	before, behind := c.Points[at-1].M, c.Points[at].M
	steps, places := 0, 0
	for i := 1; i < len(c.Points); i++ {
		if 2*c.Points[i].M >= before && c.Points[i].M <= 2*behind {
			places++
			if c.IsStep(i) {
				steps++
			}
		}
	}
	share := float64(steps) / float64(max(places, 1))
	for _, width := range widths {
		across := (c.Series.Key.N + width - 1) / width
		for waves := 1; ; waves++ {
			f := fullWave{width: width, waves: waves, rows: waves * units / across}
			if f.rows*leastHeight > behind {
				break
			}
			if f.rows == 0 {
				continue
			}
			period := f.rows * heightStep
			if f.last = (behind - 1) / period * period; f.last < before || f.last > f.rows*mostHeight {
				continue
			}
			// Such tiles must waste as much at the row itself.
			t := infer.Tiling{M: f.last / f.rows, N: width, Across: across, Units: units, Columns: c.Series.Key.N}
			row, full := t.Fill(w.Row.M), t.Fill(f.last)
			if !w.explains(1 - row.Wave*row.Tile/(full.Wave*full.Tile)) {
				continue
			}
			f.first, f.final = f.last, f.last
			for _, way := range []int{-period, period} {
				for m := f.last + way; m >= f.rows*leastHeight && m <= f.rows*mostHeight; m += way {
					if i, _ := c.At(m + 1); i == 0 || i == len(c.Points) || !c.IsStep(i) {
						break
					}
					f.first, f.final, f.more = min(f.first, m), max(f.final, m), f.more+1
				}
			}
			// The run can start at any of f.more+1 positions around the step.
			luck := float64(f.more+1) * math.Pow(share, float64(f.more))
			if luck <= chance && f.more > best.more {
				best, ok = f, true
			}
		}
	}
	return best, ok
}
