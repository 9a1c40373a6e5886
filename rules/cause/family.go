package cause

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/phrase"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// lineWidth is the largest half-width, as a share, of a time that a cause rests on.
const lineWidth = 0.02

// offLine: the row is slow for its kernel, by the line of the kernel's other rows.
func (w *Witness) offLine() (Kind, string) {
	if w.Row.Label == "" {
		return "", ""
	}
	for _, f := range w.Curve.Lines() {
		at, found := f.At(w.Row.M)
		if !found || f.Line == nil {
			continue
		}
		row := f.Rows[at]
		if row.Point < 0 {
			return "", "" // the row was not measured: its time is the line's
		}
		if len(f.Line.Rows) <= infer.LineRows {
			return "", fmt.Sprintf("%s runs too few other sizes to predict its time", phrase.Kernel(w.Row.Label))
		}
		p := f.Line.Leaving(row)
		off := w.Row.US.Y - p.Y
		if off > infer.Clearly*math.Hypot(p.SE, w.Row.US.SE) && w.explains(stats.Lost(-off)) {
			return Implementation,
				fmt.Sprintf("%s takes %s us here, but %[4]s us according to %[3]s: the kernel itself is slow at this %[5]s",
					phrase.Kernel(w.Row.Label), phrase.Figure(math.Exp(w.Row.US.Y)), f.Line.Span(), phrase.Figure(math.Exp(p.Y)),
					phrase.Dimension(w.Curve.Series.Key))
		}
		return "", fmt.Sprintf("%s takes as long as expected from other sizes: %s us from %s", phrase.Kernel(w.Row.Label),
			phrase.Figure(math.Exp(p.Y)),
			f.Line.Span())
	}
	return "", ""
}

// otherLine: another kernel of the same library would be faster, by the line of its rows.
func (w *Witness) otherLine() (Kind, string) {
	if w.Row.Label == "" {
		return "", ""
	}
	var best *infer.Line
	least := math.Inf(1)
	for _, c := range append([]*infer.Curve{w.Curve}, w.Curve.Choices...) {
		for _, f := range c.Lines() {
			l := f.Line
			if l == nil || f.Failed || len(l.Rows) < infer.LineRows || f.Kind.Tile[0] == 0 || infer.AlikeLabels(f.Kind.Label,
				w.Row.Label) ||
				w.Row.M < l.Rows[0].M || w.Row.M > l.Rows[len(l.Rows)-1].M {
				continue
			}
			// At this M the family has the waves of its nearest row's launch.
			near := f.Nearest(w.Row.M)
			near.M, near.Point = w.Row.M, -1
			p := l.ForetellAt(near)
			if half := infer.Clearly * p.SE; half <= lineWidth && p.Y+half < least {
				best, least = l, p.Y+half
			}
		}
	}
	switch {
	case best == nil:
		return "", fmt.Sprintf("no other kernel of %s has a fit for this size", w.kernel())
	case least > w.within():
		return "",
			fmt.Sprintf("other kernels of %s take at least %s us at m%d, from their fits", w.kernel(), phrase.Figure(math.Exp(least)),
				w.Row.M)
	}
	return HeuristicChoice, fmt.Sprintf("%s has %s, which would take at most %s us at m%d, from %s, while this size runs %s",
		w.kernel(), phrase.Kernel(best.Family.Kind.Label), phrase.Figure(math.Exp(least)), w.Row.M, best.Span(), phrase.Kernel(w.Row.Label))
}
