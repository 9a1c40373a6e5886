package infer

import (
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/phrase"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Resolve is the resolution of the run: the smallest loss between two rows that it can detect at the
// confidence, as a share of the faster one's time. It follows from the standard error of a typical row: the
// scatter of its samples, lost time, and the sentinels' unexplained drift. 0 means too few samples.
func (p *Estimates) Resolve(cfg Basis) float64 {
	var half []float64
	for _, c := range p.Curves {
		for i := range c.Points {
			if e := c.Points[i].US; !c.Points[i].Inferred && c.Points[i].Judged(cfg.MinSamples) && e.SE > 0 {
				half = append(half, math.Sqrt2*(e.SE*p.Quantiles.Upper((1-cfg.Confidence)/2, e.DF)+e.Open))
			}
		}
	}
	if len(half) == 0 {
		return 0
	}
	return stats.Exp(stats.UpperMedianInPlace(half)) - 1
}

// CleanBelow is the upper limit of a clean row's loss, as a share of its time. It is the rule's bound, or if
// the resolution is coarser, the bound plus twice the difference. A row without loss is then cleared as often
// as on a machine whose resolution equals the bound.
func CleanBelow(resolution, bound float64) float64 {
	least := -math.Log1p(-bound)
	return stats.Lost(-math.Max(least, 2*math.Log1p(resolution)-least))
}

// Invalid is the reason why the whole run can't be judged: its resolution is coarser than the limit or, if
// that is unknown, the machine drifted by more. Empty if it can be judged.
func (p *Estimates) Invalid(resolution float64, cfg Basis) string {
	switch {
	case resolution == 0: // only the sentinels can tell
		return p.Drift.Invalid(cfg.DriftBound)
	case resolution > cfg.DriftBound:
		return fmt.Sprintf("%s, and the bound is %s", ResolutionText(resolution), phrase.Roughly(cfg.DriftBound))
	}
	return ""
}

// ResolutionText describes a resolution in words.
func ResolutionText(r float64) string {
	return "differences below " + phrase.Roughly(r) + " can't be detected on this machine now"
}

// Steadiness is the noise of a machine, from repeated blocks of a few cases.
type Steadiness struct {
	Scatter Scatter `json:"scatter"`
	// Resolution is the resolution of a run with as many samples per row; see [rules.Audit].
	Resolution float64 `json:"resolution"`
}

// TellSteadiness estimates the resolution of a run from blocks timed one after the other: samples by case, in
// order of time. rows is how many samples a row of the run has.
func TellSteadiness(samples [][]results.Sample, rows int, cfg Basis) Steadiness {
	var tracks []track
	for _, of := range samples {
		of = slices.DeleteFunc(slices.Clone(of), func(s results.Sample) bool { return !s.Usable() })
		log, t := clockFit(of), track{}
		for _, s := range of {
			t.y = append(t.y, log(s))
		}
		tracks = append(tracks, t)
	}
	s := Steadiness{Scatter: tellScatter(residuals(tracks))}
	var half, scratch []float64
	w, df := stats.LowQuantile{}, shamosDF*float64(rows-1)
	if s.Scatter.Low() {
		df = LowDF*float64(rows-1) + LowPrior // neighboring rows add degrees of freedom
	}
	for _, t := range tracks {
		n := float64(len(t.y))
		if len(t.y) < rows {
			continue
		}
		var se float64
		if s.Scatter.Low() {
			_, se, scratch = w.Unsorted(t.y, scratch)
		} else {
			// Blocks near in time are alike, but a row's blocks are far apart in time, so the scatter is
			// taken over all blocks.
			m := stats.Median(t.y)
			scratch = scratch[:0]
			for _, v := range t.y {
				scratch = append(scratch, math.Abs(v-m))
			}
			se = stats.CentreFactor * math.Max(stats.MADFactor*stats.UpperMedianInPlace(scratch), ScaleFloor) / math.Sqrt(n)
		}
		half = append(half, math.Sqrt2*se*math.Sqrt(n/float64(rows)))
	}
	if len(half) > 0 {
		s.Resolution = stats.Exp(stats.UpperMedianInPlace(half)*stats.Quantiles{}.Upper((1-cfg.Confidence)/2, df)) - 1
	}
	return s
}

// Unjudgeable is the reason why the whole run can't be judged; empty if it can.
func Unjudgeable(data Data, cfg Basis) string {
	p := Prepare(data, cfg)
	return p.Invalid(p.Resolve(cfg), cfg)
}
