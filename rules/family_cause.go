package rules

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
func (w *witness) offLine() (Cause, string) {
	if w.row.Label == "" {
		return "", ""
	}
	for _, f := range w.curve.Lines() {
		at, found := f.At(w.row.M)
		if !found || f.Line == nil {
			continue
		}
		row := f.Rows[at]
		if row.Point < 0 {
			return "", "" // the row was not measured: its time is the line's
		}
		if len(f.Line.Rows) <= infer.LineRows {
			return "", fmt.Sprintf("%s runs too few other sizes to predict its time", phrase.Kernel(w.row.Label))
		}
		p := f.Line.Leaving(row)
		off := w.row.US.Y - p.Y
		if off > infer.Clearly*math.Hypot(p.SE, w.row.US.SE) && w.explains(stats.Lost(-off)) {
			return Implementation,
				fmt.Sprintf("%s takes %s us here, but %[4]s us according to %[3]s: the kernel itself is slow at this %[5]s",
					phrase.Kernel(w.row.Label), phrase.Figure(math.Exp(w.row.US.Y)), f.Line.Span(), phrase.Figure(math.Exp(p.Y)),
					phrase.Dimension(w.curve.Series.Key))
		}
		return "", fmt.Sprintf("%s takes as long as expected from other sizes: %s us from %s", phrase.Kernel(w.row.Label),
			phrase.Figure(math.Exp(p.Y)),
			f.Line.Span())
	}
	return "", ""
}

// otherLine: another kernel of the same library would be faster, by the line of its rows.
func (w *witness) otherLine() (Cause, string) {
	if w.row.Label == "" {
		return "", ""
	}
	var best *infer.Line
	least := math.Inf(1)
	for _, c := range append([]*infer.Curve{w.curve}, w.curve.Choices...) {
		for _, f := range c.Lines() {
			l := f.Line
			if l == nil || f.Failed || len(l.Rows) < infer.LineRows || f.Kind.Tile[0] == 0 || infer.AlikeLabels(f.Kind.Label,
				w.row.Label) ||
				w.row.M < l.Rows[0].M || w.row.M > l.Rows[len(l.Rows)-1].M {
				continue
			}
			// At this M the family has the waves of its nearest row's launch.
			near := f.Nearest(w.row.M)
			near.M, near.Point = w.row.M, -1
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
				w.row.M)
	}
	return HeuristicChoice, fmt.Sprintf("%s has %s, which would take at most %s us at m%d, from %s, while this size runs %s",
		w.kernel(), phrase.Kernel(best.Family.Kind.Label), phrase.Figure(math.Exp(least)), w.row.M, best.Span(), phrase.Kernel(w.row.Label))
}
