package cause

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

// Seek is the first of the causes looked for that explains the loss, with its numbers; empty if none does.
func (w *Witness) Seek(looks []look) (Kind, string) {
	for _, l := range looks {
		known, why := l.at(w)
		if known != "" {
			w.Excluded = slices.DeleteFunc(w.Excluded, func(e Exclusion) bool { return e.Cause == known })
			return known, why
		}
		w.exclude(l.cause, why)
	}
	return "", ""
}

func (w *Witness) exclude(known Kind, why string) {
	if why == "" {
		return
	}
	if i := slices.IndexFunc(w.Excluded, func(e Exclusion) bool { return e.Cause == known }); i >= 0 {
		w.Excluded[i].Why += "; " + why
		return
	}
	w.Excluded = append(w.Excluded, Exclusion{known, why})
}

// Parity: a type that moves no more bytes than the other type but is slower lost its time to a bad choice or
// to the kernel's code.
func (w *Witness) Parity() (Kind, string) {
	own, than := w.Curve.Series.Key.DType, w.Against.DType
	if weights := w.Curve.Series.Key.Weights; w.Against.Weights != weights && own == than {
		text := fmt.Sprintf("%s; weights %v are slower than plain weights, which %s uses at the same shape", w.Versus(), weights,
			w.Against.Kernel)
		if known, why := w.Seek(choices); known != "" {
			return known, text + ": " + why
		}
		return Implementation,
			fmt.Sprintf("%s, although they have %s instead of %s", text, phrase.Count(weights.Bits, "bit"), phrase.Count(own.Bits(), "bit"))
	}
	text := fmt.Sprintf("%s; %s is slower than %s at the same shape and kernel", w.Versus(), own, than)
	if known, why := w.Seek(choices); known != "" {
		return known, text + ": " + why
	}
	if own.Size() <= than.Size() {
		return Implementation,
			fmt.Sprintf("%s, although its elements have %s instead of %s", text, phrase.Count(own.Size(), "byte"),
				phrase.Count(than.Size(), "byte"))
	}
	w.exclude(Implementation, fmt.Sprintf("%s moves %d bytes per element instead of %d", own, own.Size(), than.Size()))
	return Unknown, text
}

// Alternative: if the library ran a faster kernel next to the row, or has the faster kernel, its heuristic
// chose badly. Otherwise the implementation is the cause.
func (w *Witness) Alternative() (Kind, string) {
	text := fmt.Sprintf("%s: the kernel %s is faster at the same product", w.Versus(), w.Against.Kernel)
	var others []string
	for _, r := range w.Rows {
		if name := r.Against.Kernel; name != w.Against.Kernel && !slices.Contains(others, name) {
			others = append(others, name)
		}
	}
	if len(others) > 0 {
		text += fmt.Sprintf("; at other sizes from %s to %s it is %s", w.Curve.Name(w.Curve.Points[w.Rows[0].Point].M),
			w.Curve.Name(w.Curve.Points[w.Rows[len(w.Rows)-1].Point].M), strings.Join(others, " or "))
	}
	if w.Curve.Series.Key.Kernel == "auto" {
		return HeuristicChoice, text
	}
	label := w.Against.Label
	if kernels.ChooserOf(w.Curve.Series.Key.Kernel) == kernels.ChooserOf(w.Against.Kernel) {
		if own := w.Row.Label; label != "" && own != "" && own != label {
			text += fmt.Sprintf(", using %s instead of %[3]s, which %[2]s chose", phrase.Kernel(label), w.kernel(), phrase.Kernel(own))
		}
		return HeuristicChoice, text
	}
	if label != "" && label != w.Row.Label {
		if i := slices.IndexFunc(w.Curve.Points, func(p infer.Point) bool { return p.Label == label }); i >= 0 {
			return HeuristicChoice, fmt.Sprintf("%s, using %s, which %s itself uses at %s", text, phrase.Kernel(label),
				w.Curve.Series.Key.Kernel,
				w.Curve.Name(w.Curve.Points[i].M))
		}
	}
	if known, why := w.Seek(choices); known != "" {
		return known, text + "; " + why
	}
	return Implementation, text
}

// Slow is a row of a finding.
type Slow struct {
	Point   int
	Loss    float64 // expected share of the time
	Against *results.Case
}

// Witness holds the numbers of a candidate's worst row and of the row that it is compared with.
type Witness struct {
	Curve     *infer.Curve
	At        int // the row's point
	Against   *results.Case
	Rows      []Slow // all rows of the finding
	Smaller   bool   // the row is compared with a smaller size
	Row       infer.Point
	Reference infer.Point // of the same series; m is 0 if there is none
	Loss      float64
	// Stated is the loss that the finding has, without the bias of choosing the worst row.
	Stated float64
	// choiceLoss and stepLoss are the shares of the row's time explained by a faster choice for a larger M
	// and by the last step in the times. Each comes with a sentence.
	choiceLoss, stepLoss float64
	choiceWhy, stepWhy   string
	Excluded             []Exclusion
}

func (w *Witness) kernel() string {
	base, _ := kernels.SplitCandidate(w.Curve.Series.Key.Kernel)
	return base
}

// explains reports whether a mechanism that wastes a share of the row's time accounts for the loss.
func (w *Witness) explains(share float64) bool { return share > 0 && share >= explainShare*w.Loss }

// within is the row's log time minus the part of its loss that a mechanism must explain.
func (w *Witness) within() float64 {
	return w.Row.US.Y + math.Log1p(-math.Min(explainShare*w.Loss, 0.999))
}

func (w *Witness) mfu(p infer.Point) float64 { return math.Exp(p.Rate() - w.Curve.Peak) }

// Versus compares the row with its reference, in half a sentence.
func (w *Witness) Versus() string {
	us := math.Exp(w.Row.US.Y)
	switch {
	case len(w.Against.Parts) > 0:
		return fmt.Sprintf("%s takes %s us, split into %v it would take %s us", w.Curve.Name(w.Row.M), phrase.Figure(us), w.Against.Parts,
			phrase.Figure(us*(1-w.Stated)))
	case w.Against.PadTo > 0:
		return fmt.Sprintf("%s takes %s us, the larger %s takes %s us", w.Curve.Name(w.Row.M), phrase.Figure(us),
			w.Curve.Name(w.Against.PadTo),
			phrase.Figure(us*(1-w.Stated)))
	case w.Against.M == w.Row.M:
		return fmt.Sprintf("%s takes %s us, and could take %s us", w.Curve.Name(w.Row.M), phrase.Figure(us), phrase.Figure(us*(1-w.Stated)))
	}
	return fmt.Sprintf("%s takes %s us, MFU %s, compared with %s at %s", w.Curve.Name(w.Row.M), phrase.Figure(us),
		phrase.Percent(w.mfu(w.Row)),
		phrase.Percent(w.mfu(w.Row)/(1-math.Min(w.Stated, 0.999))), w.Curve.Name(w.Against.M))
}
