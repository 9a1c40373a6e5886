package diff

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/change"
	"github.com/gemmaudit/gemmaudit/rules/infer"
)

func (d *Result) findings(pairs []curvePair, pa, pb *infer.Estimates, cfg rules.Config) {
	sa, sb := screen(pa, cfg), screen(pb, cfg)
	partner := map[*infer.Curve]*infer.Curve{}
	for _, p := range pairs {
		partner[p.a], partner[p.b] = p.b, p.a
	}
	seen := map[*rules.Candidate]bool{}
	changes, err := rules.CompareConfigs(rules.Default(), cfg)
	if err != nil {
		d.Warnings = append(d.Warnings,
			rules.Warning{Subject: "rules", Text: fmt.Sprintf("commands of findings do not say which settings they need: %v", err)})
	}
	explained := func(c *rules.Candidate) rules.Finding {
		f := rules.Explained(c)
		f.JudgeAgain(cfg, changes)
		return f
	}
	ofA, ofB := sa.byCurve(), sb.byCurve()
	for _, f := range sb.candidates {
		finding := explained(f)
		fd := Finding{Change: sa.says(f, partner[f.Worst.Curve], change.New), B: &finding}
		for _, other := range ofA[partner[f.Worst.Curve]] {
			if other.Rule == f.Rule && overlaps(other, f) {
				before := explained(other)
				fd.Change, fd.A = change.Same, &before
				seen[other] = true
				break
			}
		}
		d.Findings = append(d.Findings, fd)
	}
	for _, f := range sa.candidates {
		overlapped := slices.ContainsFunc(ofB[partner[f.Worst.Curve]], func(o *rules.Candidate) bool {
			return o.Rule == f.Rule && overlaps(o, f)
		})
		if seen[f] || overlapped {
			continue
		}
		finding := explained(f)
		d.Findings = append(d.Findings, Finding{Change: sb.says(f, partner[f.Worst.Curve], change.Fixed), A: &finding})
	}
	order := map[change.Kind]int{change.New: 0, change.Same: 1, change.Open: 2, change.Fixed: 3}
	slices.SortStableFunc(d.Findings, func(x, y Finding) int {
		return cmp.Or(cmp.Compare(order[x.Change], order[y.Change]), cmp.Compare(y.latest().StakeUS, x.latest().StakeUS))
	})
}

func (d Finding) latest() *rules.Finding {
	if d.B != nil {
		return d.B
	}
	return d.A
}

func overlaps(c *rules.Candidate, o *rules.Candidate) bool {
	return c.Rows[0].M() <= o.Rows[len(o.Rows)-1].M() && o.Rows[0].M() <= c.Rows[len(c.Rows)-1].M()
}

type screened struct {
	prepared   *infer.Estimates
	panels     []rules.Panel
	candidates []*rules.Candidate
	at         map[*infer.Curve]int // index of a curve in prepared.curves
	of         map[measured][]*infer.Curve
}

// measured is what a finding compares a row with, but for the size.
type measured struct {
	kernel  string
	subject kernels.Subject
}

func (s screened) byCurve() map[*infer.Curve][]*rules.Candidate {
	out := map[*infer.Curve][]*rules.Candidate{}
	for _, c := range s.candidates {
		out[c.Worst.Curve] = append(out[c.Worst.Curve], c)
	}
	return out
}

func screen(p *infer.Estimates, cfg rules.Config) screened {
	s := screened{prepared: p, panels: rules.Judge(p, cfg), at: make(map[*infer.Curve]int, len(p.Curves)),
		of: map[measured][]*infer.Curve{}}
	for i, c := range p.Curves {
		s.at[c] = i
		k := measured{c.Series.Key.Kernel, c.Series.Key.Subject}
		s.of[k] = append(s.of[k], c)
	}
	for _, pn := range s.panels {
		for _, rows := range pn.Rows {
			s.candidates = append(s.candidates, rules.Merge(pn.Rule, rows,
				func(j *rules.Judgement) bool { return j.Verdict == rules.Anomalous }, rules.Bridges)...)
		}
	}
	return s
}

// measuredReference reports whether this run has the other kernel or type that the other run's finding was
// compared with. It is true for a finding without one.
func (s screened) measuredReference(f *rules.Candidate) bool {
	own, against := f.Worst.Curve.Series.Key, f.Worst.Against
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
func (s screened) says(f *rules.Candidate, c *infer.Curve, otherwise change.Kind) change.Kind {
	if !s.measuredReference(f) {
		return change.Open
	}
	from, to := f.Rows[0].M(), f.Rows[len(f.Rows)-1].M()
	for _, pn := range s.panels {
		i, ok := s.at[c]
		if pn.Rule != f.Rule || !ok {
			continue
		}
		judged := 0
		rows := pn.Rows[i]
		first, _ := slices.BinarySearchFunc(rows, from, func(j rules.Judgement, m int) int { return j.M() - m })
		for k := first; k < len(rows) && rows[k].M() <= to; k++ {
			judged++
			if rows[k].Verdict != rules.Clean {
				return change.Open
			}
		}
		if judged > 0 {
			return otherwise
		}
	}
	return change.Open
}
