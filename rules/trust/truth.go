package trust

import (
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels/simulated"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
)

// truth holds a machine's true properties at a reference clock.
type truth struct {
	machine *simulated.Machine
	clock   float64
	losses  map[string][]simulated.Range // by kernel, of the grid
}

func newTruth(m *simulated.Machine, clock float64) truth {
	t := truth{m, clock, map[string][]simulated.Range{}}
	for _, kernel := range []string{simulated.Library, simulated.Ours} {
		t.losses[kernel] = m.Losses(kernel, clock)
	}
	return t
}

// loss is a grid row's loss by the monotonic rule.
func (t truth) loss(kernel string, m int) simulated.Range {
	i, _ := slices.BinarySearch(t.machine.Config().Ms, m)
	return t.losses[kernel][i]
}

func (t truth) twoLevels(kernel string, m int) bool {
	time := t.machine.Seconds(kernel, []int{m}, t.clock)
	return time.Lo != time.Hi
}

func (t truth) seconds(c results.Case) simulated.Range {
	ms := []int{c.M}
	switch {
	case len(c.Parts) > 0:
		ms = c.Parts
	case c.PadTo > 0:
		ms = []int{c.PadTo}
	}
	out := t.machine.Seconds(c.Kernel, ms, t.clock)
	if c.Copied {
		bytes := c.InputBytes(c.M)
		copying := simulated.CopySeconds(bytes) * math.Pow(simulated.NominalClockMHz/t.clock, simulated.CopyElasticity())
		out.Lo, out.Hi = out.Lo+copying, out.Hi+copying
	}
	return out
}

// excess is the maximum violation of a rule, in log time: at most 0 if the rule is kept. known is false for a
// rule without a truth on these machines.
func (t truth) excess(f rules.Finding, cfg rules.Config) (most float64, known bool) {
	row := results.Case{SeriesKey: f.Series, M: f.WorstM}
	slow := math.Log(t.seconds(row).Hi)
	switch f.Rule {
	case rules.Monotonic:
		return math.Log(cfg.Threshold) - math.Log(1-t.loss(f.Series.Kernel, f.WorstM).Hi), true
	case rules.SplitRule:
		return slow - math.Log(t.split(f.Series.Kernel, f.WorstM)) - math.Log1p(cfg.Rules.Split.Margin), true
	case rules.Pad:
		return slow - math.Log(t.pad(f.Series.Kernel, f.WorstM)) - math.Log1p(cfg.Rules.Pad.Margin), true
	case rules.Alternative:
		return slow - math.Log(t.other(f.Series.Kernel, f.WorstM).Lo) - math.Log1p(cfg.Rules.Alternative.Margin), true
	case rules.Roofline:
		ceilings := t.machine.Ceilings()
		peak, _ := ceilings.Roof(row.Subject)
		// Ceilings are absolute: a slowdown of the whole device during operation counts.
		slow += math.Max(0, t.machine.Config().Drift)
		least := math.Max(row.FLOPs()/peak.FLOPS, row.Bytes()/ceilings.Bandwidth(row.Operation).Rate)
		return slow - math.Log(least/cfg.Rules.Roofline.Fraction), true
	case rules.Parity, rules.Routing, rules.Fusion:
		return 0, true // one data type without experts and epilogues has no such findings
	}
	return 0, false
}

// split is the least time of two parts of the grid, or +Inf.
func (t truth) split(kernel string, m int) float64 {
	ms, best := t.machine.Config().Ms, math.Inf(1)
	for _, part := range ms {
		if _, ok := slices.BinarySearch(ms, m-part); ok && 2*part <= m {
			best = math.Min(best, t.machine.Seconds(kernel, []int{part, m - part}, t.clock).Lo)
		}
	}
	return best
}

// pad is the least time of a larger row of the grid, or +Inf.
func (t truth) pad(kernel string, m int) float64 {
	best := math.Inf(1)
	for _, larger := range t.machine.Config().Ms {
		if larger > m {
			best = math.Min(best, t.machine.Seconds(kernel, []int{larger}, t.clock).Lo)
		}
	}
	return best
}

func (t truth) other(kernel string, m int) simulated.Range {
	if kernel == simulated.Ours {
		return t.machine.Seconds(simulated.Library, []int{m}, t.clock)
	}
	return t.machine.Seconds(simulated.Ours, []int{m}, t.clock)
}

// bestGain is the minimum gain of a row's best remedy: a split in two, a larger row or the other kernel. It
// is 1 for a bimodal row, which need not be decided.
func (t truth) bestGain(series results.SeriesKey, m int) float64 {
	direct, other := t.seconds(results.Case{SeriesKey: series, M: m}), t.other(series.Kernel, m)
	if direct.Lo != direct.Hi || other.Lo != other.Hi {
		return 1
	}
	return direct.Lo / math.Min(other.Hi, math.Min(t.split(series.Kernel, m), t.pad(series.Kernel, m)))
}

func (t truth) gain(series results.SeriesKey, r rules.Remedy) simulated.Range {
	direct := t.seconds(results.Case{SeriesKey: series, M: r.M})
	remedy := t.seconds(r.Case(results.Case{SeriesKey: series, M: r.M}))
	return simulated.Range{Lo: direct.Lo / remedy.Hi, Hi: direct.Hi / remedy.Lo}
}
