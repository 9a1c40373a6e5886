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

// Bridges reports whether an interval of anomalous rows may span the row.
func Bridges(j *Judgement) bool { return j.Verdict == Undecided || j.Verdict == Marginal }

// alignment is the multiple of M, in elements, that avoids a kernel's slower path: 16 bytes of a two-byte
// type.
const alignment = 8

// Candidate is an interval of anomalous rows of one curve that may become a finding.
type Candidate struct {
	Rule  Rule
	Rows  []*Judgement // ascending in M, anomalous ones only
	Worst *Judgement
	// screened is false for suspects: the sweep's samples don't prove them, but they are worth a measurement
	// if a device is available.
	screened bool
	tests    map[*Judgement]*trial
	refuted  bool
}

// Merge joins the accused rows of a panel into candidates, on the measured grid. accused selects the rows,
// bridge the rows that a candidate may span.
func Merge(rule Rule, rows []Judgement, accused, bridge func(*Judgement) bool) []*Candidate {
	var out []*Candidate
	last := -1
	for i := range rows {
		j := &rows[i]
		if !accused(j) {
			continue
		}
		if last < 0 || !connected(rows, last, i, bridge) || rows[last].sign != j.sign {
			out = append(out, &Candidate{Rule: rule, Worst: j})
		}
		c := out[len(out)-1]
		c.Rows = append(c.Rows, j)
		if j.Loss.Lo > c.Worst.Loss.Lo {
			c.Worst = j
		}
		last = i
	}
	return out
}

func (c *Candidate) detach() {
	for i, j := range c.Rows {
		own := *j
		if c.Worst == j {
			c.Worst = &own
		}
		c.Rows[i] = &own
	}
}

// rejoin joins confirmed candidates of one rule and series that became neighbors when they were measured
// again. Otherwise a confirmed suspect would be a separate finding next to or inside its interval. It does
// not change candidates that were not measured or not confirmed.
func rejoin(candidates []*Candidate, panels []Panel) []*Candidate {
	place := func(c *Candidate) []Judgement {
		for _, pn := range panels {
			if pn.Rule == c.Rule {
				for _, rows := range pn.Rows {
					if len(rows) > 0 && rows[0].Curve == c.Worst.Curve {
						return rows
					}
				}
			}
		}
		return nil
	}
	// An interval also spans its own rows that were not confirmed.
	bridge := func(j *Judgement) bool { return j.Verdict != Clean && j.Verdict != Unjudged }
	order := slices.Clone(candidates)
	slices.SortStableFunc(order, func(a, b *Candidate) int { return cmp.Compare(a.Worst.Point, b.Worst.Point) })
	gone := map[*Candidate]bool{}
	for i, c := range order {
		if c.refuted || c.tests == nil || gone[c] {
			continue
		}
		rows := place(c)
		for again := true; again; {
			again = false
			for _, o := range order[i+1:] {
				if gone[o] || o.refuted || o.tests == nil || o.Rule != c.Rule || o.Worst.Curve != c.Worst.Curve ||
					o.Worst.sign != c.Worst.sign {
					continue
				}
				if c.touches(o, rows, bridge) {
					c.absorb(o)
					gone[o], again = true, true
				}
			}
		}
	}
	return slices.DeleteFunc(candidates, func(c *Candidate) bool { return gone[c] })
}

func (c *Candidate) touches(o *Candidate, rows []Judgement, bridge func(*Judgement) bool) bool {
	first, second := c, o
	if o.Rows[0].Point < c.Rows[0].Point {
		first, second = o, c
	}
	from, to := first.Rows[len(first.Rows)-1].Point, second.Rows[0].Point
	return to <= from || connected(rows, from, to, bridge)
}

func (c *Candidate) absorb(o *Candidate) {
	c.Rows = append(slices.Clone(c.Rows), o.Rows...)
	slices.SortFunc(c.Rows, func(a, b *Judgement) int { return cmp.Compare(a.Point, b.Point) })
	c.screened = c.screened || o.screened
	maps.Copy(c.tests, o.tests)
	if c.tests[o.Worst].loss.Lo > c.tests[c.Worst].loss.Lo {
		c.Worst = o.Worst
	}
}

// connected reports whether two accused rows belong together: only bridgeable rows between them or, if both
// are misaligned, only aligned rows. The second case joins losses on every other row into one finding.
func connected(rows []Judgement, from, to int, bridge func(*Judgement) bool) bool {
	holes, aligned := 0, rows[from].M()%alignment != 0 && rows[to].M()%alignment != 0
	for i := from + 1; i < to; i++ {
		if bridge(&rows[i]) {
			holes++
		} else {
			holes = bridgeRows + 1
		}
		aligned = aligned && rows[i].M()%alignment == 0
	}
	return holes <= bridgeRows || aligned
}

// Among returns those of ms that may be slow in the finding's interval; ms are the measured sizes from FromM to
// ToM, ascending. Where a finding joins misaligned sizes across aligned ones, those between them are fast.
func (f *Finding) Among(ms []int) []int {
	if f.FromM%alignment == 0 || f.ToM%alignment == 0 {
		return ms
	}
	misaligned := slices.DeleteFunc(slices.Clone(ms), func(m int) bool { return m%alignment == 0 })
	if f.Rows > len(misaligned) {
		return ms
	}
	return misaligned
}

func (c *Candidate) finding() Finding {
	key := c.Worst.Curve.Series.Key
	first, last := c.Rows[0].M(), c.Rows[len(c.Rows)-1].M()
	f := Finding{
		ID:        findingID(c.Rule, key, first, last),
		Rule:      c.Rule,
		Series:    key,
		FromM:     first,
		ToM:       last,
		Rows:      len(c.Rows),
		WorstM:    c.Worst.M(),
		Loss:      c.worstLoss(),
		AdjustedP: c.Worst.adjusted,
		Status:    Unconfirmed,
	}
	direct, other := c.Worst.direct(), *c.Worst.Against
	brought := kernels.BroughtFlags(c.Worst.Curve.Spec.Versions, direct.Kernel, other.Kernel)
	if slices.Contains(brought, "--kernel-file") {
		brought = append(brought, kernels.WorkerFlags(c.Worst.Curve.Command)...)
	}
	f.NeedsPaths, f.Brought = len(brought) > 0 || direct.Routing != 0, brought
	f.Reproduce = reproduce(direct, other, brought)
	if against := *c.Worst.Against; against.M > 0 {
		against.ID, against.Label, against.Launch = 0, "", results.Launch{}
		f.ReferenceM, f.Reference, f.Against = against.M, against.String(), &against
	}
	f.StakeUS = c.stake()
	for _, j := range c.Rows {
		if j.Curve.Points[j.Point].Inferred {
			f.Inferred++
		}
	}
	if t := c.tests[c.Worst]; t != nil && t.confirmed {
		f.Status, f.Loss, f.AdjustedP = Confirmed, t.loss, t.adjusted
	}
	return f
}

// worstLoss is the loss of the worst row without selection bias: some samples choose the row and the others
// estimate its loss.
func (c *Candidate) worstLoss() stats.Interval {
	loss := c.Worst.Loss
	worst := c.Worst.Curve.Points[c.Worst.Point]
	if len(c.Rows) == 1 || !worst.Folded || c.Worst.sign < 0 {
		return loss
	}
	top := stats.NewBest()
	for i, j := range c.Rows {
		p := j.Curve.Points[j.Point]
		if !p.Folded {
			continue
		}
		without, of := p.Without, p.Of
		for k := range stats.Folds {
			without[k], of[k] = without[k]-j.Enough, of[k]-j.Enough
		}
		top.Add(i, p.US.Y-j.Enough, without, of)
	}
	luck := worst.US.Y - c.Worst.Enough - top.Value()
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
