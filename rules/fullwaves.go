package rules

import (
	"fmt"
	"math"
	"slices"
)

// Libraries pick the height of a tile to fit M, in steps of heightStep rows. Waves of such tiles are full at
// every multiple of rows × heightStep, where rows is how many rows of tiles fit into the waves: 33 × 8 = 264
// for four waves of tiles 256 wide over n4096 on 132 units.
const (
	heightStep              = 8
	leastHeight, mostHeight = 64, 256
	chance                  = 0.05
)

// smallStep is the least share of the rate that a step between such waves costs.
const smallStep = 0.01

var widths = []int{256, 128, 192, 64}

// fullWaves: the kernel has no name, but the time steps up below the row where waves of tiles are full, and
// also for slightly higher and lower tiles.
func (w *witness) fullWaves() (Cause, string) {
	units := unitsOf(w.curve.spec)
	switch {
	case !w.curve.series.Key.Operation.IsProduct(), !w.curve.series.Key.OverM():
		return "", "" // tiles cover the C of a product, whose N is constant
	case w.tiled():
		return "", "" // the tiles themselves were checked
	case units == 0:
		return "", "the number of tiles in one wave is unknown"
	case w.reference.m == 0 || w.reference.m > w.row.m:
		return "", ""
	}
	first, ok := w.curve.at(w.reference.m)
	if !ok {
		return "", ""
	}
	why := ""
	for at := w.c.worst.point; at > first; at-- {
		if !w.explains(w.curve.fall(at)) {
			continue
		}
		rise := percent(math.Expm1(w.curve.envelope()[at] - w.curve.envelope()[at-1]))
		if f, ok := w.fullAt(at, units); ok {
			return WaveQuantization,
				fmt.Sprintf("tiles of %dx%d would fill %s of %d units at m%d, where the time steps up by %s; other tile heights do the "+
					"same, every %d rows from m%d to m%d",
					f.last/f.rows, f.width, plural(f.waves, "wave"), units, f.last, rise, f.rows*heightStep, f.first, f.final)
		}
		if t, luck, ok := w.exactAt(at, units); ok {
			last := (w.curve.points[at].m - 1) / t.m * t.m
			o := t.fill(last)
			return WaveQuantization,
				fmt.Sprintf("%d tiles of %dx%d would fill %s of %d units at m%d to %s, which is true for %s of the sizes around it, and "+
					"the time steps up there by %s",
					o.tiles, t.m, t.n, plural(o.waves, "wave"), units, last, percent(o.wave), percent(luck), rise)
		}
		if why == "" {
			why = fmt.Sprintf("the time steps up by %s after m%d, but tiles of %d to %d rows fill no wave of %d units that shows as "+
				"steps at other sizes",
				rise, w.curve.points[at-1].m, leastHeight, mostHeight, units)
		}
	}
	if why == "" {
		why = fmt.Sprintf("no single step of the time between m%d and m%d costs %s", w.reference.m, w.row.m, percent(explainShare*w.loss))
	}
	return "", why
}

// usualTiles are the tiles that are tried for exactly full waves.
var usualTiles = [][2]int{{128, 256}, {256, 128}, {128, 128}}

// exact is the least occupancy of exactly full waves.
const exact = 0.99

// exactAt reports whether a usual tile fills whole waves exactly just before a point. luck is the share of
// such Ms around the point; it must be small.
func (w *witness) exactAt(at, units int) (t tiling, luck float64, ok bool) {
	c := w.curve
	tilings := make([]tiling, len(usualTiles))
	for i, s := range usualTiles {
		tilings[i] = tiling{m: s[0], n: s[1], across: (c.series.Key.N + s[1] - 1) / s[1], units: units, columns: c.series.Key.N}
	}
	fullBefore := func(i int, t tiling) bool {
		last := (c.points[i].m - 1) / t.m * t.m
		return last >= c.points[i-1].m && t.fill(last).wave >= exact
	}
	full, places := 0, 0
	for i := 1; i < len(c.points); i++ {
		if 2*c.points[i].m < c.points[at].m || c.points[i].m > 2*c.points[at].m {
			continue
		}
		places++
		if slices.ContainsFunc(tilings, func(t tiling) bool { return fullBefore(i, t) }) {
			full++
		}
	}
	luck = float64(full) / float64(max(places, 1))
	for _, t := range tilings {
		if luck > chance || !fullBefore(at, t) {
			continue
		}
		row, before := t.fill(w.row.m), t.fill((c.points[at].m-1)/t.m*t.m)
		if w.explains(1 - row.wave*row.tile/(before.wave*before.tile)) {
			return t, luck, true
		}
	}
	return tiling{}, luck, false
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
func (w *witness) fullAt(at, units int) (best fullWave, ok bool) {
	c := w.curve
	before, behind := c.points[at-1].m, c.points[at].m
	steps, places := 0, 0
	for i := 1; i < len(c.points); i++ {
		if 2*c.points[i].m >= before && c.points[i].m <= 2*behind {
			places++
			if c.isStep(i) {
				steps++
			}
		}
	}
	share := float64(steps) / float64(max(places, 1))
	for _, width := range widths {
		across := (c.series.Key.N + width - 1) / width
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
			t := tiling{m: f.last / f.rows, n: width, across: across, units: units, columns: c.series.Key.N}
			row, full := t.fill(w.row.m), t.fill(f.last)
			if !w.explains(1 - row.wave*row.tile/(full.wave*full.tile)) {
				continue
			}
			f.first, f.final = f.last, f.last
			for _, way := range []int{-period, period} {
				for m := f.last + way; m >= f.rows*leastHeight && m <= f.rows*mostHeight; m += way {
					if i, _ := c.at(m + 1); i == 0 || i == len(c.points) || !c.isStep(i) {
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

func (c *curve) isStep(i int) bool {
	return c.fall(i) > math.Max(clearly*math.Hypot(c.points[i].us.SE, c.points[i-1].us.SE), smallStep)
}
