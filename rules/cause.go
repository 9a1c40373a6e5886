package rules

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// explainShare is the share of a loss that a mechanism has to account for before
// it is named as the cause.
const explainShare = 0.5

// explained writes a candidate down with its cause and one sentence with the numbers the
// cause rests on. The causes are tried from the most specific: what the rule
// itself saw, another choice of the library at the same product, memory, alignment, waves and tiles of a kernel whose tile is known,
// the library's choice of kernel, steps in the times alone.
func explained(c *candidate) Finding {
	f := c.finding()
	j := c.worst
	if j.cause != "" || j.explain != nil {
		f.Cause, f.Explanation = j.cause, j.explain()
		return f
	}
	w := newWitness(c)
	if cause := entryOf(c.rule).cause; cause != nil {
		f.Cause, f.Explanation = cause(w)
		return f
	}
	for _, look := range []func() (Cause, string){w.choice, w.memory, w.alignment, w.quantisation, w.heuristic, w.steps} {
		if cause, why := look(); cause != "" {
			f.Cause, f.Explanation = cause, w.versus()+": "+why
			return f
		}
	}
	f.Cause, f.Explanation = Unknown, w.versus()+"; nothing in the run says why"
	return f
}

// parity: what makes one data type slower than another is not in the run.
func (w *witness) parity() (Cause, string) {
	return Unknown, fmt.Sprintf("%s; %s is slower than %s at the same shape and kernel", w.versus(), w.curve.series.Key.DType, w.c.worst.against.DType)
}

// alternative: a library that ran a faster kernel of its own next to the row, or
// has the very kernel that is faster, chose badly; otherwise all that is known is
// that somebody wrote a faster one.
func (w *witness) alternative() (Cause, string) {
	j := w.c.worst
	text := fmt.Sprintf("%s: the kernel %s is faster at the same product", w.versus(), j.against.Kernel)
	var others []string
	for _, r := range w.c.rows {
		if name := r.against.Kernel; name != j.against.Kernel && !slices.Contains(others, name) {
			others = append(others, name)
		}
	}
	if len(others) > 0 {
		text += fmt.Sprintf("; at other rows from m%d to m%d it is %s", w.c.rows[0].m(), w.c.rows[len(w.c.rows)-1].m(), strings.Join(others, " or "))
	}
	if w.curve.series.Key.Kernel == "auto" {
		return HeuristicChoice, text
	}
	label := algorithm(j.against.Label)
	if library(w.curve.series.Key.Kernel) == library(j.against.Kernel) {
		if own := algorithm(w.row.label); label != "" && own != "" && own != label {
			text += fmt.Sprintf(", by %s where the library chose %s", short(label), short(own))
		}
		return HeuristicChoice, text
	}
	if label != "" && label != algorithm(w.row.label) {
		if i := slices.IndexFunc(w.curve.points, func(p point) bool { return algorithm(p.label) == label }); i >= 0 {
			return HeuristicChoice, fmt.Sprintf("%s, by %s, which %s itself runs at m%d", text, short(label), w.curve.series.Key.Kernel, w.curve.points[i].m)
		}
	}
	for _, look := range []func() (Cause, string){w.choice, w.heuristic} {
		if cause, why := look(); cause != "" {
			return cause, text + "; " + why
		}
	}
	return Implementation, text
}

// witness is the worst row of a candidate beside the row that it is compared
// with, in plain numbers.
type witness struct {
	c         *candidate
	curve     *curve
	row       point
	reference point // of the same series; m is 0 when there is none
	loss      float64
}

func newWitness(c *candidate) *witness {
	j := c.worst
	w := &witness{c: c, curve: j.curve, row: j.curve.points[j.point], loss: math.Max(j.loss.Mid, 0)}
	if t := c.tests[j]; t != nil && t.confirmed {
		w.loss = math.Max(t.loss.Mid, 0)
	}
	m := j.against.M
	switch {
	case len(j.against.Parts) > 0:
		m = j.against.Parts[len(j.against.Parts)-1] // the largest part
	case j.against.PadTo > 0:
		m = j.against.PadTo
	}
	if j.against.Kernel == j.alone().Kernel && j.against.DType == j.alone().DType {
		if i, ok := w.curve.at(m); ok {
			w.reference = w.curve.points[i]
		}
	}
	return w
}

func (w *witness) mfu(p point) float64 { return math.Exp(p.rate() - w.curve.peak) }

// versus states the loss: what was seen and what it is held against.
func (w *witness) versus() string {
	j := w.c.worst
	us := math.Exp(w.row.us.y)
	switch {
	case len(j.against.Parts) > 0:
		return fmt.Sprintf("m%d takes %s us, in parts %v it would take %s us", w.row.m, figure(us), j.against.Parts, figure(us*(1-w.loss)))
	case j.against.PadTo > 0:
		return fmt.Sprintf("m%d takes %s us, the larger m%d takes %s us", w.row.m, figure(us), j.against.PadTo, figure(us*(1-w.loss)))
	case j.against.M == w.row.m:
		return fmt.Sprintf("m%d takes %s us where %s us suffice", w.row.m, figure(us), figure(us*(1-w.loss)))
	}
	return fmt.Sprintf("m%d takes %s us, MFU %s against %s at m%d", w.row.m, figure(us), percent(w.mfu(w.row)), percent(w.mfu(w.row)/(1-math.Min(w.loss, 0.999))), j.against.M)
}

// figure words a positive number with four significant digits and no exponent: times go
// from a microsecond to a minute.
func figure(v float64) string {
	if !(v > 0) || math.IsInf(v, 1) {
		return fmt.Sprint(v)
	}
	return strconv.FormatFloat(v, 'f', max(0, 3-int(math.Floor(math.Log10(v)))), 64)
}

// percent words a share as tables do, with a second digit where one says little.
func percent(share float64) string {
	if share < 0.01 {
		return fmt.Sprintf("%.2f %%", 100*share)
	}
	return fmt.Sprintf("%.1f %%", 100*share)
}

// plural words how many there are of something.
func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// rates words a rate and the one that it is held against, in the unit of the latter.
func rates(flops, against float64) string {
	unit, name := 1e12, "TFLOP/s"
	if against < unit {
		unit, name = 1e9, "GFLOP/s"
	}
	return fmt.Sprintf("%s of %s %s", figure(flops/unit), figure(against/unit), name)
}

// memory: the row can't be as fast as it should, for reading its operands.
func (w *witness) memory() (Cause, string) {
	s := w.curve.series
	if w.c.rule != Monotonic || s.Peak.FLOPS <= 0 || s.ReadBandwidth <= 0 || s.Key.Regime == "hot" {
		return "", ""
	}
	shape := s.Rows[w.row.row].Case.Shape()
	intensity := shape.FLOPs() / shape.Bytes(s.Key.DType)
	attainable := intensity * s.ReadBandwidth / s.Peak.FLOPS
	reached := w.mfu(w.row)
	if attainable >= 1 || attainable >= w.mfu(w.row)/(1-w.loss) || reached < explainShare*attainable {
		return "", ""
	}
	return MemoryBound, fmt.Sprintf("at %s FLOP a byte and %s GB/s no more than MFU %s is possible", figure(intensity), figure(s.ReadBandwidth/1e9), percent(attainable))
}

// alignmentRows is the least number of rows on either side that shows a pattern.
const alignmentRows = 3

// alignment: every slow row has an M that is no multiple of [alignment], and the
// multiples between them are not slow.
func (w *witness) alignment() (Cause, string) {
	rows := w.c.rows
	if len(rows) < alignmentRows {
		return "", ""
	}
	for _, j := range rows {
		if j.m()%alignment == 0 {
			return "", ""
		}
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
		return "", ""
	}
	return Alignment, fmt.Sprintf("all %d slow rows from m%d to m%d are no multiples of %d, and the %d multiples between them reach MFU %s",
		len(rows), rows[0].m(), rows[len(rows)-1].m(), alignment, aligned, percent(math.Exp(best-w.curve.peak)))
}

// heuristic: the kernel that the library chose is slow wherever it is chosen, and
// next to it the library itself ran a faster one.
func (w *witness) heuristic() (Cause, string) {
	label := algorithm(w.row.label)
	if label == "" {
		return "", ""
	}
	wanted := w.row.rate() - math.Log1p(-math.Min(explainShare*w.loss, 0.999))
	own, other := math.Inf(-1), -1
	distance := math.Inf(1)
	for i, p := range w.curve.points {
		if p.label == "" || math.Abs(math.Log(float64(p.m)/float64(w.row.m))) > math.Ln2 {
			continue // another octave of M is another problem
		}
		if algorithm(p.label) == label {
			own = math.Max(own, p.rate())
		} else if d := math.Abs(float64(p.m - w.row.m)); p.rate() >= wanted && d < distance {
			other, distance = i, d
		}
	}
	if other < 0 || own >= w.row.rate()-math.Log1p(-math.Min(w.loss, 0.999)) {
		return "", ""
	}
	p := w.curve.points[other]
	return HeuristicChoice, fmt.Sprintf("the library chose %s, which reaches MFU %s at best between m%d and m%d, while %s ran m%d at MFU %s",
		short(label), percent(math.Exp(own-w.curve.peak)), w.row.m/2, w.row.m*2, short(p.label), p.m, percent(w.mfu(p)))
}

// short cuts a demangled kernel name to what tells it apart, and the waves off an
// algorithm's.
func short(label string) string {
	if label = algorithm(strings.TrimPrefix(label, "void ")); label == "" {
		return "an algorithm that it does not name"
	}
	if open := indexAfter(label, "Kernel2<"); open > 0 {
		label = label[open:]
	}
	for i, r := range label {
		if i > 0 && (r == '>' || r == '(') {
			label = label[:i]
			break
		}
	}
	if len(label) > 64 {
		label = label[:64] + "…"
	}
	return label
}
