package rules

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/gemmaudit/gemmaudit/results"
)

// resolve is the resolution of the estimates: the loss below which two rows of a run are not told apart at
// the confidence, as a share of the faster one's time. It follows from the standard error of a typical row, in
// which the scatter of its samples is, lost time, and what the sentinels drift by unexplained. 0 is that too
// little was measured to tell.
func (p *prepared) resolve(cfg Config) float64 {
	var half []float64
	for _, c := range p.curves {
		for i := range c.points {
			if e := c.points[i].us; !c.points[i].inferred && c.points[i].judged(cfg.MinSamples) && e.se > 0 {
				half = append(half, math.Sqrt2*e.se*p.q.upper((1-cfg.Confidence)/2, e.df))
			}
		}
	}
	if len(half) == 0 {
		return 0
	}
	return expo(selectMedian(half)) - 1
}

// cleanBelow is the loss that a row which is called clean stays below, as a share of its time, given where losses begin to
// break the rule: there, or where the resolution is coarser, past it by twice the difference. A row that
// loses nothing is then cleared as often as on a machine whose resolution is that bound.
func cleanBelow(resolution, bound float64) float64 {
	least := -math.Log1p(-bound)
	return lost(-math.Max(least, 2*math.Log1p(resolution)-least))
}

// clear marks the rows of a panel that are undecided only because the resolution is coarser than the loss that the rule
// allows. Suspects are measured again and are not among them.
func (pn *panel) clear(resolution float64) {
	for _, rows := range pn.rows {
		for i := range rows {
			j := &rows[i]
			j.cleared = j.tested && j.verdict == Undecided && j.lossBound > 0 && j.p > suspectP &&
				j.loss.Hi < cleanBelow(resolution, j.lossBound)
		}
	}
}

// cleanBelow is [Audit].CleanBelow of the panel whose verdicts rows carry.
func (pn *panel) cleanBelow(resolution float64) float64 {
	for _, rows := range pn.rows {
		for i := range rows {
			if b := rows[i].lossBound; rows[i].tested && b > 0 {
				if below := cleanBelow(resolution, b); below > b+marginalReach {
					return below
				}
				return 0
			}
		}
	}
	return 0
}

// invalid is why nothing can be said of the run as a whole, empty where something can: its resolution, as resolve has it, is
// coarser than the bound, or is not known and the machine changed by more.
func (p *prepared) invalid(resolution float64, cfg Config) string {
	switch {
	case resolution == 0: // only the sentinels tell
		return p.drift.invalid(cfg.DriftBound)
	case resolution > cfg.DriftBound:
		return fmt.Sprintf("%s, and the bound is %s", ResolutionText(resolution), roughly(cfg.DriftBound))
	}
	return ""
}

// ResolutionText says a resolution in words.
func ResolutionText(r float64) string {
	return "differences below " + roughly(r) + " cannot be seen on this machine now"
}

// CleanText says which losses the rows that an audit calls clean may have, empty where those are what its rules allow.
func (a *Audit) CleanText() string {
	if a.CleanBelow == 0 {
		return ""
	}
	return "a clean row loses less than " + roughly(a.CleanBelow)
}

// roughly is a share with two digits, rounded up.
func roughly(share float64) string {
	percent := 100 * share
	unit := math.Pow(10, math.Floor(math.Log10(math.Max(percent, 0.01)))-1)
	return strconv.FormatFloat(math.Ceil(percent/unit-1e-9)*unit, 'f', max(0, -int(math.Floor(math.Log10(unit)+1e-9))), 64) + " %"
}

// Steadiness is what repeated blocks of a few cases tell of a machine.
type Steadiness struct {
	Scatter Scatter `json:"scatter"`
	// Resolution is that of a run whose rows have so many samples; see [Audit].
	Resolution float64 `json:"resolution"`
}

// TellSteadiness estimates the resolution of a run from blocks that were timed one after the other: samples by case, in the
// order of time. rows is how many samples a row of the run has.
func TellSteadiness(samples [][]results.Sample, rows int, cfg Config) Steadiness {
	var tracks []track
	for _, of := range samples {
		of = slices.DeleteFunc(slices.Clone(of), func(s results.Sample) bool { return !usable(&s) })
		log, t := clockFit(of), track{}
		for _, s := range of {
			t.y = append(t.y, log(s))
		}
		tracks = append(tracks, t)
	}
	s := Steadiness{Scatter: tellScatter(residuals(tracks))}
	var half, scratch []float64
	w, df := lowWeights{}, shamosDF*float64(rows-1)
	if s.Scatter.low() {
		df = lowDF*float64(rows-1) + lowPrior // neighbouring rows add to what is known of the noise
	}
	for _, t := range tracks {
		n := float64(len(t.y))
		if len(t.y) < rows {
			continue
		}
		var se float64
		if s.Scatter.low() {
			_, se, scratch = w.unsorted(t.y, scratch)
		} else {
			// Blocks near in time are alike, those of a row are far apart: all of them tell the scatter.
			m := median(t.y)
			scratch = scratch[:0]
			for _, v := range t.y {
				scratch = append(scratch, math.Abs(v-m))
			}
			se = centreFactor * math.Max(1.4826*selectMedian(scratch), scaleFloor) / math.Sqrt(n)
		}
		half = append(half, math.Sqrt2*se*math.Sqrt(n/float64(rows)))
	}
	if len(half) > 0 {
		s.Resolution = expo(selectMedian(half)*quantiles{}.upper((1-cfg.Confidence)/2, df)) - 1
	}
	return s
}
