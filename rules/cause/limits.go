package cause

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/phrase"
)

// memory: reading the operands limits the row's time.
func (w *Witness) memory() (Kind, string) {
	s := w.Curve.Series
	switch {
	case !w.Smaller:
		return "", "this size is compared with work that reads as much"
	case s.Key.Regime == results.Hot:
		return "", "operands may come from a cache"
	case s.Peak.FLOPS <= 0 || s.Bandwidth.Rate <= 0:
		return "", "the memory bandwidth is unknown"
	}
	intensity := s.Key.FLOPs(w.Row.M) / s.Key.Bytes(w.Row.M)
	attainable := intensity * s.Bandwidth.Rate / s.Peak.FLOPS
	reached := w.mfu(w.Row)
	switch expected := reached / (1 - math.Min(w.Loss, 0.999)); {
	case attainable >= 1 || attainable >= expected:
		return "", fmt.Sprintf("memory at %s GB/s allows MFU %s", phrase.Figure(s.Bandwidth.Rate/1e9),
			phrase.Percent(math.Min(attainable, 1)))
	case reached < explainShare*attainable:
		return "", fmt.Sprintf("memory at %s GB/s allows MFU %s, and this size reached %s", phrase.Figure(s.Bandwidth.Rate/1e9),
			phrase.Percent(attainable), phrase.Percent(reached))
	}
	return MemoryBound, fmt.Sprintf("at %s FLOP per byte and %s GB/s, at most MFU %s is possible", phrase.Figure(intensity),
		phrase.Figure(s.Bandwidth.Rate/1e9), phrase.Percent(attainable))
}
