package rules

import (
	"math"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// suspicion looks for findings among rows that have too few samples for a scatter of their own. Its findings
// are suspected: they rest on borrowed or assumed scatter.
//
// A row is compared with the best of several rows. With one sample each, the best is partly best by chance,
// and no other samples correct for that. So the p-value is multiplied by the number of rows to choose from
// (Bonferroni). All rules are one family, so at most the share [Config].FDR of flat runs has any suspect.
type suspicion struct {
	*Facts
	scatter map[*infer.Curve]*infer.SeriesScatter
}

type rival struct {
	// enough is the log time in microseconds that would be enough, with its error.
	enough stats.Estimate
	own    bool // the error comes from its own samples
	// of is how many there were to choose from.
	of      int
	against *results.Case
	// ideal is the log of the row's time over against's for a row without loss.
	ideal float64
}

// Suspects are the rows of a rule that few samples accuse.
func Suspects(p *infer.Estimates, cfg Config) (found []Finding, compared map[Rule]int) {
	scatter := map[*infer.Curve]*infer.SeriesScatter{}
	for _, c := range p.Curves {
		if of := c.ScatterOf(cfg.MinSamples); of != nil {
			scatter[c] = of
		}
	}
	compared = map[Rule]int{}
	if len(scatter) == 0 {
		return nil, compared
	}
	s := suspicion{NewFacts(p, cfg), scatter}
	var panels []Panel
	var tested []*Judgement
	for _, r := range ruleTable {
		if !r.on(cfg) {
			continue
		}
		pn := Panel{Rule: r.name, Rows: make([][]Judgement, len(p.Curves))}
		for k, c := range p.Curves {
			if c.Unjudged || !r.appliesTo(c.Series.Key.Subject) {
				continue
			}
			pn.Rows[k] = r.suspect(&s, c)
			spare(c, pn.Rows[k])
			for i := range pn.Rows[k] {
				if j := &pn.Rows[k][i]; j.Tested {
					tested = append(tested, j)
					compared[r.name]++
				}
			}
		}
		panels = append(panels, pn)
	}
	ps := make([]float64, len(tested))
	for i, j := range tested {
		ps[i] = j.p
	}
	for i, adjusted := range stats.AdjustP(ps) {
		tested[i].adjusted = adjusted
		if adjusted <= cfg.FDR {
			tested[i].Verdict = Anomalous
		}
	}
	for _, pn := range panels {
		for k, rows := range pn.Rows {
			for _, c := range Merge(pn.Rule, rows, func(j *Judgement) bool { return j.Verdict == Anomalous }, Bridges) {
				f := Explained(c)
				f.Status, f.Scatter = Suspected, infer.AssumedScatter
				if of := s.scatter[p.Curves[k]]; of != nil {
					f.Scatter = of.Origin
				}
				found = append(found, f)
			}
		}
	}
	return found, compared
}

func (s *suspicion) blank(c *infer.Curve) []Judgement {
	rows := make([]Judgement, len(c.Points))
	for i := range rows {
		rows[i] = unjudgedRow(c, i)
	}
	return rows
}

// known is the time of a point and whether its error is its own; ok is false if it can't be compared.
func (s *suspicion) known(c *infer.Curve, i int) (e stats.Estimate, own, ok bool) {
	p := &c.Points[i]
	if p.Modes != nil || p.Inferred {
		return e, false, false
	}
	e, own = c.Known(i, s.Cfg.MinSamples, s.scatter[c])
	return e, own, true
}

// hold judges a row whose log time should not exceed its rival's by more than margin. If both have scatter of
// their own, the rules have judged them already.
func (s *suspicion) hold(j *Judgement, r rival, margin float64) {
	e, own, ok := s.known(j.Curve, j.Point)
	if !ok || own && r.own {
		return
	}
	d := stats.Difference(e, r.enough)
	j.Tested, j.Verdict, j.bound, j.Enough, j.ideal = true, Undecided, r.ideal+margin, r.enough.Y, r.ideal
	j.p = math.Min(1, d.Above(margin)*float64(max(1, r.of)))
	j.lossBound = stats.Lost(-margin)
	half := s.Half(d)
	j.Loss = stats.Interval{Lo: stats.Lost(-d.Y + half), Mid: stats.Lost(-d.Y), Hi: stats.Lost(-d.Y - half)}
	j.Against = r.against
}

func (s *suspicion) fastest(c *infer.Curve, others []*infer.Curve, margin float64) []Judgement {
	rows := s.blank(c)
	for i := range c.Points {
		var best rival
		for _, other := range others {
			o, ok := other.At(c.Points[i].M)
			if !ok {
				continue
			}
			e, own, ok := s.known(other, o)
			if !ok {
				continue
			}
			best.of++
			if best.against == nil || e.Y < best.enough.Y {
				best.enough, best.own, best.against = e, own, other.CaseOf(o)
			}
		}
		if best.of > 0 {
			s.hold(&rows[i], best, margin)
		}
	}
	return rows
}
