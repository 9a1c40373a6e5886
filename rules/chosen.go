package rules

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// A launch that computes more rows in less time would have served fewer rows too. So a bad choice shows
// without knowing which kernels ran.

// clearly is by how many standard errors one time must lie below another before a cause rests on it.
const clearly = 3

// larger: a product of more rows takes so much less time that its kernel would have served the row too. This
// must hold for most rows of the finding, because the last one always borders a fast row.
func (w *witness) larger() (Cause, string) {
	own := w.row.label
	least := -1
	for k := w.c.worst.point + 1; k < len(w.curve.points); k++ {
		p := w.curve.points[k]
		if own != "" && p.label == own || !w.surelyFaster(p) {
			continue // the same kernel is not another choice; see sameKernel
		}
		if least < 0 || p.us.Y < w.curve.points[least].us.Y {
			least = k
		}
		if p.us.Y > w.within() {
			continue
		}
		if n := w.servedByLarger(); 2*n < len(w.c.rows) {
			return "", fmt.Sprintf("%s takes only %s us, but a larger %s would help only %d of the %d rows", w.curve.name(p.m),
				figure(math.Exp(p.us.Y)), w.curve.size(), n, len(w.c.rows))
		}
		by := ""
		if own != "" && p.label != "" {
			by = fmt.Sprintf(" with %s, while this size runs %s", short(p.label), short(own))
		}
		return HeuristicChoice, fmt.Sprintf("%s, which is %s larger, takes only %s us%s: its kernel would also be faster for %s",
			w.curve.name(p.m), w.curve.steps(p.m-w.row.m), figure(math.Exp(p.us.Y)), by, w.curve.name(w.row.m))
	}
	if least < 0 {
		return "", "no larger measured M takes less time"
	}
	p := w.curve.points[least]
	w.choiceLoss = stats.Lost(p.us.Y - w.row.us.Y)
	w.choiceWhy = fmt.Sprintf("%s takes %s us, %s less, with another kernel", w.curve.name(p.m), figure(math.Exp(p.us.Y)),
		percent(w.choiceLoss))
	return "", fmt.Sprintf("the fastest larger %s, %s, takes %s us, only %s less", w.curve.size(), w.curve.name(p.m),
		figure(math.Exp(p.us.Y)), percent(w.choiceLoss))
}

// servedByLarger counts the rows of the finding that would lose less than half as much with the launch of
// some larger M.
func (w *witness) servedByLarger() int {
	e, n := w.curve.envelope(), 0
	for _, j := range w.c.rows {
		loss := math.Min(explainShare*math.Max(j.loss.Mid, 0), 0.999)
		if j.point+1 < len(e) && e[j.point+1] <= w.curve.points[j.point].us.Y+math.Log1p(-loss) {
			n++
		}
	}
	return n
}

func (w *witness) surelyFaster(p point) bool {
	return p.us.Y+clearly*math.Hypot(p.us.SE, w.row.us.SE) < w.row.us.Y
}

// sameKernel: the row's kernel computes a larger product in so much less time that neither the product nor
// the machine is the cause.
func (w *witness) sameKernel() (Cause, string) {
	own := w.row.label
	if own == "" {
		return "", "the kernel's name is unknown"
	}
	for k := w.c.worst.point + 1; k < len(w.curve.points); k++ {
		if p := w.curve.points[k]; p.label == own && p.us.Y <= w.within() && w.surelyFaster(p) {
			return Implementation, fmt.Sprintf("the same kernel, %s, computes the larger %s in %s us", short(own), w.curve.name(p.m),
				figure(math.Exp(p.us.Y)))
		}
	}
	return "", fmt.Sprintf("%s computes no larger product faster", short(own))
}

// kept: the kernel that ran at the next smaller M has room for the row's tiles in the same number of waves,
// and would have been faster.
func (w *witness) kept() (Cause, string) {
	own := w.row.label
	if own == "" {
		return "", "kernels are not named"
	}
	seen := map[string]bool{own: true}
	why := "no other kernel ran at a smaller " + w.curve.size()
	for i := w.c.worst.point - 1; i >= 0; i-- {
		p := w.curve.points[i]
		label := p.label
		if 2*p.m < w.row.m {
			break // more than an octave below is another problem
		}
		if label == "" || seen[label] {
			continue
		}
		seen[label] = true
		t, ok := w.curve.tileOf(p)
		if !ok {
			continue
		}
		there, here := t.fill(p.m), t.fill(w.row.m)
		if here.waves != there.waves {
			why = fmt.Sprintf("%s, which ran %s, would need %s instead of %d", short(label), w.curve.name(p.m), plural(here.waves, "wave"),
				there.waves)
			continue
		}
		if p.us.Y > w.within() {
			why = fmt.Sprintf("%s, which took %s us for %s, would not be faster enough", short(label), figure(math.Exp(p.us.Y)),
				w.curve.name(p.m))
			continue
		}
		return HeuristicChoice, fmt.Sprintf("%s took %s us for %s in %s of %dx%d tiles; %s needs no more waves, and runs %s instead",
			short(label), figure(math.Exp(p.us.Y)), w.curve.name(p.m), plural(there.waves, "wave"), t.m, t.n, w.curve.name(w.row.m),
			short(own))
	}
	return "", why
}

// neighbours: the row's kernel is slow wherever it is chosen, or slower than another kernel that runs on both
// sides of the row.
func (w *witness) neighbours() (Cause, string) {
	label := w.row.label
	if label == "" {
		return "", ""
	}
	wanted := w.row.flops - w.within()
	own, other := math.Inf(-1), -1
	distance := math.Inf(1)
	below := map[string]int{} // the nearest point of a kernel that reaches the wanted rate
	for i, p := range w.curve.points {
		if p.label == "" || math.Abs(math.Log(float64(p.m)/float64(w.row.m))) > math.Ln2 {
			continue // another octave of M is another problem
		}
		name := p.label
		if name == label {
			own = math.Max(own, p.rate())
			continue
		}
		if p.rate() < wanted {
			continue
		}
		if d := math.Abs(float64(p.m - w.row.m)); d < distance {
			other, distance = i, d
		}
		if p.m < w.row.m {
			below[name] = p.m
		} else if from, ok := below[name]; ok && float64(p.m) <= neighbourRatio*float64(from) {
			return HeuristicChoice, fmt.Sprintf("%s chose %s, while %s runs the sizes next to it, %s and %s, at MFU %s or more",
				w.kernel(), short(label), short(name), w.curve.name(from), w.curve.name(p.m), percent(math.Exp(wanted-w.curve.peak)))
		}
	}
	if other < 0 {
		return "", fmt.Sprintf("no other kernel reaches MFU %s between %s and %s", percent(math.Exp(wanted-w.curve.peak)),
			w.curve.name(w.row.m/2), w.curve.name(w.row.m*2))
	}
	if own >= w.row.rate()-math.Log1p(-math.Min(w.loss, 0.999)) {
		return "", fmt.Sprintf("%s itself reaches MFU %s between %s and %s", short(label), percent(math.Exp(own-w.curve.peak)),
			w.curve.name(w.row.m/2), w.curve.name(w.row.m*2))
	}
	p := w.curve.points[other]
	return HeuristicChoice, fmt.Sprintf("%s chose %s, which reaches at most MFU %s between %s and %s, while %s ran %s at MFU %s",
		w.kernel(), short(label), percent(math.Exp(own-w.curve.peak)), w.curve.name(w.row.m/2), w.curve.name(w.row.m*2), short(p.label),
		w.curve.name(p.m), percent(w.mfu(p)))
}

// neighbourRatio is the largest ratio of M between two rows of one kernel that are evidence for the rows
// between them.
const neighbourRatio = 1.25

// together: no single mechanism explains enough of the loss, but a faster choice at a larger M and the step
// below that M do together. The larger one is named.
func (w *witness) together() (Cause, string) {
	if w.choiceLoss == 0 || !w.explains(w.choiceLoss+w.stepLoss) || w.choiceLoss < w.stepLoss || w.choiceLoss < minorShare*w.loss {
		return "", ""
	}
	return HeuristicChoice, w.choiceWhy + "; " + w.stepWhy
}
