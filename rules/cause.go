package rules

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/phrase"
)

// explainShare is the share of a loss that a mechanism must explain to be named as the cause.
const explainShare = 0.5

// minorShare is the least share that the largest mechanism must explain if several together explain
// explainShare of a loss.
const minorShare = 0.3

// Explained is the candidate as a finding, with its cause.
func Explained(c *Candidate) Finding {
	f := c.finding()
	j := c.Worst
	if j.cause != "" || j.explain != nil {
		f.Cause, f.Explanation = j.cause, j.explain(j)
		return f
	}
	w := newWitness(c)
	if cause := entryOf(c.Rule).cause; cause != nil {
		f.Cause, f.Explanation = cause(w)
	} else if cause, why := w.seek(looks); cause != "" {
		f.Cause, f.Explanation = cause, w.versus()+": "+why
	} else if cause, why := c.majority(); cause != "" {
		f.Cause, f.Explanation = cause, why
	} else {
		f.Cause, f.Explanation = Unknown, w.versus()+"; the run does not show why"
	}
	f.Excluded = w.excluded
	return f
}

const majorityRows = 16

// majority returns the cause of most rows of a finding whose worst row has no known cause. The explanation is
// from the worst of those rows. Empty if there is no majority.
func (c *Candidate) majority() (Cause, string) {
	rows := map[Cause]int{}
	worst := map[Cause]float64{}
	why := map[Cause]string{}
	looked := min(len(c.Rows), majorityRows)
	for i := range looked {
		single := *c
		single.Worst = c.Rows[i*len(c.Rows)/looked]
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
			return cause, fmt.Sprintf("at %d of %d sizes: %s", n, looked, why[cause])
		}
	}
	return "", ""
}

func (w *witness) seek(looks []look) (Cause, string) {
	for _, l := range looks {
		cause, why := l.at(w)
		if cause != "" {
			w.excluded = slices.DeleteFunc(w.excluded, func(e Exclusion) bool { return e.Cause == cause })
			return cause, why
		}
		w.exclude(l.cause, why)
	}
	return "", ""
}

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

// parity: a type that moves no more bytes than the other type but is slower lost its time to a bad choice or
// to the kernel's code.
func (w *witness) parity() (Cause, string) {
	own, than := w.curve.Series.Key.DType, w.c.Worst.Against.DType
	if weights := w.curve.Series.Key.Weights; w.c.Worst.Against.Weights != weights {
		text := fmt.Sprintf("%s; weights %v are slower than plain weights, which %s uses at the same shape", w.versus(), weights,
			w.c.Worst.Against.Kernel)
		if cause, why := w.seek(choices); cause != "" {
			return cause, text + ": " + why
		}
		return Implementation,
			fmt.Sprintf("%s, although they have %s instead of %s", text, phrase.Count(weights.Bits, "bit"), phrase.Count(own.Bits(), "bit"))
	}
	text := fmt.Sprintf("%s; %s is slower than %s at the same shape and kernel", w.versus(), own, than)
	if cause, why := w.seek(choices); cause != "" {
		return cause, text + ": " + why
	}
	if own.Size() <= than.Size() {
		return Implementation,
			fmt.Sprintf("%s, although its elements have %s instead of %s", text, phrase.Count(own.Size(), "byte"),
				phrase.Count(than.Size(), "byte"))
	}
	w.exclude(Implementation, fmt.Sprintf("%s moves %d bytes per element instead of %d", own, own.Size(), than.Size()))
	return Unknown, text
}

// alternative: if the library ran a faster kernel next to the row, or has the faster kernel, its heuristic
// chose badly. Otherwise the implementation is the cause.
func (w *witness) alternative() (Cause, string) {
	j := w.c.Worst
	text := fmt.Sprintf("%s: the kernel %s is faster at the same product", w.versus(), j.Against.Kernel)
	var others []string
	for _, r := range w.c.Rows {
		if name := r.Against.Kernel; name != j.Against.Kernel && !slices.Contains(others, name) {
			others = append(others, name)
		}
	}
	if len(others) > 0 {
		text += fmt.Sprintf("; at other sizes from %s to %s it is %s", w.curve.Name(w.c.Rows[0].M()),
			w.curve.Name(w.c.Rows[len(w.c.Rows)-1].M()), strings.Join(others, " or "))
	}
	if w.curve.Series.Key.Kernel == "auto" {
		return HeuristicChoice, text
	}
	label := j.Against.Label
	if kernels.ChooserOf(w.curve.Series.Key.Kernel) == kernels.ChooserOf(j.Against.Kernel) {
		if own := w.row.Label; label != "" && own != "" && own != label {
			text += fmt.Sprintf(", using %s instead of %[3]s, which %[2]s chose", phrase.Kernel(label), w.kernel(), phrase.Kernel(own))
		}
		return HeuristicChoice, text
	}
	if label != "" && label != w.row.Label {
		if i := slices.IndexFunc(w.curve.Points, func(p infer.Point) bool { return p.Label == label }); i >= 0 {
			return HeuristicChoice, fmt.Sprintf("%s, using %s, which %s itself uses at %s", text, phrase.Kernel(label),
				w.curve.Series.Key.Kernel,
				w.curve.Name(w.curve.Points[i].M))
		}
	}
	if cause, why := w.seek(choices); cause != "" {
		return cause, text + "; " + why
	}
	return Implementation, text
}

// witness holds the numbers of a candidate's worst row and of the row that it is compared with.
type witness struct {
	c         *Candidate
	curve     *infer.Curve
	row       infer.Point
	reference infer.Point // of the same series; m is 0 if there is none
	loss      float64
	// stated is the loss that the finding has, without the bias of choosing the worst row.
	stated float64
	// choiceLoss and stepLoss are the shares of the row's time explained by a faster choice for a larger M
	// and by the last step in the times. Each comes with a sentence.
	choiceLoss, stepLoss float64
	choiceWhy, stepWhy   string
	excluded             []Exclusion
}

func (w *witness) kernel() string {
	base, _ := kernels.SplitCandidate(w.curve.Series.Key.Kernel)
	return base
}

// explains reports whether a mechanism that wastes a share of the row's time accounts for the loss.
func (w *witness) explains(share float64) bool { return share > 0 && share >= explainShare*w.loss }

// within is the row's log time minus the part of its loss that a mechanism must explain.
func (w *witness) within() float64 {
	return w.row.US.Y + math.Log1p(-math.Min(explainShare*w.loss, 0.999))
}

func newWitness(c *Candidate) *witness {
	j := c.Worst
	w := &witness{c: c, curve: j.Curve, row: j.Curve.Points[j.Point], loss: math.Max(j.Loss.Mid, 0)}
	if t := c.tests[j]; t != nil && t.confirmed {
		w.loss = math.Max(t.loss.Mid, 0)
		w.stated = w.loss
	} else {
		w.stated = math.Max(c.worstLoss().Mid, 0)
	}
	m := j.Against.M
	switch {
	case len(j.Against.Parts) > 0:
		m = j.Against.Parts[len(j.Against.Parts)-1] // the largest part
	case j.Against.PadTo > 0:
		m = j.Against.PadTo
	}
	if j.Against.Kernel == j.direct().Kernel && j.Against.DType == j.direct().DType {
		if i, ok := w.curve.At(m); ok {
			w.reference = w.curve.Points[i]
		}
	}
	return w
}

func (w *witness) mfu(p infer.Point) float64 { return math.Exp(p.Rate() - w.curve.Peak) }

func (w *witness) versus() string {
	j := w.c.Worst
	us := math.Exp(w.row.US.Y)
	switch {
	case len(j.Against.Parts) > 0:
		return fmt.Sprintf("%s takes %s us, split into %v it would take %s us", w.curve.Name(w.row.M), phrase.Figure(us), j.Against.Parts,
			phrase.Figure(us*(1-w.stated)))
	case j.Against.PadTo > 0:
		return fmt.Sprintf("%s takes %s us, the larger %s takes %s us", w.curve.Name(w.row.M), phrase.Figure(us),
			w.curve.Name(j.Against.PadTo),
			phrase.Figure(us*(1-w.stated)))
	case j.Against.M == w.row.M:
		return fmt.Sprintf("%s takes %s us, and could take %s us", w.curve.Name(w.row.M), phrase.Figure(us), phrase.Figure(us*(1-w.stated)))
	}
	return fmt.Sprintf("%s takes %s us, MFU %s, compared with %s at %s", w.curve.Name(w.row.M), phrase.Figure(us),
		phrase.Percent(w.mfu(w.row)),
		phrase.Percent(w.mfu(w.row)/(1-math.Min(w.stated, 0.999))), w.curve.Name(j.Against.M))
}
