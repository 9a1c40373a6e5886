package rules

import (
	"fmt"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/rules/cause"
	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/phrase"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Routing is the rule that experts with unequal rows take no longer than with equal ones, beyond their own bytes and FLOPs.
const Routing Rule = "routing"

// RoutingConfig limits what the routing may cost.
type RoutingConfig struct {
	Enabled bool `yaml:"enabled"`
	// Ratio is the largest ratio of the time to that of even routing, scaled by bytes and FLOPs.
	Ratio float64 `yaml:"ratio"`
}

var routingRule = rule{
	name:    Routing,
	meaning: "experts with unequal rows take longer than their bytes explain",
	claim:   "unequal rows of experts cost more time than their bytes and FLOPs",
	help: "A size with drawn or recorded routing is compared with the same size and kernel with even routing. That time is " +
		"scaled by the ratio of bytes or of FLOPs, whichever is larger; weights count for experts with rows only. A size breaks " +
		"the rule if it takes more than `ratio` × the result. Measure both, as in `--routing even,skew:100`.",
	settings: []setting{number("ratio", "largest allowed ratio of the time to the scaled time with even routing", above(0, 100),
		func(c *Config) *float64 { return &c.Rules.Routing.Ratio })},
	enabled: func(s *RuleSet) *bool { return &s.Routing.Enabled },
	applies: routed,
	judge:   (*Facts).routing,
	suspect: (*suspicion).routing,
	bound:   func(c Config, _ Finding) float64 { return stats.Lost(-math.Log(c.Rules.Routing.Ratio)) },
	cause:   routingCause,
}

// routed reports whether a routing divides the rows unequally.
func routed(s kernels.Subject) bool { return !s.Even() }

// evenly returns the curve with even routing, or nil.
func (f *Facts) evenly(c *infer.Curve) *infer.Curve {
	key := c.Series.Key
	key.Subject = key.Stores()
	return f.keyed[key]
}

// workRatio is the log of the time that a size takes over another's if neither wastes any: the ratio of FLOPs or of bytes,
// whichever is larger.
func workRatio(a kernels.Subject, m int, b kernels.Subject, than int) float64 {
	return math.Max(math.Log(a.FLOPs(m)/b.FLOPs(than)), math.Log(a.Bytes(m)/b.Bytes(than)))
}

func (f *Facts) routing(c *infer.Curve) []Judgement {
	even := f.evenly(c)
	if even == nil {
		return nil
	}
	rows := f.blank(c)
	margin := math.Log(f.Cfg.Rules.Routing.Ratio)
	for i, p := range c.Points {
		o, ok := even.At(p.M)
		if !ok || !p.Judged(f.Cfg.MinSamples) || !even.Points[o].Serves(f.Cfg.MinSamples) {
			continue
		}
		j := &rows[i]
		least := even.Points[o].US
		j.ideal = workRatio(c.Series.Key.Subject, p.M, even.Series.Key.Subject, p.M)
		least.Y += j.ideal
		f.hold(j, least, margin)
		j.bound = j.ideal + margin
		j.Against = against(even, o, j.kept)
	}
	return rows
}

// routing is [Facts.routing] for rows with few samples.
func (s *suspicion) routing(c *infer.Curve) []Judgement {
	even := s.evenly(c)
	if even == nil {
		return nil
	}
	rows := s.blank(c)
	for i := range c.Points {
		m := c.Points[i].M
		o, ok := even.At(m)
		if !ok {
			continue
		}
		e, own, ok := s.known(even, o)
		if !ok {
			continue
		}
		r := rival{own: own, of: 1, against: even.CaseOf(o), ideal: workRatio(c.Series.Key.Subject, m, even.Series.Key.Subject, m)}
		e.Y += r.ideal
		r.enough = e
		s.hold(&rows[i], r, math.Log(s.Cfg.Rules.Routing.Ratio))
	}
	return rows
}

func routingCause(w *cause.Witness) (cause.Kind, string) {
	own, even, m := w.Curve.Series.Key.Subject, w.Against.Subject, w.Row.M
	enough := workRatio(own, m, even, w.Against.M)
	times := math.Exp(enough) / (1 - math.Min(w.Stated, 0.999))
	text := fmt.Sprintf("%s: %s take %.2f times as long as evenly divided ones, and their bytes and FLOPs explain %.2f",
		w.Curve.Name(m), own.RoutedRows(), times, math.Exp(enough))
	subject, rows := own.At(m)
	if of, err := subject.GroupRows(rows); err == nil && rows > 0 {
		most, active := 0, 0
		for _, n := range of {
			if most = max(most, n); n > 0 {
				active++
			}
		}
		text += fmt.Sprintf("; %d of %d experts have rows, the busiest %s of them", active, len(of),
			phrase.Percent(float64(most)/float64(rows)))
	}
	return cause.Implementation, text
}

// idealRatio is the log of a point's time over another's on one curve, for rows without loss. The rule monotonic expects the
// ratio of FLOPs. If more rows can need further weights, bytes may grow faster, and explain the rest.
func idealRatio(c *infer.Curve, at, than int) float64 {
	p, q := &c.Points[at], &c.Points[than]
	if s := c.Series.Key.Subject; routed(s) {
		return math.Max(p.Flops-q.Flops, workRatio(s, p.M, s, q.M))
	}
	return p.Flops - q.Flops
}

// explained is the mean log of the time that bytes add to a point, compared with the window of its reference.
func explained(c *infer.Curve, at int, window []int) float64 {
	if len(window) == 0 || !routed(c.Series.Key.Subject) {
		return 0
	}
	sum := 0.0
	for _, q := range window {
		sum += idealRatio(c, at, q) - (c.Points[at].Flops - c.Points[q].Flops)
	}
	return sum / float64(len(window))
}
