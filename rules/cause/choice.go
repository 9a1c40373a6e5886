package cause

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/phrase"
)

func (w *Witness) choice() (Kind, string) {
	by := (*infer.Curve)(nil)
	var p infer.Point
	for _, c := range w.Curve.Choices {
		if i, ok := c.At(w.Row.M); ok && (by == nil || c.Points[i].US.Y < p.US.Y) {
			by, p = c, c.Points[i]
		}
	}
	switch {
	case by == nil:
		return "", fmt.Sprintf("no other algorithm of %s was measured", w.kernel())
	case p.US.Y > w.within():
		return "", fmt.Sprintf("other algorithms of %s take at least %s us at %s", w.kernel(), phrase.Figure(math.Exp(p.US.Y)),
			w.Curve.Name(p.M))
	}
	return HeuristicChoice, fmt.Sprintf("%s chose %s, but its %s, %s, takes only %s us at %s",
		w.kernel(), phrase.Kernel(w.Row.Label), by.Series.Key.Kernel, phrase.Kernel(p.Label), phrase.Figure(math.Exp(p.US.Y)),
		w.Curve.Name(p.M))
}
