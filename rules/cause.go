package rules

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// explainShare is the share of a loss that a mechanism has to account for before
// it is named as the cause.
const explainShare = 0.5

// minorShare is the share from which on the greatest of several mechanisms is named that
// account for explainShare of a loss together.
const minorShare = 0.3

// explained writes a candidate down with its cause and one sentence with the numbers the
// cause rests on, and with the causes that were looked at before and excluded.
func explained(c *candidate) Finding {
	f := c.finding()
	j := c.worst
	if j.cause != "" || j.explain != nil {
		f.Cause, f.Explanation = j.cause, j.explain(j)
		return f
	}
	w := newWitness(c)
	if cause := entryOf(c.rule).cause; cause != nil {
		f.Cause, f.Explanation = cause(w)
	} else if cause, why := w.seek(looks); cause != "" {
		f.Cause, f.Explanation = cause, w.versus()+": "+why
	} else if cause, why := c.majority(); cause != "" {
		f.Cause, f.Explanation = cause, why
	} else {
		f.Cause, f.Explanation = Unknown, w.versus()+"; nothing in the run says why"
	}
	f.Excluded = w.excluded
	return f
}

// majorityRows is how many rows of a finding, evenly spread, majority looks at.
const majorityRows = 16

// majority is the cause of most rows of a finding whose worst row has none of its own, with the
// explanation of the worst of them; empty where there is none.
func (c *candidate) majority() (Cause, string) {
	rows := map[Cause]int{}
	worst := map[Cause]float64{}
	why := map[Cause]string{}
	looked := min(len(c.rows), majorityRows)
	for i := range looked {
		single := *c
		single.worst = c.rows[i*len(c.rows)/looked]
		w := newWitness(&single)
		if cause, text := w.seek(looks); cause != "" {
			rows[cause]++
			if w.loss > worst[cause] {
				worst[cause], why[cause] = w.loss, fmt.Sprintf("%s: %s", w.versus(), text)
			}
		}
	}
	for cause, n := range rows {
		if 2*n > looked {
			return cause, fmt.Sprintf("at %d of %d rows: %s", n, looked, why[cause])
		}
	}
	return "", ""
}

// seek tries looks in order and notes what each excludes.
func (w *witness) seek(looks []look) (Cause, string) {
	for _, l := range looks {
		cause, why := l.at(w)
		if cause != "" {
			// What is named is not excluded as well.
			w.excluded = slices.DeleteFunc(w.excluded, func(e Exclusion) bool { return e.Cause == cause })
			return cause, why
		}
		w.exclude(l.cause, why)
	}
	return "", ""
}

// exclude notes why a cause is none; an empty why notes nothing.
func (w *witness) exclude(cause Cause, why string) {
	if why == "" {
		return
	}
	if i := slices.IndexFunc(w.excluded, func(e Exclusion) bool { return e.Cause == cause }); i >= 0 {
		w.excluded[i].Why += "; " + why
		return
	}
	w.excluded = append(w.excluded, Exclusion{cause, why})
}

// parity: a type that moves no more bytes than the other and is slower lost its time to a
// bad choice or to the code.
func (w *witness) parity() (Cause, string) {
	own, than := w.curve.series.Key.DType, w.c.worst.against.DType
	if weights := w.curve.series.Key.Weights; w.c.worst.against.Weights != weights {
		text := fmt.Sprintf("%s; weights %v are slower than plain ones, by which %s multiplies at the same shape", w.versus(), weights, w.c.worst.against.Kernel)
		if cause, why := w.seek(choices); cause != "" {
			return cause, text + ": " + why
		}
		return Implementation, fmt.Sprintf("%s, though they have %s against %s", text, plural(weights.Bits, "bit"), plural(own.Bits(), "bit"))
	}
	text := fmt.Sprintf("%s; %s is slower than %s at the same shape and kernel", w.versus(), own, than)
	if cause, why := w.seek(choices); cause != "" {
		return cause, text + ": " + why
	}
	if own.Size() <= than.Size() {
		return Implementation, fmt.Sprintf("%s, though its elements have %s against %s", text, plural(own.Size(), "byte"), plural(than.Size(), "byte"))
	}
	w.exclude(Implementation, fmt.Sprintf("%s moves %d bytes an element against %d", own, own.Size(), than.Size()))
	return Unknown, text
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
	label := j.against.Label
	if kernels.ChooserOf(w.curve.series.Key.Kernel) == kernels.ChooserOf(j.against.Kernel) {
		if own := w.row.label; label != "" && own != "" && own != label {
			text += fmt.Sprintf(", by %s where the library chose %s", short(label), short(own))
		}
		return HeuristicChoice, text
	}
	if label != "" && label != w.row.label {
		if i := slices.IndexFunc(w.curve.points, func(p point) bool { return p.label == label }); i >= 0 {
			return HeuristicChoice, fmt.Sprintf("%s, by %s, which %s itself runs at m%d", text, short(label), w.curve.series.Key.Kernel, w.curve.points[i].m)
		}
	}
	if cause, why := w.seek(choices); cause != "" {
		return cause, text + "; " + why
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
	// choiceLoss and stepLoss are the shares of the row's time that a faster choice for a
	// larger M and the last step in the times account for, each with a sentence.
	choiceLoss, stepLoss float64
	choiceWhy, stepWhy   string
	// excluded are the causes that were looked at and are none.
	excluded []Exclusion
}

// explains says whether a mechanism that wastes a share of the row's time accounts for the loss.
func (w *witness) explains(share float64) bool { return share > 0 && share >= explainShare*w.loss }

// within is the log-time in which the row would run without so much of its loss as a
// mechanism has to account for.
func (w *witness) within() float64 {
	return w.row.us.y + math.Log1p(-math.Min(explainShare*w.loss, 0.999))
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
	if j.against.Kernel == j.direct().Kernel && j.against.DType == j.direct().DType {
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

// short cuts a demangled kernel name to what tells it apart.
func short(label string) string {
	if label = strings.TrimPrefix(label, "void "); label == "" {
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

// indexAfter is the position behind the first occurrence of part, or -1.
func indexAfter(s, part string) int {
	if i := strings.Index(s, part); i >= 0 {
		return i + len(part)
	}
	return -1
}
