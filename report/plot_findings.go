package report

import (
	"fmt"
	"image/color"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/cause"
)

func findingColour(s rules.Status) color.NRGBA {
	switch s {
	case rules.Confirmed:
		return alpha(vermillion, 0.26)
	case rules.Waived:
		return alpha(muted, 0.16)
	}
	return alpha(orange, 0.24)
}

func (c *Curve) findingLegend() []legendItem {
	var items []legendItem
	shown := c.shown()
	for _, s := range []rules.Status{rules.Confirmed, rules.Unconfirmed, rules.Suspected, rules.Waived} {
		if slices.ContainsFunc(shown, func(f rules.Finding) bool { return f.Status == s }) {
			items = append(items, legendItem{"finding, " + string(s), findingColour(s), areaMark})
		}
	}
	var kernels []string
	for _, f := range c.Findings {
		if f.Rule == rules.Alternative && f.Remedy != nil && f.Remedy.Kernel != "" && !slices.Contains(kernels, f.Remedy.Kernel) {
			kernels = append(kernels, f.Remedy.Kernel)
		}
	}
	for _, rule := range barred {
		if !slices.ContainsFunc(c.Findings, func(f rules.Finding) bool { return f.Rule == rule }) {
			continue
		}
		name := string(rule)
		if rule == rules.Alternative && len(kernels) > 0 {
			name += ": " + strings.Join(kernels, ", ")
		} else if rule == rules.Alternative {
			name += ": another kernel is faster"
		}
		items = append(items, legendItem{name, barColour(rule), barMark})
	}
	return items
}

// barred rules compare a whole curve with another one or a ceiling. Their intervals often span everything, so
// they are thin bars at the top.
var barred = []rules.Rule{rules.Alternative, rules.Parity, rules.Routing, rules.Fusion, rules.Roofline}

func barColour(r rules.Rule) color.NRGBA {
	switch r {
	case rules.Parity:
		return alpha(sky, 0.9)
	case rules.Routing:
		return alpha(ink, 0.9)
	case rules.Fusion:
		return alpha(orange, 0.9)
	case rules.Roofline:
		return alpha(green, 0.9)
	}
	return alpha(purple, 0.9)
}

func (c *Curve) bars(p *panel) {
	const height, step = 2.5, 3.5
	from, to := c.batches()
	top := p.Max.Y
	for _, rule := range barred {
		drawn := false
		for _, f := range c.Findings {
			if f.Rule != rule || f.ToM < from || f.FromM > to {
				continue
			}
			left, right := c.spanOf(p, f.FromM, f.ToM)
			p.FillPolygon(barColour(rule), rectangle(left, top-height, right, top))
			drawn = true
		}
		if drawn {
			top -= step
		}
	}
}

func (p *panel) arrow(x vg.Length, up bool, c color.NRGBA) {
	edge, foot := p.Max.Y, p.Max.Y-6
	if !up {
		edge, foot = p.Min.Y, p.Min.Y+6
	}
	p.FillPolygon(c, []vg.Point{{X: x, Y: edge}, {X: x - 3, Y: foot}, {X: x + 3, Y: foot}})
}

// shown returns the shaded findings, beginning with the monotonic rule's.
func (c *Curve) shown() []rules.Finding {
	from, to := c.batches()
	var out []rules.Finding
	for _, primary := range []bool{true, false} {
		for _, f := range c.Findings {
			if slices.Contains(barred, f.Rule) || (f.Rule == rules.Monotonic) != primary || f.ToM < from || f.FromM > to {
				continue
			}
			// Another rule's finding on the same rows is redundant.
			if !primary && slices.ContainsFunc(out, func(o rules.Finding) bool {
				return o.Cause == f.Cause && f.Cause != cause.Unknown && o.Status == f.Status && o.FromM <= f.FromM && f.ToM <= o.ToM
			}) {
				continue
			}
			out = append(out, f)
		}
	}
	return out
}

func (c *Curve) regions(p *panel) []region {
	var out []region
	shown := c.shown()
	for _, f := range shown {
		from, to := c.spanOf(p, f.FromM, f.ToM)
		known := "no known cause"
		if f.Cause != cause.Unknown && f.Cause != "" {
			known = string(f.Cause)
		}
		out = append(out, region{from: from, to: to, name: Clean(findingLabel(f, len(shown) <= fewFindings)), cause: Clean(known)})
	}
	return out
}

// fewFindings is the most findings whose labels have their own numbers. Labels of more findings
// are merged and must be equal.
const fewFindings = 6

// findingLabel is the rule with its known cause; without one, detail adds the reference that the row was
// compared with.
func findingLabel(f rules.Finding, detail bool) string {
	s := string(f.Rule)
	if f.Cause != cause.Unknown && f.Cause != "" {
		return s + ": " + string(f.Cause)
	}
	if !detail {
		return s
	}
	switch r := f.Remedy; {
	case f.Rule == rules.Pad && r != nil && r.PadTo > 0:
		return fmt.Sprintf("%s: %s is faster", s, f.Series.Coordinate(r.PadTo))
	case f.Rule == rules.SplitRule && r != nil && len(r.Parts) > 0:
		return s + ": " + results.JoinInts(r.Parts, "+")
	case f.Rule == rules.Pad && f.ReferenceM > 0:
		return fmt.Sprintf("%s: %s is faster", s, f.Series.Coordinate(f.ReferenceM))
	case f.Rule == rules.Monotonic && f.ReferenceM > 0:
		return fmt.Sprintf("%s: below %s", s, f.Series.Coordinate(f.ReferenceM))
	}
	return s
}

// shade fills the intervals of the findings. Findings of different rules on one interval darken it only once.
func (c *Curve) shade(p *panel) {
	for _, s := range []rules.Status{rules.Waived, rules.Suspected, rules.Unconfirmed, rules.Confirmed} {
		covered := p.Min.X
		var spans []region
		for _, f := range c.shown() {
			if f.Status == s {
				from, to := c.spanOf(p, f.FromM, f.ToM)
				spans = append(spans, region{from: from, to: to})
			}
		}
		sortRegions(spans)
		for _, r := range spans {
			from := max(r.from, covered)
			if r.to <= from {
				continue
			}
			p.FillPolygon(findingColour(s), rectangle(from, p.Min.Y, r.to, p.Max.Y))
			covered = r.to
		}
	}
}
