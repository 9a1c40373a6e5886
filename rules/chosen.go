package rules

import (
	"fmt"
	"math"
)

// Nobody has to know what a library runs to see that it chose badly: a launch that
// computes more rows in less time would have served fewer rows too.

// clearly is by how many standard errors one time has to lie below another before a cause
// rests on it.
const clearly = 3

// larger: a product of more rows takes so much less time that whatever runs there
// would have served the row as well, and so it is for most rows of the finding: the last of
// them always stands beside one that is not slow.
func (w *witness) larger() (Cause, string) {
	own := w.row.label
	least := -1
	for k := w.c.worst.point + 1; k < len(w.curve.points); k++ {
		p := w.curve.points[k]
		if own != "" && p.label == own || !w.surelyFaster(p) {
			continue // the same kernel is no other choice; see sameKernel
		}
		if least < 0 || p.us.y < w.curve.points[least].us.y {
			least = k
		}
		if p.us.y > w.within() {
			continue
		}
		if n := w.servedByLarger(); 2*n < len(w.c.rows) {
			return "", fmt.Sprintf("m%d takes only %s us, but a larger M would serve no more than %d of the %d rows", p.m, figure(math.Exp(p.us.y)), n, len(w.c.rows))
		}
		by := ""
		if own != "" && p.label != "" {
			by = fmt.Sprintf(" with %s, where the row runs %s", short(p.label), short(own))
		}
		return HeuristicChoice, fmt.Sprintf("m%d, which is %s more, takes only %s us%s: what runs there would serve m%d too",
			p.m, plural(p.m-w.row.m, "row"), figure(math.Exp(p.us.y)), by, w.row.m)
	}
	if least < 0 {
		return "", "no larger M that was measured takes less time"
	}
	p := w.curve.points[least]
	w.choiceLoss = lost(p.us.y - w.row.us.y)
	w.choiceWhy = fmt.Sprintf("m%d takes %s us, %s less, with another choice of kernel", p.m, figure(math.Exp(p.us.y)), percent(w.choiceLoss))
	return "", fmt.Sprintf("of the larger Ms the fastest, m%d, takes %s us, %s less, which is not enough", p.m, figure(math.Exp(p.us.y)), percent(w.choiceLoss))
}

// servedByLarger is how many rows of the finding lose less than half as much in the launch of some larger M.
func (w *witness) servedByLarger() int {
	e, n := w.curve.envelope(), 0
	for _, j := range w.c.rows {
		loss := math.Min(explainShare*math.Max(j.loss.Mid, 0), 0.999)
		if j.point+1 < len(e) && e[j.point+1] <= w.curve.points[j.point].us.y+math.Log1p(-loss) {
			n++
		}
	}
	return n
}

// surelyFaster says whether a point takes less time than the row beyond their noise.
func (w *witness) surelyFaster(p point) bool {
	return p.us.y+clearly*math.Hypot(p.us.se, w.row.us.se) < w.row.us.y
}

// sameKernel: the kernel of the row computes a larger product in so much less time that
// neither the product nor the machine is at fault.
func (w *witness) sameKernel() (Cause, string) {
	own := w.row.label
	if own == "" {
		return "", "the kernel's name is not known"
	}
	for k := w.c.worst.point + 1; k < len(w.curve.points); k++ {
		if p := w.curve.points[k]; p.label == own && p.us.y <= w.within() && w.surelyFaster(p) {
			return Implementation, fmt.Sprintf("the same kernel, %s, computes the larger m%d in %s us", short(own), p.m, figure(math.Exp(p.us.y)))
		}
	}
	return "", fmt.Sprintf("%s computes no larger product faster", short(own))
}

// kept: the kernel that ran next below the row has room for its tiles in the waves that it
// needed there, and would have been faster.
func (w *witness) kept() (Cause, string) {
	own := w.row.label
	if own == "" {
		return "", "kernels are not named"
	}
	seen := map[string]bool{own: true}
	why := "no other kernel ran at a smaller M"
	for i := w.c.worst.point - 1; i >= 0; i-- {
		p := w.curve.points[i]
		label := p.label
		if 2*p.m < w.row.m {
			break // an octave below is another problem
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
			why = fmt.Sprintf("%s, which ran m%d, would need %s instead of %d", short(label), p.m, plural(here.waves, "wave"), there.waves)
			continue
		}
		if p.us.y > w.within() {
			why = fmt.Sprintf("%s, which took %s us for m%d, would not be enough faster", short(label), figure(math.Exp(p.us.y)), p.m)
			continue
		}
		return HeuristicChoice, fmt.Sprintf("%s took %s us for m%d in %s of %dx%d tiles; m%d needs no more waves, and runs %s instead",
			short(label), figure(math.Exp(p.us.y)), p.m, plural(there.waves, "wave"), t.m, t.n, w.row.m, short(own))
	}
	return "", why
}

// neighbours: the kernel that the row runs is slow wherever it is chosen, or slower than
// another one that runs on both sides of the row.
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
			return HeuristicChoice, fmt.Sprintf("the library chose %s, while %s runs m%d and m%d on both sides of it at MFU %s and more",
				short(label), short(name), from, p.m, percent(math.Exp(wanted-w.curve.peak)))
		}
	}
	if other < 0 {
		return "", fmt.Sprintf("no other kernel reaches MFU %s between m%d and m%d", percent(math.Exp(wanted-w.curve.peak)), w.row.m/2, w.row.m*2)
	}
	if own >= w.row.rate()-math.Log1p(-math.Min(w.loss, 0.999)) {
		return "", fmt.Sprintf("%s itself reaches MFU %s between m%d and m%d", short(label), percent(math.Exp(own-w.curve.peak)), w.row.m/2, w.row.m*2)
	}
	p := w.curve.points[other]
	return HeuristicChoice, fmt.Sprintf("the library chose %s, which reaches MFU %s at best between m%d and m%d, while %s ran m%d at MFU %s",
		short(label), percent(math.Exp(own-w.curve.peak)), w.row.m/2, w.row.m*2, short(p.label), p.m, percent(w.mfu(p)))
}

// neighbourRatio is how far apart, as a ratio of M, two rows of one kernel may lie that speak for
// the rows between them.
const neighbourRatio = 1.25

// together: no mechanism accounts for enough of the loss by itself, but a better choice for a larger M and the
// step behind which that M stands too do. The greater is named.
func (w *witness) together() (Cause, string) {
	if w.choiceLoss == 0 || !w.explains(w.choiceLoss+w.stepLoss) || w.choiceLoss < w.stepLoss || w.choiceLoss < minorShare*w.loss {
		return "", ""
	}
	return HeuristicChoice, w.choiceWhy + "; " + w.stepWhy
}
