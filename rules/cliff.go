package rules

import (
	"fmt"
	"math"
	"sort"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// tiling is how a kernel covers the product of a series: tiles of m×n, across of them along N,
// units at once.
type tiling struct {
	m, n, across, units int
	columns             int // N of the series
}

// tileOf is the tiling of the kernel that ran a point, from its launch. ok is false if the tile or the
// device's units are unknown, or if the kernel splits K: then waves of tiles are meaningless.
func (c *curve) tileOf(p point) (t tiling, ok bool) {
	if !c.series.Key.Operation.IsProduct() || !c.series.Key.OverM() {
		return tiling{}, false // tiles cover the C of a product, whose N is constant
	}
	units := unitsOf(c.spec)
	if units == 0 || p.launch.Split > 1 || !p.launch.Tiled() {
		return tiling{}, false
	}
	t = tiling{units: units, columns: c.series.Key.N}
	t.m, t.n = orient(c, p, units)
	t.across = (t.columns + t.n - 1) / t.n
	return t, true
}

func (t tiling) fill(m int) occupancy { return occupy(m, t.columns, t.m, t.n, t.units) }

// lastOf is the largest M that fits into so many waves, 0 if not even one row of tiles does.
func (t tiling) lastOf(waves int) int { return waves * t.units / t.across * t.m }

// envelope is the least log time at each point over all points with at least as many rows. It removes spikes
// of a bad choice and keeps cliffs.
func (c *curve) envelope() []float64 {
	if c.least == nil {
		c.least = make([]float64, len(c.points))
		least := math.Inf(1)
		for i := len(c.points) - 1; i >= 0; i-- {
			least = math.Min(least, c.points[i].us.Y)
			c.least[i] = least
		}
	}
	return c.least
}

// fall is the share of the rate that is lost from point i−1 to i, by the envelope.
func (c *curve) fall(i int) float64 {
	e := c.envelope()
	return stats.Lost((c.points[i].flops - e[i]) - (c.points[i-1].flops - e[i-1]))
}

// around is the largest share of the rate that is lost across the first point above m, within one grid step
// on either side. from and to are the points before and after the loss.
func (c *curve) around(m int) (fall float64, from, to int) {
	e := c.envelope()
	i := sort.Search(len(c.points), func(i int) bool { return c.points[i].m > m })
	if i == 0 || i == len(c.points) {
		return 0, -1, -1
	}
	fall = math.Inf(-1)
	for _, f := range []int{i - 1, i - 2} {
		for _, t := range []int{i, i + 1} {
			if f < 0 || t >= len(c.points) || t-f > 2 {
				continue
			}
			if v := stats.Lost((c.points[t].flops - e[t]) - (c.points[f].flops - e[f])); v > fall {
				fall, from, to = v, f, t
			}
		}
	}
	return fall, from, to
}

func (c *curve) steepest(from, to int) (at int, fall float64) {
	at, fall = -1, 0
	for i := max(from, 0) + 1; i <= to; i++ {
		if v := c.fall(i); v > fall {
			at, fall = i, v
		}
	}
	return at, fall
}

// waveCliff: the row needs one more wave of tiles than the reference, and the time steps up at the start of
// that wave.
func (w *witness) waveCliff() (Cause, string) { return w.cliff(WaveQuantization) }

// tileCliff: the row needs one more row of tiles, which it hardly fills, and the time steps up at the start
// of that row.
func (w *witness) tileCliff() (Cause, string) { return w.cliff(TileQuantization) }

// cliff predicts where the time steps up from the tiles of the row's kernel and of the reference's. It names
// the step if the times show it and it accounts for the loss.
func (w *witness) cliff(kind Cause) (Cause, string) {
	units := unitsOf(w.curve.spec)
	own, ok := w.curve.tileOf(w.row)
	old, oldOK := w.curve.tileOf(w.reference)
	switch {
	case units == 0:
		return "", "the number of tiles in one wave is unknown"
	case !ok && !oldOK:
		return "", "the kernel's tile is unknown, or it cuts tiles along K"
	case w.reference.m == 0:
		return "", "this size is compared with another kernel"
	case w.reference.m > w.row.m:
		return "", fmt.Sprintf("m%d needs no more tiles than m%d", w.row.m, w.reference.m)
	}
	why := ""
	note := func(format string, args ...any) {
		if s := fmt.Sprintf(format, args...); why == "" {
			why = s
		}
	}
	type model struct {
		row, reference tiling
		known          bool
	}
	for _, m := range []model{{own, own, ok}, {own, old, ok && oldOK}, {old, old, oldOK}} {
		if !m.known {
			continue
		}
		t := m.row
		row, ref := t.fill(w.row.m), m.reference.fill(w.reference.m)
		waveLoss, tileLoss := 1-row.wave/ref.wave, 1-row.tile/ref.tile
		both := 1 - row.wave*row.tile/(ref.wave*ref.tile)
		last, loss := t.lastOf(row.waves-1), waveLoss
		if kind == TileQuantization {
			last, loss = (w.row.m-1)/t.m*t.m, tileLoss
		}
		if !w.explains(loss) && (!w.explains(both) || loss < max(waveLoss, tileLoss)) {
			if kind == WaveQuantization {
				note("%d tiles of %dx%d keep %d units %.0f %% busy in %s, compared with %.0f %% at m%d", row.tiles, t.m, t.n, units,
					100*row.wave, plural(row.waves, "wave"), 100*ref.wave, w.reference.m)
			} else {
				note("%.0f %% of the rows in %dx%d tiles are used, compared with %.0f %% at m%d", 100*row.tile, t.m, t.n, 100*ref.tile,
					w.reference.m)
			}
			continue
		}
		tiles := fmt.Sprintf("its tiles of %dx%d", t.m, t.n)
		if t != own || !ok {
			tiles = fmt.Sprintf("tiles of %dx%d, the tiles of m%d,", t.m, t.n, w.reference.m)
		}
		what := fmt.Sprintf("%s start wave %d on %d units", tiles, row.waves, units)
		if kind == TileQuantization {
			what = fmt.Sprintf("%s start another row of tiles", tiles)
		}
		if last < w.reference.m {
			note("%s after m%d, below m%d", what, last, w.reference.m)
			continue
		}
		fall, from, to := w.curve.around(last)
		if from < 0 {
			note("%s after m%d, where no size was measured", what, last)
			continue
		}
		a, b := w.curve.points[from], w.curve.points[to]
		e := w.curve.envelope()
		if rise := e[to] - e[from]; w.explains(fall) && rise > clearly*math.Hypot(a.us.SE, b.us.SE) {
			busy := fmt.Sprintf("m%d keeps units %.0f %% busy, m%d %.0f %%", w.row.m, 100*row.wave, w.reference.m, 100*ref.wave)
			if kind == TileQuantization {
				busy = fmt.Sprintf("they compute %d rows for m%d", (w.row.m+t.m-1)/t.m*t.m, w.row.m)
			}
			return kind, fmt.Sprintf("%s after m%d, where the time steps up by %s, from m%d to m%d; %s",
				what, last, percent(math.Expm1(rise)), a.m, b.m, busy)
		}
		s := fmt.Sprintf("%s after m%d, where the rate falls by %s", what, last, percent(math.Max(fall, 0)))
		if i, ok := w.curve.at(w.reference.m); ok {
			if at, most := w.curve.steepest(i, w.c.worst.point); at >= 0 && (at < from || at > to) {
				s += fmt.Sprintf("; it falls most after m%d, by %s", w.curve.points[at-1].m, percent(most))
			}
		}
		note("%s", s)
	}
	return "", why
}
