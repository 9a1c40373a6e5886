package rules

import (
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// Where launches are timed together with their host, small products take as long as the host does. Such a floor says nothing of
// the kernel, and rows that lie on it are judged by no rule. Memory makes a floor too, the time in which weights are read, and so
// does a loop over K that one unit runs alone: these are the kernel's. They differ from the host's in that they follow the shape.
const (
	// floorReach is the log of the time of a row on the floor over the least of its kernel's: hosts scatter by as much.
	floorReach = math.Ln2
	// floorGrowth is by what factor M grows at least while the time does not.
	floorGrowth = 8
	// floorSlope is the exponent of M beyond which a time follows the product, by two standard errors, and floorSteep the one
	// beyond which it does whatever the errors.
	floorSlope, floorSteep = 0.03, 0.1
	// sharedRows is the least number of rows of a series whose floor another shape has too, loneRows of one without such a shape.
	sharedRows, loneRows = 4, 8
	// sharedSlack and loneSlack are the least ratio of the floor to what arithmetic and memory need, where those are known, for
	// it to be found: in several shapes, and in one. knownSlack is that for rows to lie on one that other shapes show: kernels
	// reach four fifths of what is possible.
	sharedSlack, loneSlack, knownSlack = 2, 5, 1.25
	// shapeRatio is by what factor shapes must differ for a floor that follows the shape to show, and shapeSlope the exponent
	// from which on it does: 1 where it is a time of memory.
	shapeRatio, shapeSlope = 2, 0.3
)

// HostFloor is the time that rows of a series take whatever their product, as it is the host's.
type HostFloor struct {
	// ToM is the largest M on the floor; all measured ones up to it are.
	ToM  int `json:"to_m"`
	Rows int `json:"rows"`
	// FromUS and ToUS are the least and the most of their times in microseconds.
	FromUS float64 `json:"from_us"`
	ToUS   float64 `json:"to_us"`
}

// holds says whether a row lies on the floor; a nil floor holds none.
func (h *HostFloor) holds(m int) bool { return h != nil && m <= h.ToM }

// spare takes the rows on the floor out of what a rule has to say.
func (c *curve) spare(rows []judgement) {
	for i := range rows {
		if c.floor.holds(c.points[i].m) {
			rows[i] = c.unjudgedRow(i)
		}
	}
}

// hostGroup is what series have in common that a host launches in the same way.
type hostGroup struct {
	device, kernel string
	dtype          kernels.DType
	weights        kernels.WeightFormat
	regime         results.Regime
}

// flat are the first rows of a curve, whose time does not follow M.
type flat struct {
	*curve
	rows int
	mean float64 // of the logs of their times
}

// findFloors sets the floors of the curves whose launches were timed with their host.
func (p *prepared) findFloors(data Data) {
	groups := map[hostGroup][]*curve{}
	for _, c := range p.curves {
		k := c.series.Key
		hosted := data.Meta.Source != "" || slices.Contains(kernels.BroughtKernels(c.spec.Versions), k.Kernel)
		if hosted && k.Operation == kernels.GEMM {
			g := hostGroup{k.Device, k.Kernel, k.DType, k.Weights, k.Regime}
			groups[g] = append(groups[g], c)
		}
	}
	for _, curves := range groups {
		least := math.Inf(1)
		for _, c := range curves {
			for i := range c.points {
				least = math.Min(least, c.points[i].seen.y)
			}
		}
		var shared []flat
		for _, c := range curves {
			if f := c.flatRows(least, sharedSlack); f.rows >= sharedRows {
				shared = append(shared, f)
			}
		}
		differ, follow := compareShapes(shared)
		for _, c := range curves {
			slack, rows := float64(knownSlack), sharedRows
			if !differ {
				slack, rows = loneSlack, loneRows
			}
			if f := c.flatRows(least, slack); !follow && f.rows >= rows && (differ || c.series.Bandwidth.Rate > 0) {
				f.setFloor()
			}
		}
	}
}

// flatRows are the most rows from the first on that lie near the least time of a group, with slack times what arithmetic and
// memory need, and whose times do not follow M; none where M grows too little over them.
func (c *curve) flatRows(least, slack float64) flat {
	out := flat{curve: c}
	var n, x, y, xx, xy, yy float64
	for i := range c.points {
		p := &c.points[i]
		if p.seen.y > least+floorReach || needed(c.series, p.m) > least-math.Log(slack) {
			break
		}
		lx := math.Log(float64(p.m))
		n, x, y, xx, xy, yy = n+1, x+lx, y+p.seen.y, xx+lx*lx, xy+lx*p.seen.y, yy+p.seen.y*p.seen.y
		spread := xx - x*x/n
		if n < sharedRows || p.m < floorGrowth*c.points[0].m || spread <= 0 {
			continue
		}
		slope := (xy - x*y/n) / spread
		rest := math.Max(0, yy-y*y/n-slope*slope*spread)
		se := math.Sqrt(rest / (n - 2) / spread)
		if math.Abs(slope) <= floorSteep && math.Abs(slope)-2*se <= floorSlope {
			out.rows, out.mean = i+1, y/n
		}
	}
	return out
}

// needed is the log of the microseconds that arithmetic and memory need for an M, as far as peak and bandwidth are known.
func needed(s results.Series, m int) float64 {
	us := math.Inf(-1)
	if s.Peak.FLOPS > 0 {
		us = math.Log(s.Key.FLOPs(m) / s.Peak.FLOPS * 1e6)
	}
	if s.Bandwidth.Rate > 0 {
		us = math.Max(us, math.Log(s.Key.Bytes(m)/s.Bandwidth.Rate*1e6))
	}
	return us
}

// compareShapes says whether series differ so much in weights and in K that a floor which follows one of them would show, and
// whether it does.
func compareShapes(all []flat) (differ, follow bool) {
	differ = true
	for _, size := range []func(results.SeriesKey) float64{
		func(k results.SeriesKey) float64 { return float64(k.N) * float64(k.K) },
		func(k results.SeriesKey) float64 { return float64(k.K) },
	} {
		least, most := math.Inf(1), math.Inf(-1)
		var n, x, y, xx, xy float64
		for _, f := range all {
			of := math.Log(size(f.series.Key))
			least, most = math.Min(least, of), math.Max(most, of)
			n, x, y, xx, xy = n+1, x+of, y+f.mean, xx+of*of, xy+of*f.mean
		}
		if !(most-least >= math.Log(shapeRatio)) {
			differ = false
			continue
		}
		follow = follow || (xy-x*y/n)/(xx-x*x/n) >= shapeSlope
	}
	return differ, follow
}

// setFloor makes the rows the floor of their curve.
func (f flat) setFloor() {
	h := &HostFloor{ToM: f.points[f.rows-1].m, Rows: f.rows, FromUS: math.Inf(1)}
	for i := range f.points[:f.rows] {
		us := math.Exp(f.points[i].seen.y)
		h.FromUS, h.ToUS = math.Min(h.FromUS, us), math.Max(h.ToUS, us)
	}
	f.floor = h
}
