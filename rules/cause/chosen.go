package cause

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/phrase"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// A launch that computes more rows in less time would have served fewer rows too. So a bad choice shows
// without knowing which kernels ran.

// larger: a product of more rows takes so much less time that its kernel would have served the row too. This
// must hold for most rows of the finding, because the last one always borders a fast row.
func (w *Witness) larger() (Kind, string) {
	own := w.Row.Label
	least := -1
	for k := w.At + 1; k < len(w.Curve.Points); k++ {
		p := w.Curve.Points[k]
		if own != "" && p.Label == own || !w.surelyFaster(p) {
			continue // the same kernel is not another choice; see sameKernel
		}
		if least < 0 || p.US.Y < w.Curve.Points[least].US.Y {
			least = k
		}
		if p.US.Y > w.within() {
			continue
		}
		if n := w.servedByLarger(); 2*n < len(w.Rows) {
			return "", fmt.Sprintf("%s takes only %s us, but a larger %s would help only %d of the %d rows", w.Curve.Name(p.M),
				phrase.Figure(math.Exp(p.US.Y)), w.Curve.AxisWord(), n, len(w.Rows))
		}
		by := ""
		if own != "" && p.Label != "" {
			by = fmt.Sprintf(" with %s, while this size runs %s", phrase.Kernel(p.Label), phrase.Kernel(own))
		}
		return HeuristicChoice, fmt.Sprintf("%s, which is %s larger, takes only %s us%s: its kernel would also be faster for %s",
			w.Curve.Name(p.M), w.Curve.Distance(p.M-w.Row.M), phrase.Figure(math.Exp(p.US.Y)), by, w.Curve.Name(w.Row.M))
	}
	if least < 0 {
		return "", "no larger measured " + w.Curve.AxisWord() + " takes less time"
	}
	p := w.Curve.Points[least]
	w.choiceLoss = stats.Lost(p.US.Y - w.Row.US.Y)
	w.choiceWhy = fmt.Sprintf("%s takes %s us, %s less, with another kernel", w.Curve.Name(p.M), phrase.Figure(math.Exp(p.US.Y)),
		phrase.Percent(w.choiceLoss))
	return "", fmt.Sprintf("the fastest larger %s, %s, takes %s us, only %s less", w.Curve.AxisWord(), w.Curve.Name(p.M),
		phrase.Figure(math.Exp(p.US.Y)), phrase.Percent(w.choiceLoss))
}

// servedByLarger counts the rows of the finding that would lose less than half as much with the launch of
// some larger M.
func (w *Witness) servedByLarger() int {
	e, n := w.Curve.Envelope(), 0
	for _, j := range w.Rows {
		loss := math.Min(explainShare*math.Max(j.Loss, 0), 0.999)
		if j.Point+1 < len(e) && e[j.Point+1] <= w.Curve.Points[j.Point].US.Y+math.Log1p(-loss) {
			n++
		}
	}
	return n
}

func (w *Witness) surelyFaster(p infer.Point) bool {
	return p.US.Y+infer.Clearly*math.Hypot(p.US.SE, w.Row.US.SE) < w.Row.US.Y
}

// sameKernel: the row's kernel computes a larger product in so much less time that neither the product nor
// the machine is the cause.
func (w *Witness) sameKernel() (Kind, string) {
	own := w.Row.Label
	if own == "" {
		return "", "the kernel's name is unknown"
	}
	for k := w.At + 1; k < len(w.Curve.Points); k++ {
		if p := w.Curve.Points[k]; p.Label == own && p.US.Y <= w.within() && w.surelyFaster(p) {
			return Implementation, fmt.Sprintf("the same kernel, %s, computes the larger %s in %s us", phrase.Kernel(own),
				w.Curve.Name(p.M),
				phrase.Figure(math.Exp(p.US.Y)))
		}
	}
	return "", fmt.Sprintf("%s computes no larger product faster", phrase.Kernel(own))
}

// kept: the kernel that ran at the next smaller M has room for the row's tiles in the same number of waves,
// and would have been faster.
func (w *Witness) kept() (Kind, string) {
	own := w.Row.Label
	if own == "" {
		return "", "kernels are not named"
	}
	seen := map[string]bool{own: true}
	why := "no other kernel ran at a smaller " + w.Curve.AxisWord()
	for i := w.At - 1; i >= 0; i-- {
		p := w.Curve.Points[i]
		label := p.Label
		if 2*p.M < w.Row.M {
			break // more than an octave below is another problem
		}
		if label == "" || seen[label] {
			continue
		}
		seen[label] = true
		t, ok := w.Curve.TileOf(p)
		if !ok {
			continue
		}
		there, here := t.Fill(p.M), t.Fill(w.Row.M)
		if here.Waves != there.Waves {
			why = fmt.Sprintf("%s, which ran %s, would need %s instead of %d", phrase.Kernel(label), w.Curve.Name(p.M),
				phrase.Count(here.Waves, "wave"),
				there.Waves)
			continue
		}
		if p.US.Y > w.within() {
			why = fmt.Sprintf("%s, which took %s us for %s, would not be faster enough", phrase.Kernel(label),
				phrase.Figure(math.Exp(p.US.Y)),
				w.Curve.Name(p.M))
			continue
		}
		return HeuristicChoice, fmt.Sprintf("%s took %s us for %s in %s of %dx%d tiles; %s needs no more waves, and runs %s instead",
			phrase.Kernel(label), phrase.Figure(math.Exp(p.US.Y)), w.Curve.Name(p.M), phrase.Count(there.Waves, "wave"), t.M, t.N,
			w.Curve.Name(w.Row.M),
			phrase.Kernel(own))
	}
	return "", why
}

// neighbours: the row's kernel is slow wherever it is chosen, or slower than another kernel that runs on both
// sides of the row.
func (w *Witness) neighbours() (Kind, string) {
	label := w.Row.Label
	if label == "" {
		return "", ""
	}
	wanted := w.Row.Flops - w.within()
	own, other := math.Inf(-1), -1
	distance := math.Inf(1)
	below := map[string]int{} // the nearest point of a kernel that reaches the wanted rate
	for i, p := range w.Curve.Points {
		if p.Label == "" || math.Abs(math.Log(float64(p.M)/float64(w.Row.M))) > math.Ln2 {
			continue // another octave of M is another problem
		}
		name := p.Label
		if name == label {
			own = math.Max(own, p.Rate())
			continue
		}
		if p.Rate() < wanted {
			continue
		}
		if d := math.Abs(float64(p.M - w.Row.M)); d < distance {
			other, distance = i, d
		}
		if p.M < w.Row.M {
			below[name] = p.M
		} else if from, ok := below[name]; ok && float64(p.M) <= neighbourRatio*float64(from) {
			return HeuristicChoice, fmt.Sprintf("%s chose %s, while %s runs the sizes next to it, %s and %s, at MFU %s or more",
				w.kernel(), phrase.Kernel(label), phrase.Kernel(name), w.Curve.Name(from), w.Curve.Name(p.M),
				phrase.Percent(math.Exp(wanted-w.Curve.Peak)))
		}
	}
	if other < 0 {
		return "", fmt.Sprintf("no other kernel reaches MFU %s between %s and %s", phrase.Percent(math.Exp(wanted-w.Curve.Peak)),
			w.Curve.Name(w.Row.M/2), w.Curve.Name(w.Row.M*2))
	}
	if own >= w.Row.Rate()-math.Log1p(-math.Min(w.Loss, 0.999)) {
		return "", fmt.Sprintf("%s itself reaches MFU %s between %s and %s", phrase.Kernel(label),
			phrase.Percent(math.Exp(own-w.Curve.Peak)),
			w.Curve.Name(w.Row.M/2), w.Curve.Name(w.Row.M*2))
	}
	p := w.Curve.Points[other]
	return HeuristicChoice, fmt.Sprintf("%s chose %s, which reaches at most MFU %s between %s and %s, while %s ran %s at MFU %s",
		w.kernel(), phrase.Kernel(label), phrase.Percent(math.Exp(own-w.Curve.Peak)), w.Curve.Name(w.Row.M/2), w.Curve.Name(w.Row.M*2),
		phrase.Kernel(p.Label),
		w.Curve.Name(p.M), phrase.Percent(w.mfu(p)))
}

// neighbourRatio is the largest ratio of M between two rows of one kernel that are evidence for the rows
// between them.
const neighbourRatio = 1.25

// together: no single mechanism explains enough of the loss, but a faster choice at a larger M and the step
// below that M do together. The larger one is named.
func (w *Witness) together() (Kind, string) {
	if w.choiceLoss == 0 || !w.explains(w.choiceLoss+w.stepLoss) || w.choiceLoss < w.stepLoss || w.choiceLoss < minorShare*w.Loss {
		return "", ""
	}
	return HeuristicChoice, w.choiceWhy + "; " + w.stepWhy
}
