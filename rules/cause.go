package rules

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/phrase"
)

// explainShare is the share of a loss that a mechanism must explain to be named as the cause.
const explainShare = 0.5

// minorShare is the least share that the largest mechanism must explain if several together explain
// explainShare of a loss.
const minorShare = 0.3

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
	own, than := w.curve.Series.Key.DType, w.against.DType
	if weights := w.curve.Series.Key.Weights; w.against.Weights != weights {
		text := fmt.Sprintf("%s; weights %v are slower than plain weights, which %s uses at the same shape", w.versus(), weights,
			w.against.Kernel)
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
	text := fmt.Sprintf("%s: the kernel %s is faster at the same product", w.versus(), w.against.Kernel)
	var others []string
	for _, r := range w.rows {
		if name := r.against.Kernel; name != w.against.Kernel && !slices.Contains(others, name) {
			others = append(others, name)
		}
	}
	if len(others) > 0 {
		text += fmt.Sprintf("; at other sizes from %s to %s it is %s", w.curve.Name(w.curve.Points[w.rows[0].point].M),
			w.curve.Name(w.curve.Points[w.rows[len(w.rows)-1].point].M), strings.Join(others, " or "))
	}
	if w.curve.Series.Key.Kernel == "auto" {
		return HeuristicChoice, text
	}
	label := w.against.Label
	if kernels.ChooserOf(w.curve.Series.Key.Kernel) == kernels.ChooserOf(w.against.Kernel) {
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

// slowRow is a row of a finding.
type slowRow struct {
	point   int
	loss    float64 // expected share of the time
	against *results.Case
}

// witness holds the numbers of a candidate's worst row and of the row that it is compared with.
type witness struct {
	curve     *infer.Curve
	at        int // the row's point
	against   *results.Case
	rows      []slowRow // all rows of the finding
	smaller   bool      // the row is compared with a smaller size
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

func (w *witness) mfu(p infer.Point) float64 { return math.Exp(p.Rate() - w.curve.Peak) }

func (w *witness) versus() string {
	us := math.Exp(w.row.US.Y)
	switch {
	case len(w.against.Parts) > 0:
		return fmt.Sprintf("%s takes %s us, split into %v it would take %s us", w.curve.Name(w.row.M), phrase.Figure(us), w.against.Parts,
			phrase.Figure(us*(1-w.stated)))
	case w.against.PadTo > 0:
		return fmt.Sprintf("%s takes %s us, the larger %s takes %s us", w.curve.Name(w.row.M), phrase.Figure(us),
			w.curve.Name(w.against.PadTo),
			phrase.Figure(us*(1-w.stated)))
	case w.against.M == w.row.M:
		return fmt.Sprintf("%s takes %s us, and could take %s us", w.curve.Name(w.row.M), phrase.Figure(us), phrase.Figure(us*(1-w.stated)))
	}
	return fmt.Sprintf("%s takes %s us, MFU %s, compared with %s at %s", w.curve.Name(w.row.M), phrase.Figure(us),
		phrase.Percent(w.mfu(w.row)),
		phrase.Percent(w.mfu(w.row)/(1-math.Min(w.stated, 0.999))), w.curve.Name(w.against.M))
}
