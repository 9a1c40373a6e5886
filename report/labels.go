package report

import (
	"sort"
	"strconv"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A region is an interval of the x axis with a name, in canvas units.
type region struct {
	from, to vg.Length
	name     string
	count    int
	// scattered regions stand for many; middle is where most of them are.
	scattered bool
	middle    vg.Length
}

// centre is the place that the label of a region wants to be above.
func (r region) centre() vg.Length {
	if r.scattered {
		return r.middle
	}
	return (r.from + r.to) / 2
}

func (r region) label() string {
	if r.count > 1 {
		return r.name + " ×" + strconv.Itoa(r.count)
	}
	return r.name
}

// A placedLabel is a region's name in a lane above the panel; lane 0 is lowest.
type placedLabel struct {
	region
	x, width vg.Length // left end and width of the text
	lane     int
}

const (
	labelLanes = 3
	laneHeight = 11
	labelGap   = 6
)

// placeLabels finds a place for the name of every region between lo and hi so
// that no two overlap. Neighbours with one name are merged, the more of them the
// less room there is, until all fit; in the end every name stands once.
func placeLabels(regions []region, width func(string) vg.Length, lo, hi vg.Length, lanes int) []placedLabel {
	sorted := append([]region(nil), regions...)
	sortRegions(sorted)
	for i := range sorted {
		sorted[i].count = max(1, sorted[i].count)
	}
	for gap := vg.Length(8); gap < 4*(hi-lo); gap *= 2 {
		if placed, ok := fitLabels(mergeRegions(sorted, gap), width, lo, hi, lanes); ok {
			return placed
		}
	}
	// Names that alternate can't be merged as neighbours; let each stand once,
	// over the middle of its regions.
	var once []region
	at := map[string]int{}
	for _, r := range sorted {
		i, ok := at[r.name]
		if !ok {
			at[r.name] = len(once)
			r.middle = r.centre()
			once = append(once, r)
			continue
		}
		o := &once[i]
		o.scattered = true
		o.middle = (o.middle*vg.Length(o.count) + r.centre()*vg.Length(r.count)) / vg.Length(o.count+r.count)
		o.to = max(o.to, r.to)
		o.count += r.count
	}
	sort.SliceStable(once, func(i, j int) bool { return once[i].centre() < once[j].centre() })
	return squeezeLabels(once, width, lo, hi, lanes)
}

// squeezeLabels puts every label on the free place nearest to where it wants to
// be, in any lane, to the left or to the right; one for which there is no room
// at all is left out.
func squeezeLabels(regions []region, width func(string) vg.Length, lo, hi vg.Length, lanes int) []placedLabel {
	var placed []placedLabel
	for _, r := range regions {
		w := width(r.label())
		want := max(lo, min(r.centre()-w/2, hi-w))
		best, found := placedLabel{region: r, width: w}, false
		for lane := range lanes {
			// A free place begins where the label wants to be, or next to a
			// label that is in its way.
			candidates := []vg.Length{want}
			for _, p := range placed {
				if p.lane == lane {
					candidates = append(candidates, p.x+p.width+labelGap, p.x-labelGap-w)
				}
			}
			for _, x := range candidates {
				if x < lo || x+w > hi+0.01 || found && distance(x, want) >= distance(best.x, want) {
					continue
				}
				free := true
				for _, p := range placed {
					free = free && (p.lane != lane || x >= p.x+p.width+labelGap-0.01 || x+w <= p.x-labelGap+0.01)
				}
				if free {
					best.x, best.lane, found = x, lane, true
				}
			}
		}
		if found {
			placed = append(placed, best)
		}
	}
	return placed
}

func distance(a, b vg.Length) vg.Length { return max(a-b, b-a) }

// sortRegions orders regions from left to right.
func sortRegions(r []region) {
	sort.SliceStable(r, func(i, j int) bool { return r[i].from < r[j].from })
}

// mergeRegions joins neighbours of one name that are closer than gap.
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

// fitLabels puts labels into lanes from left to right, each as near to its
// region's middle as the lane allows. ok is false when one found no place, or
// would stand next to its region.
func fitLabels(regions []region, width func(string) vg.Length, lo, hi vg.Length, lanes int) (placed []placedLabel, ok bool) {
	ends := make([]vg.Length, lanes)
	for i := range ends {
		ends[i] = lo - labelGap
	}
	ok = true
	for _, r := range regions {
		w := width(r.label())
		want := max(lo, min(r.centre()-w/2, hi-w))
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
			ok = false
			continue
		}
		ends[best] = bestX + w
		placed = append(placed, placedLabel{r, bestX, w, best})
	}
	return placed, ok
}

// lanesUsed is the height that placed labels take.
func lanesUsed(placed []placedLabel) int {
	n := 0
	for _, p := range placed {
		n = max(n, p.lane+1)
	}
	return n
}

// drawLabels writes placed labels above the panel, with a thin line down to the
// region where no other label is in its way.
func drawLabels(c draw.Canvas, top vg.Length, placed []placedLabel) {
	style := lettering(8.5, ink, false)
	style.YAlign = text.YBottom
	for _, p := range placed {
		base := top + 5 + vg.Length(p.lane)*laneHeight
		c.FillText(style, vg.Point{X: p.x, Y: base}, p.label())
		if p.scattered {
			continue
		}
		mid := (p.from + p.to) / 2
		x := max(p.x+2, min(mid, p.x+p.width-2))
		if x < p.from || x > p.to {
			x = mid
		}
		blocked := false
		for _, other := range placed {
			blocked = blocked || other.lane < p.lane && x > other.x-2 && x < other.x+other.width+2
		}
		if !blocked {
			c.StrokeLine2(draw.LineStyle{Color: muted, Width: 0.5}, x, base-1, x, top)
		}
	}
}
