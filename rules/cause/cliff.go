package cause

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/phrase"
)

// waveCliff: the row needs one more wave of tiles than the reference, and the time steps up at the start of
// that wave.
func (w *Witness) waveCliff() (Kind, string) { return w.cliff(WaveQuantization) }

// tileCliff: the row needs one more row of tiles, which it hardly fills, and the time steps up at the start
// of that row.
func (w *Witness) tileCliff() (Kind, string) { return w.cliff(TileQuantization) }

// cliff predicts where the time steps up from the tiles of the row's kernel and of the reference's. It names
// the step if the times show it and it accounts for the loss.
func (w *Witness) cliff(kind Kind) (Kind, string) {
	units := infer.Units(w.Curve.Spec)
	own, ok := w.Curve.TileOf(w.Row)
	old, oldOK := w.Curve.TileOf(w.Reference)
	switch {
	case units == 0:
		return "", "the number of tiles in one wave is unknown"
	case !ok && !oldOK:
		return "", "the kernel's tile is unknown, or it cuts tiles along K"
	case w.Reference.M == 0:
		return "", "this size is compared with another kernel"
	case w.Reference.M > w.Row.M:
		return "", fmt.Sprintf("m%d needs no more tiles than m%d", w.Row.M, w.Reference.M)
	}
	why := ""
	note := func(format string, args ...any) {
		if s := fmt.Sprintf(format, args...); why == "" {
			why = s
		}
	}
	type model struct {
		row, reference infer.Tiling
		known          bool
	}
	for _, m := range []model{{own, own, ok}, {own, old, ok && oldOK}, {old, old, oldOK}} {
		if !m.known || kind == TileQuantization && ok && m.row != own { // another tile than its own computes none of its rows
			continue
		}
		t := m.row
		row, ref := t.Fill(w.Row.M), m.reference.Fill(w.Reference.M)
		waveLoss, tileLoss := 1-row.Wave/ref.Wave, 1-row.Tile/ref.Tile
		both := 1 - row.Wave*row.Tile/(ref.Wave*ref.Tile)
		last, loss := t.LastOf(row.Waves-1), waveLoss
		if kind == TileQuantization {
			last, loss = (w.Row.M-1)/t.M*t.M, tileLoss
		}
		if !w.explains(loss) && (!w.explains(both) || loss < max(waveLoss, tileLoss)) {
			if kind == WaveQuantization {
				note("%d tiles of %dx%d keep %d units %.0f %% busy in %s, compared with %.0f %% at m%d", row.Tiles, t.M, t.N, units,
					100*row.Wave, phrase.Count(row.Waves, "wave"), 100*ref.Wave, w.Reference.M)
			} else {
				note("%.0f %% of the rows in %dx%d tiles are used, compared with %.0f %% at m%d", 100*row.Tile, t.M, t.N, 100*ref.Tile,
					w.Reference.M)
			}
			continue
		}
		tiles := fmt.Sprintf("its tiles of %dx%d", t.M, t.N)
		if t != own || !ok {
			tiles = fmt.Sprintf("tiles of %dx%d, the tiles of m%d,", t.M, t.N, w.Reference.M)
		}
		what := fmt.Sprintf("%s start wave %d on %d units", tiles, row.Waves, units)
		if kind == TileQuantization {
			what = fmt.Sprintf("%s start another row of tiles", tiles)
		}
		if last < w.Reference.M {
			note("%s after m%d, below m%d", what, last, w.Reference.M)
			continue
		}
		fall, from, to := w.Curve.Around(last)
		if from < 0 {
			note("%s after m%d, where no size was measured", what, last)
			continue
		}
		a, b := w.Curve.Points[from], w.Curve.Points[to]
		e := w.Curve.Envelope()
		if rise := e[to] - e[from]; w.explains(fall) && rise > infer.Clearly*math.Hypot(a.US.SE, b.US.SE) {
			busy := fmt.Sprintf("m%d keeps units %.0f %% busy, m%d %.0f %%", w.Row.M, 100*row.Wave, w.Reference.M, 100*ref.Wave)
			if kind == TileQuantization {
				busy = fmt.Sprintf("they compute %d rows for m%d", (w.Row.M+t.M-1)/t.M*t.M, w.Row.M)
			}
			return kind, fmt.Sprintf("%s after m%d, where the time steps up by %s, from m%d to m%d; %s",
				what, last, phrase.Percent(math.Expm1(rise)), a.M, b.M, busy)
		}
		s := fmt.Sprintf("%s after m%d, where the rate falls by %s", what, last, phrase.Percent(math.Max(fall, 0)))
		if i, ok := w.Curve.At(w.Reference.M); ok {
			if at, most := w.Curve.Steepest(i, w.At); at >= 0 && (at < from || at > to) {
				s += fmt.Sprintf("; it falls most after m%d, by %s", w.Curve.Points[at-1].M, phrase.Percent(most))
			}
		}
		note("%s", s)
	}
	return "", why
}
