package rules

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/results"
)

// memory: the row can't be as fast as it should, for reading its operands.
func (w *witness) memory() (Cause, string) {
	s := w.curve.series
	switch {
	case w.c.rule != Monotonic:
		return "", "the row is held against work that reads as much"
	case s.Key.Regime == results.Hot:
		return "", "operands may come from a cache"
	case s.Peak.FLOPS <= 0 || s.Bandwidth.Rate <= 0:
		return "", "the bandwidth of the memory is not known"
	}
	intensity := s.Key.FLOPs(w.row.m) / s.Key.Bytes(w.row.m)
	attainable := intensity * s.Bandwidth.Rate / s.Peak.FLOPS
	reached := w.mfu(w.row)
	switch expected := reached / (1 - math.Min(w.loss, 0.999)); {
	case attainable >= 1 || attainable >= expected:
		return "", fmt.Sprintf("memory at %s GB/s allows MFU %s", figure(s.Bandwidth.Rate/1e9), percent(math.Min(attainable, 1)))
	case reached < explainShare*attainable:
		return "", fmt.Sprintf("memory at %s GB/s allows MFU %s, and %s was reached", figure(s.Bandwidth.Rate/1e9), percent(attainable), percent(reached))
	}
	return MemoryBound, fmt.Sprintf("at %s FLOP a byte and %s GB/s no more than MFU %s is possible", figure(intensity), figure(s.Bandwidth.Rate/1e9), percent(attainable))
}

// alignmentRows is the least number of rows on either side that shows a pattern.
const alignmentRows = 3

// alignment: every slow row has an M that is no multiple of [alignment], and the
// multiples between them are not slow.
func (w *witness) alignment() (Cause, string) {
	rows := w.c.rows
	for _, j := range rows {
		if j.m()%alignment == 0 {
			return "", fmt.Sprintf("m%d is a multiple of %d", j.m(), alignment)
		}
	}
	if len(rows) < alignmentRows {
		return "", fmt.Sprintf("%s that are no multiples of %d show no pattern", plural(len(rows), "row"), alignment)
	}
	aligned := 0
	best := math.Inf(-1)
	for i := rows[0].point; i <= rows[len(rows)-1].point; i++ {
		if p := w.curve.points[i]; p.m%alignment == 0 {
			aligned++
			best = math.Max(best, p.rate())
		}
	}
	if aligned < alignmentRows-1 || math.Exp(w.row.rate()-best) > 1-explainShare*w.loss {
		return "", fmt.Sprintf("the rows at %s of %d between m%d and m%d are not enough faster", plural(aligned, "multiple"), alignment, rows[0].m(), rows[len(rows)-1].m())
	}
	return Alignment, fmt.Sprintf("all %d slow rows from m%d to m%d are no multiples of %d, and the %d multiples between them reach MFU %s",
		len(rows), rows[0].m(), rows[len(rows)-1].m(), alignment, aligned, percent(math.Exp(best-w.curve.peak)))
}
