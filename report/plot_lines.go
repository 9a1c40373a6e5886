package report

import (
	"image/color"
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/gemmaudit/gemmaudit/rules"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// spanOf is the interval of the x axis that M from..to covers: half-way to the neighboring rows, with a
// minimum width where space allows.
func (c *Curve) spanOf(p *panel, from, to int) (vg.Length, vg.Length) {
	before, after := from, to
	i := searchRows(c.Rows, from)
	if i > 0 {
		before = c.Rows[i-1].M
	}
	if j := searchRows(c.Rows, to+1); j < len(c.Rows) {
		after = c.Rows[j].M
	}
	left, right := (p.fx(float64(from))+p.fx(float64(before)))/2, (p.fx(float64(to))+p.fx(float64(after)))/2
	left, right = max(p.Min.X, left), min(p.Max.X, right)
	// In dense rows the true width stays, so the shade's density shows the share of flagged rows.
	if room := p.fx(float64(after)) - p.fx(float64(before)); right-left < 1 && room > 1 {
		mid := (left + right) / 2
		left, right = mid-0.5, mid+0.5
	}
	return left, right
}

// searchRows is the index of the first row with at least that M.
func searchRows(rows []rules.RowVerdict, m int) int {
	lo, hi := 0, len(rows)
	for lo < hi {
		if mid := (lo + hi) / 2; rows[mid].M < m {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

func strokesOf(p *panel, rows []rules.RowVerdict, value func(rules.RowVerdict) stats.Interval) []stroke {
	var out []stroke
	for _, r := range rows {
		v := value(r)
		if !IsFinite(v.Mid) {
			continue
		}
		if !IsFinite(v.Lo) || v.Lo > v.Mid {
			v.Lo = v.Mid
		}
		if !IsFinite(v.Hi) || v.Hi < v.Mid {
			v.Hi = v.Mid
		}
		clip := func(y float64) vg.Length { return max(p.Min.Y, min(p.Max.Y, p.fy(y))) }
		out = append(out, stroke{x: p.fx(float64(r.M)), lo: clip(v.Lo), mid: clip(v.Mid), hi: clip(v.Hi), rows: 1})
	}
	return out
}

// curve draws a line with its band. If stepped, each value extends half-way to its neighbors.
func (p *panel) curve(strokes []stroke, c color.NRGBA, stepped bool) {
	strokes, _ = gather(strokes)
	if len(strokes) == 0 {
		return
	}
	if len(strokes) == 1 {
		s := strokes[0]
		p.StrokeLine2(draw.LineStyle{Color: alpha(c, 0.5), Width: 1}, s.x, s.lo, s.x, s.hi)
		p.DrawGlyph(dot(c, 2.5), vg.Point{X: s.x, Y: s.mid})
		return
	}
	var upper, lower, line []vg.Point
	for i, s := range strokes {
		xs := []vg.Length{s.x}
		if stepped {
			xs = []vg.Length{s.x, s.x}
			if i > 0 {
				xs[0] = (s.x + strokes[i-1].x) / 2
			}
			if i < len(strokes)-1 {
				xs[1] = (s.x + strokes[i+1].x) / 2
			}
		}
		for _, x := range xs {
			upper = append(upper, vg.Point{X: x, Y: s.hi})
			lower = append(lower, vg.Point{X: x, Y: s.lo})
			line = append(line, vg.Point{X: x, Y: s.mid})
		}
	}
	for i := len(lower) - 1; i >= 0; i-- {
		upper = append(upper, lower[i])
	}
	p.FillPolygon(alpha(c, 0.22), upper)
	width := vg.Length(1.5)
	if len(strokes) > 300 {
		width = 0.9
	}
	p.StrokeLines(draw.LineStyle{Color: c, Width: width}, line)
	// Mark the rows if there are few: the line between them is not measured.
	if len(strokes) <= 60 && !stepped {
		for _, s := range strokes {
			p.DrawGlyph(dot(c, 1.9), vg.Point{X: s.x, Y: s.mid})
		}
	}
}

func (p *panel) expectation(rows []rules.RowVerdict, scale float64, style draw.LineStyle) {
	var line []vg.Point
	for _, r := range rows {
		if r.Expected <= 0 {
			continue
		}
		y := max(p.Min.Y, min(p.Max.Y, p.fy(r.Expected*scale)))
		x := p.fx(float64(r.M))
		if n := len(line); n > 0 {
			// Merge flat stretches into one line, however many rows they have.
			if n > 1 && line[n-1].Y == y && line[n-2].Y == y {
				line[n-1].X = x
				continue
			}
			if line[n-1].Y != y {
				line = append(line, vg.Point{X: x, Y: line[n-1].Y})
			}
		}
		line = append(line, vg.Point{X: x, Y: y})
	}
	if len(line) > 1 {
		p.StrokeLines(style, line)
	}
}

// openVerdicts lists the verdicts between anomalous and clean with their colors, in the order of their marks.
var openVerdicts = []struct {
	verdict rules.Verdict
	colour  color.NRGBA
}{{rules.Undecided, orange}, {rules.Marginal, sky}}

// open marks undecided and marginal rows at the foot of the panel, one mark per distinct position.
func (p *panel) open(rows []rules.RowVerdict) {
	for _, v := range openVerdicts {
		last := vg.Length(math.Inf(-1))
		for _, r := range rows {
			if r.Verdict != v.verdict {
				continue
			}
			if x := p.fx(float64(r.M)); x-last >= 1 {
				p.StrokeLine2(draw.LineStyle{Color: v.colour, Width: 0.8}, x, p.Min.Y, x, p.Min.Y+5)
				last = x
			}
		}
	}
}
