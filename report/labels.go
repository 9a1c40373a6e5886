package report

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// region is a named interval of the x axis in canvas units. It may represent several findings.
type region struct {
	from, to vg.Length
	name     string
	cause    string // shared by regions of different names
	count    int
}

func (r region) label() string { return counted(r.name, r.count) }

func counted(name string, n int) string {
	if n > 1 {
		return name + " ×" + strconv.Itoa(n)
	}
	return name
}

// placedLabel is a region's name in a lane above the panel; lane 0 is the lowest.
type placedLabel struct {
	region
	x, width vg.Length // left edge and width of the text
	lane     int
	line     vg.Length // x of the line down to the region
}

// strip is a line above the panel with a mark over each region of one cause. The cause is next to the marks
// if it fits, else above them.
type strip struct {
	label string
	marks []region
	x     vg.Length // left edge of the text
	above bool
}

// labels names a panel's regions: each in place, or, if there are too many, in one strip per cause. If there
// are too many causes for strips, no labels are drawn: labeling only some regions would mislead.
type labels struct {
	placed []placedLabel
	strips []strip
}

const (
	labelLanes = 3
	laneHeight = 11
	labelGap   = 6
	// mergeGap is the largest gap between regions of one name that share a label.
	mergeGap   = 24
	mostStrips = 6
	markHeight = 4
	markGap    = 2 // between marks and the cause above them
	markWidth  = vg.Length(0.75)
)

func nameRegions(regions []region, width func(string) vg.Length, lo, hi vg.Length) labels {
	sorted := slices.Clone(regions)
	sortRegions(sorted)
	for i := range sorted {
		sorted[i].count = max(1, sorted[i].count)
	}
	for gap := vg.Length(mergeGap) / 8; gap <= mergeGap; gap *= 2 {
		if placed, ok := fitLabels(mergeRegions(sorted, gap), width, lo, hi, labelLanes); ok && lead(placed) {
			return labels{placed: placed}
		}
	}
	return labels{strips: stripsOf(sorted, width, lo, hi)}
}

// stripsOf makes a strip for the regions of each cause, ordered by first region; nil if there are too many
// causes.
func stripsOf(sorted []region, width func(string) vg.Length, lo, hi vg.Length) []strip {
	byCause := map[string][]region{}
	var causes []string
	for _, r := range sorted {
		if byCause[r.cause] == nil {
			causes = append(causes, r.cause)
		}
		byCause[r.cause] = append(byCause[r.cause], r)
	}
	if len(causes) > mostStrips {
		return nil
	}
	var strips []strip
	for _, cause := range causes {
		marks := byCause[cause]
		n, end := 0, marks[0].to
		for _, m := range marks {
			n, end = n+m.count, max(end, m.to)
		}
		s := strip{label: counted(cause, n), marks: marks}
		w := width(s.label)
		switch first := marks[0].from; {
		case first-labelGap-w >= lo:
			s.x = first - labelGap - w
		case end+labelGap+w <= hi:
			s.x = end + labelGap
		default:
			s.x, s.above = max(lo, min(first, hi-w)), true
		}
		strips = append(strips, s)
	}
	return strips
}

func (l labels) height() vg.Length {
	h, lanes := vg.Length(0), 0
	for _, p := range l.placed {
		lanes = max(lanes, p.lane+1)
	}
	h = vg.Length(lanes) * laneHeight
	for _, s := range l.strips {
		h += s.height()
	}
	if h > 0 {
		h += 4
	}
	return h
}

func (s strip) height() vg.Length {
	if s.above {
		return laneHeight + markHeight + markGap
	}
	return laneHeight
}

func sortRegions(r []region) {
	slices.SortStableFunc(r, func(a, b region) int { return cmp.Compare(a.from, b.from) })
}

func mergeRegions(sorted []region, gap vg.Length) []region {
	var out []region
	for _, r := range sorted {
		if n := len(out) - 1; n >= 0 && out[n].name == r.name && r.from-out[n].to < gap {
			out[n].to = max(out[n].to, r.to)
			out[n].count += r.count
			continue
		}
		out = append(out, r)
	}
	return out
}

// fitLabels puts labels into lanes from left to right, each as near to its region's middle as possible. ok is
// false if a label does not fit or would not reach over its region.
func fitLabels(regions []region, width func(string) vg.Length, lo, hi vg.Length, lanes int) (placed []placedLabel, ok bool) {
	ends := make([]vg.Length, lanes)
	for i := range ends {
		ends[i] = lo - labelGap
	}
	for _, r := range regions {
		w := width(r.label())
		want := max(lo, min((r.from+r.to-w)/2, hi-w))
		best, bestX := -1, vg.Length(0)
		for lane, end := range ends {
			x := max(want, end+labelGap)
			// A shifted label must still reach over its region.
			if x+w > hi+0.01 || x > r.to && x > want {
				continue
			}
			if best < 0 || x < bestX {
				best, bestX = lane, x
			}
		}
		if best < 0 {
			return nil, false
		}
		ends[best] = bestX + w
		placed = append(placed, placedLabel{region: r, x: bestX, width: w, lane: best})
	}
	return placed, true
}

// lead finds, for each label, an x for the line down to its region that avoids the labels below. It returns
// false if a label has no such x.
func lead(placed []placedLabel) bool {
	for i := range placed {
		p := &placed[i]
		lo, hi := max(p.x+2, p.from), min(p.x+p.width-2, p.to)
		if lo > hi { // a narrow region at the edge of the panel
			lo, hi = (p.from+p.to)/2, (p.from+p.to)/2
		}
		found := false
		for _, x := range []vg.Length{max(lo, min((p.from+p.to)/2, hi)), lo, hi} {
			blocked := slices.ContainsFunc(placed, func(other placedLabel) bool {
				return other.lane < p.lane && x > other.x-2 && x < other.x+other.width+2
			})
			if !blocked {
				p.line, found = x, true
				break
			}
		}
		if !found {
			return false
		}
	}
	return true
}

func (l labels) draw(c draw.Canvas, top vg.Length) {
	style := lettering(8.5, ink, false)
	style.YAlign = text.YBottom
	for _, p := range l.placed {
		base := top + 5 + vg.Length(p.lane)*laneHeight
		c.FillText(style, vg.Point{X: p.x, Y: base}, p.label())
		line := draw.LineStyle{Color: muted, Width: 0.5}
		if p.count > 1 { // bracket the regions of a shared label
			c.StrokeLine2(line, p.from, top+2, p.to, top+2)
		}
		c.StrokeLine2(line, p.line, base-1, p.line, top)
	}
	base := top + 4
	for _, s := range slices.Backward(l.strips) {
		foot := base + 3.5 // marks next to text have x-height
		words := base
		if s.above {
			foot, words = base, base+markHeight+markGap
		}
		c.FillText(style, vg.Point{X: s.x, Y: words}, s.label)
		drawn := vg.Length(math.Inf(-1))
		for _, m := range s.marks {
			left, right := m.from, max(m.to, m.from+markWidth)
			if left = max(left, drawn); right > left {
				c.FillPolygon(ink, rectangle(left, foot, right, foot+markHeight))
				drawn = right
			}
		}
		base += s.height()
	}
}
