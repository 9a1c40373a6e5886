package rules

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

func (d *DiffResult) findings(pairs []curvePair, pa, pb *infer.Estimates, cfg Config) {
	sa, sb := screen(pa, cfg), screen(pb, cfg)
	partner := map[*infer.Curve]*infer.Curve{}
	for _, p := range pairs {
		partner[p.a], partner[p.b] = p.b, p.a
	}
	seen := map[*candidate]bool{}
	changes, err := CompareConfigs(Default(), cfg)
	if err != nil {
		d.Warnings = append(d.Warnings,
			Warning{Subject: "rules", Text: fmt.Sprintf("commands of findings do not say which settings they need: %v", err)})
	}
	explained := func(c *candidate) Finding {
		f := explained(c)
		f.judgeAgain(cfg, changes)
		return f
	}
	ofA, ofB := sa.byCurve(), sb.byCurve()
	for _, f := range sb.candidates {
		finding := explained(f)
		fd := FindingDiff{Change: sa.says(f, partner[f.worst.curve], New), B: &finding}
		for _, other := range ofA[partner[f.worst.curve]] {
			if other.rule == f.rule && other.overlaps(f) {
				before := explained(other)
				fd.Change, fd.A = Same, &before
				seen[other] = true
				break
			}
		}
		d.Findings = append(d.Findings, fd)
	}
	for _, f := range sa.candidates {
		overlapped := slices.ContainsFunc(ofB[partner[f.worst.curve]], func(o *candidate) bool {
			return o.rule == f.rule && o.overlaps(f)
		})
		if seen[f] || overlapped {
			continue
		}
		finding := explained(f)
		d.Findings = append(d.Findings, FindingDiff{Change: sb.says(f, partner[f.worst.curve], Fixed), A: &finding})
	}
	order := map[Change]int{New: 0, Same: 1, Open: 2, Fixed: 3}
	slices.SortStableFunc(d.Findings, func(x, y FindingDiff) int {
		return cmp.Or(cmp.Compare(order[x.Change], order[y.Change]), cmp.Compare(y.latest().StakeUS, x.latest().StakeUS))
	})
}

func (d FindingDiff) latest() *Finding {
	if d.B != nil {
		return d.B
	}
	return d.A
}

func (c *candidate) overlaps(o *candidate) bool {
	return c.rows[0].m() <= o.rows[len(o.rows)-1].m() && o.rows[0].m() <= c.rows[len(c.rows)-1].m()
}

type screened struct {
	prepared   *infer.Estimates
	panels     []panel
	candidates []*candidate
	at         map[*infer.Curve]int // index of a curve in prepared.curves
	of         map[measured][]*infer.Curve
}

// measured is what a finding compares a row with, but for the size.
type measured struct {
	kernel  string
	subject kernels.Subject
}

func (s screened) byCurve() map[*infer.Curve][]*candidate {
	out := map[*infer.Curve][]*candidate{}
	for _, c := range s.candidates {
		out[c.worst.curve] = append(out[c.worst.curve], c)
	}
	return out
}

func screen(p *infer.Estimates, cfg Config) screened {
	s := screened{prepared: p, panels: judge(p, cfg), at: make(map[*infer.Curve]int, len(p.Curves)), of: map[measured][]*infer.Curve{}}
	for i, c := range p.Curves {
		s.at[c] = i
		k := measured{c.Series.Key.Kernel, c.Series.Key.Subject}
		s.of[k] = append(s.of[k], c)
	}
	for _, pn := range s.panels {
		for _, rows := range pn.rows {
			s.candidates = append(s.candidates, merge(pn.rule, rows, func(j *judgement) bool { return j.verdict == Anomalous }, bridges)...)
		}
	}
	return s
}

// measuredReference reports whether this run has the other kernel or type that the other run's finding was
// compared with. It is true for a finding without one.
func (s screened) measuredReference(f *candidate) bool {
	own, against := f.worst.curve.Series.Key, f.worst.against
	if against.M == 0 || against.Kernel == own.Kernel && against.Subject == own.Subject {
		return true
	}
	return slices.ContainsFunc(s.of[measured{against.Kernel, against.Subject}], func(c *infer.Curve) bool {
		i, ok := c.At(against.M)
		return ok && c.Points[i].N > 0
	})
}

// says returns change if this run calls every row of the other run's interval clean, and Open if it is
// undecided or lacks the reference.
func (s screened) says(f *candidate, c *infer.Curve, change Change) Change {
	if !s.measuredReference(f) {
		return Open
	}
	from, to := f.rows[0].m(), f.rows[len(f.rows)-1].m()
	for _, pn := range s.panels {
		i, ok := s.at[c]
		if pn.rule != f.rule || !ok {
			continue
		}
		judged := 0
		rows := pn.rows[i]
		first, _ := slices.BinarySearchFunc(rows, from, func(j judgement, m int) int { return j.m() - m })
		for k := first; k < len(rows) && rows[k].m() <= to; k++ {
			judged++
			if rows[k].verdict != Clean {
				return Open
			}
		}
		if judged > 0 {
			return change
		}
	}
	return Open
}
