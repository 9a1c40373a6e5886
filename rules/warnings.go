package rules

import (
	"fmt"

	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/phrase"
)

// coarseStep is the largest step of a timer, as a share of a block's time, that can't explain differences
// between rows: a tenth of a marginal row's reach.
const coarseStep = MarginalReach / 10

func (a *Audit) warnConditions(p *infer.Estimates, found infer.Conditions) {
	seen := map[string]bool{}
	for i, c := range p.Curves {
		id := c.Series.Key.Device
		if correlation := found.Correlation[i]; correlation != 0 {
			a.warn(c.Series.Key.String(),
				"the order was not random: %[1]s correlates with the time of measurement (rank correlation %[2].2f), so drift can't be "+
					"separated from the effect of %[1]s", phrase.Dimension(c.Series.Key), correlation)
		}
		if !seen[id] {
			seen[id] = true
			if t := found.Timers[id]; t.Step > 0 && t.Step > coarseStep*t.Usual {
				a.warn(id,
					"the timer is coarse: times are multiples of %s us, %.2g %% of the median block of %s us; use longer blocks (--block)",
					phrase.Figure(t.Step), 100*t.Step/t.Usual, phrase.Figure(t.Usual))
			}
		}
		bimodal, far := 0, 0
		for i := range c.Points {
			pt := &c.Points[i]
			if pt.Modes != nil {
				bimodal++
			}
			if pt.Away {
				far++
			}
		}
		if bimodal > 0 {
			a.warn(c.Series.Key.String(), "%s with bimodal times: anomalous only if the faster mode is, clean only if the slower mode is",
				phrase.Count(bimodal, "row"))
		}
		if far > 0 {
			a.warn(c.Series.Key.String(), "wide intervals: %s whose clock stayed more than %.0f %% away from %.0f MHz",
				phrase.Count(far, "row"), 100*infer.ClockReach, c.Reference)
		}
	}
}

// WarnWrong warns of kernels whose results are known to be wrong.
func WarnWrong(data infer.Data, warn func(subject, format string, args ...any)) {
	warned := map[string]bool{}
	for _, s := range data.Series {
		if !s.Key.Operation.IsProduct() {
			continue
		}
		subject := fmt.Sprintf("%s/%s/%s", s.Key.Device, s.Key.Kernel, s.Key.DType)
		if f, wrong := data.Spec(s.Key.Device).WrongResults(s.Key.Kernel, s.Key.DType); wrong && !warned[subject] {
			warned[subject] = true
			warn(subject, "its results are wrong, so it is not used as an alternative: %s", f.Text)
		}
	}
}

func (a *Audit) countInferred(c *infer.Curve) {
	if c.Families == nil {
		return
	}
	if a.Inference == nil {
		a.Inference = &infer.Inference{}
	}
	count := c.Families.Count
	a.Inference.Add(count)
	a.Cases += count.Asked - len(c.Series.Rows)
	subject := c.Series.Key.String()
	if !count.Kept() {
		a.warn(subject, "only %d of %d check rows are within their inferred interval, fewer than %.0f %%: inferred rows are unreliable",
			count.Inside, count.Checked, 100*infer.InsideShare)
	}
	if count.Failed > 0 {
		a.warn(subject, "%s: interpolation disabled, check rows differ from the fit", phrase.Count(count.Failed, "kernel"))
	}
	if count.Open > 0 {
		a.warn(subject, "%s neither measured nor inferred", phrase.Count(count.Open, "row"))
	}
}
