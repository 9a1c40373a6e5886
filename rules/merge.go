package rules

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// bridgeRows is the most consecutive undecided or marginal rows that an interval of anomalous rows may span.
// Noise causes such holes; a clean row ends the interval.
const bridgeRows = 2

func bridges(j *judgement) bool { return j.verdict == Undecided || j.verdict == Marginal }

// alignment is the multiple of M, in elements, that avoids a kernel's slower path: 16 bytes of a two-byte
// type.
const alignment = 8

type candidate struct {
	rule  Rule
	rows  []*judgement // ascending in M, anomalous ones only
	worst *judgement
	// screened is false for suspects: the sweep's samples don't prove them, but they are worth a measurement
	// if a device is available.
	screened bool
	tests    map[*judgement]*trial
	refuted  bool
}

// merge joins the accused rows of a panel into candidates, on the measured grid. accused selects the rows,
// bridge the rows that a candidate may span.
func merge(rule Rule, rows []judgement, accused, bridge func(*judgement) bool) []*candidate {
	var out []*candidate
	last := -1
	for i := range rows {
		j := &rows[i]
		if !accused(j) {
			continue
		}
		if last < 0 || !connected(rows, last, i, bridge) || rows[last].sign != j.sign {
			out = append(out, &candidate{rule: rule, worst: j})
		}
		c := out[len(out)-1]
		c.rows = append(c.rows, j)
		if j.loss.Lo > c.worst.loss.Lo {
			c.worst = j
		}
		last = i
	}
	return out
}

func (c *candidate) detach() {
	for i, j := range c.rows {
		own := *j
		if c.worst == j {
			c.worst = &own
		}
		c.rows[i] = &own
	}
}

// rejoin joins confirmed candidates of one rule and series that became neighbors when they were measured
// again. Otherwise a confirmed suspect would be a separate finding next to or inside its interval. It does
// not change candidates that were not measured or not confirmed.
func rejoin(candidates []*candidate, panels []panel) []*candidate {
	place := func(c *candidate) []judgement {
		for _, pn := range panels {
			if pn.rule == c.rule {
				for _, rows := range pn.rows {
					if len(rows) > 0 && rows[0].curve == c.worst.curve {
						return rows
					}
				}
			}
		}
		return nil
	}
	// An interval also spans its own rows that were not confirmed.
	bridge := func(j *judgement) bool { return j.verdict != Clean && j.verdict != Unjudged }
	order := slices.Clone(candidates)
	slices.SortStableFunc(order, func(a, b *candidate) int { return cmp.Compare(a.worst.point, b.worst.point) })
	gone := map[*candidate]bool{}
	for i, c := range order {
		if c.refuted || c.tests == nil || gone[c] {
			continue
		}
		rows := place(c)
		for again := true; again; {
			again = false
			for _, o := range order[i+1:] {
				if gone[o] || o.refuted || o.tests == nil || o.rule != c.rule || o.worst.curve != c.worst.curve ||
					o.worst.sign != c.worst.sign {
					continue
				}
				if c.touches(o, rows, bridge) {
					c.absorb(o)
					gone[o], again = true, true
				}
			}
		}
	}
	return slices.DeleteFunc(candidates, func(c *candidate) bool { return gone[c] })
}

func (c *candidate) touches(o *candidate, rows []judgement, bridge func(*judgement) bool) bool {
	first, second := c, o
	if o.rows[0].point < c.rows[0].point {
		first, second = o, c
	}
	from, to := first.rows[len(first.rows)-1].point, second.rows[0].point
	return to <= from || connected(rows, from, to, bridge)
}

func (c *candidate) absorb(o *candidate) {
	c.rows = append(slices.Clone(c.rows), o.rows...)
	slices.SortFunc(c.rows, func(a, b *judgement) int { return cmp.Compare(a.point, b.point) })
	c.screened = c.screened || o.screened
	maps.Copy(c.tests, o.tests)
	if c.tests[o.worst].loss.Lo > c.tests[c.worst].loss.Lo {
		c.worst = o.worst
	}
}

// connected reports whether two accused rows belong together: only bridgeable rows between them or, if both
// are misaligned, only aligned rows. The second case joins losses on every other row into one finding.
func connected(rows []judgement, from, to int, bridge func(*judgement) bool) bool {
	holes, aligned := 0, rows[from].m()%alignment != 0 && rows[to].m()%alignment != 0
	for i := from + 1; i < to; i++ {
		if bridge(&rows[i]) {
			holes++
		} else {
			holes = bridgeRows + 1
		}
		aligned = aligned && rows[i].m()%alignment == 0
	}
	return holes <= bridgeRows || aligned
}

func (c *candidate) finding() Finding {
	key := c.worst.curve.Series.Key
	first, last := c.rows[0].m(), c.rows[len(c.rows)-1].m()
	f := Finding{
		ID:        findingID(c.rule, key, first, last),
		Rule:      c.rule,
		Series:    key,
		FromM:     first,
		ToM:       last,
		Rows:      len(c.rows),
		WorstM:    c.worst.m(),
		Loss:      c.worstLoss(),
		AdjustedP: c.worst.adjusted,
		Status:    Unconfirmed,
	}
	direct, other := c.worst.direct(), *c.worst.against
	brought := kernels.BroughtFlags(c.worst.curve.Spec.Versions, direct.Kernel, other.Kernel)
	f.NeedsPaths = len(brought) > 0
	f.Reproduce = reproduce(direct, other, brought)
	if against := *c.worst.against; against.M > 0 {
		against.ID, against.Label, against.Launch = 0, "", results.Launch{}
		f.ReferenceM, f.Reference, f.Against = against.M, against.String(), &against
	}
	f.StakeUS = c.stake()
	for _, j := range c.rows {
		if j.curve.Points[j.point].Inferred {
			f.Inferred++
		}
	}
	if t := c.tests[c.worst]; t != nil && t.confirmed {
		f.Status, f.Loss, f.AdjustedP = Confirmed, t.loss, t.adjusted
	}
	return f
}

// worstLoss is the loss of the worst row without selection bias: some samples choose the row and the others
// estimate its loss.
func (c *candidate) worstLoss() stats.Interval {
	loss := c.worst.loss
	worst := c.worst.curve.Points[c.worst.point]
	if len(c.rows) == 1 || !worst.Folded || c.worst.sign < 0 {
		return loss
	}
	top := stats.NewBest()
	for i, j := range c.rows {
		p := j.curve.Points[j.point]
		if !p.Folded {
			continue
		}
		without, of := p.Without, p.Of
		for k := range stats.Folds {
			without[k], of[k] = without[k]-j.enough, of[k]-j.enough
		}
		top.Add(i, p.US.Y-j.enough, without, of)
	}
	luck := worst.US.Y - c.worst.enough - top.Value()
	if luck <= 0 || math.IsInf(luck, 0) || math.IsNaN(luck) {
		return loss
	}
	less := func(v float64) float64 { return 1 - (1-v)*math.Exp(luck) }
	return stats.Interval{Lo: less(loss.Lo), Mid: less(loss.Mid), Hi: loss.Hi}
}

// findingID is the same for a finding in another run of the same grid.
func findingID(rule Rule, key results.SeriesKey, from, to int) string {
	return fmt.Sprintf("%s:%s:%s%d-%d", rule, strings.ReplaceAll(key.String(), " ", ""), key.Axis(), from, to)
}
