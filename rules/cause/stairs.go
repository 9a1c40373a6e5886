package cause

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/phrase"
)

// tilePeriod is the largest distance in M between steps that counts as one tile; longer ones are waves.
const tilePeriod = 256

// tiled reports whether the tiles of the row or of its reference are known. Then the tiles predict the steps,
// and the times alone are not used.
func (w *Witness) tiled() bool {
	_, own := w.Curve.TileOf(w.Row)
	_, old := w.Curve.TileOf(w.Reference)
	return own || old
}

// steps: if the tile is unknown, the times may show a staircase. The row is behind a step that accounts for
// its loss, and the steps of the series, or around its octave, are multiples of one period.
func (w *Witness) steps() (Kind, string) {
	points := w.Curve.Points
	if w.Reference.M > w.Row.M {
		return "", fmt.Sprintf("%s is after the same steps", w.Curve.Name(w.Reference.M))
	}
	why := "the time does not step up below this size"
	for _, octave := range []int{infer.AllOctaves, bits.Len(uint(w.Row.M)) - 1} {
		s := infer.StairsOf(w.Curve, octave)
		step, ok := s.LastStep(w.At)
		if !ok {
			continue
		}
		before, behind := points[step-1], points[step]
		e := w.Curve.Envelope()
		drop, rise := w.Curve.Fall(step), phrase.Percent(math.Expm1(e[step]-e[step-1]))
		switch {
		case !w.explains(drop):
			w.stepLoss, w.stepWhy = drop, fmt.Sprintf("the time steps up by %s after %s", rise, w.Curve.Name(before.M))
			why = fmt.Sprintf("the last step below this size, after %s, costs %s", w.Curve.Name(before.M), phrase.Percent(drop))
		case s.Period == 0:
			why = fmt.Sprintf("the time steps up by %s after %s, and %s around it have no period", rise, w.Curve.Name(before.M),
				phrase.Count(len(s.Steps), "step"))
		case (behind.M-1)/s.Period == (before.M-1)/s.Period:
			why = fmt.Sprintf("the time steps up by %s after %s, which is not a multiple of %d, unlike %d of %d steps", rise,
				w.Curve.Name(before.M), s.Period, s.Hits, len(s.Steps))
		case w.tiled() && kind(s) == WaveQuantization:
			why = fmt.Sprintf("steps are at multiples of %d, where no wave starts", s.Period)
		default:
			return kind(s), fmt.Sprintf("time steps up by %s between %s and %s, and %d of %d steps are at multiples of %d",
				rise, w.Curve.Name(before.M), w.Curve.Name(behind.M), s.Hits, len(s.Steps), s.Period)
		}
	}
	return "", why
}
