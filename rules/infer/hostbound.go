package infer

import (
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// If launches are timed together with their host, small products take as long as the host does. Such a floor
// does not describe the kernel, so no rule judges rows on it. The time to read the weights, and a loop over K
// on one unit, make floors too, but those follow the shape and belong to the kernel.
const (
	// floorReach is the log of the largest time on the floor over the kernel's least time: hosts scatter by
	// as much.
	floorReach = math.Ln2
	// floorGrowth is the least growth of M, as a factor, with constant time.
	floorGrowth = 8
	// floorSlope is the exponent of M above which, by two standard errors, a time follows the product; above
	// floorSteep it does regardless of the errors.
	floorSlope, floorSteep = 0.03, 0.1
	// sharedRows is the least number of floor rows of a series if another shape has the same floor, loneRows
	// if none has.
	sharedRows, loneRows = 4, 8
	// sharedSlack and loneSlack are the least ratios of a floor to the roofline time, if that is known: for a
	// floor in several shapes, and in one. knownSlack is the ratio for rows to lie on a floor that other
	// shapes show: kernels reach four fifths of the roofline.
	sharedSlack, loneSlack, knownSlack = 2, 5, 1.25
	// shapeRatio is the least factor between shapes that shows whether a floor follows the shape, and
	// shapeSlope the exponent from which it does. It is 1 for memory time.
	shapeRatio, shapeSlope = 2, 0.3
)

// HostFloor is the host's time, the same for all products of a series on it.
type HostFloor struct {
	// ToM is the largest M on the floor; all measured Ms up to it are on it.
	ToM  int `json:"to_m"`
	Rows int `json:"rows"`
	// FromUS and ToUS are the least and the largest of their times in microseconds.
	FromUS float64 `json:"from_us"`
	ToUS   float64 `json:"to_us"`
}

// Holds reports whether a row lies on the floor; nil holds no row.
func (h *HostFloor) Holds(m int) bool { return h != nil && m <= h.ToM }

type hostGroup struct {
	device, kernel string
	dtype          kernels.DType
	weights        kernels.WeightFormat
	regime         results.Regime
}

type flat struct {
	*Curve
	rows int
	mean float64 // of the logs of their times
}

// FindFloors finds the host's floor of each series that was timed with its host.
func (p *Estimates) FindFloors(data Data) {
	groups := map[hostGroup][]*Curve{}
	for _, c := range p.Curves {
		k := c.Series.Key
		hosted := data.Meta.Source != "" || slices.Contains(kernels.BroughtKernels(c.Spec.Versions), k.Kernel)
		if hosted && k.Operation.IsProduct() {
			g := hostGroup{k.Device, k.Kernel, k.DType, k.Weights, k.Regime}
			groups[g] = append(groups[g], c)
		}
	}
	for _, curves := range groups {
		least := math.Inf(1)
		for _, c := range curves {
			for i := range c.Points {
				least = math.Min(least, c.Points[i].Seen.Y)
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
			if f := c.flatRows(least, slack); !follow && f.rows >= rows && (differ || c.Series.Bandwidth.Rate > 0) {
				f.setFloor()
			}
		}
	}
}

// flatRows returns the longest run of first rows that are near a group's least time, take at least slack
// times the roofline time, and do not follow M; empty if M grows too little over them.
func (c *Curve) flatRows(least, slack float64) flat {
	out := flat{Curve: c}
	var n, x, y, xx, xy, yy float64
	for i := range c.Points {
		p := &c.Points[i]
		if p.Seen.Y > least+floorReach || needed(c.Series, p.M) > least-math.Log(slack) {
			break
		}
		lx := math.Log(float64(p.M))
		n, x, y, xx, xy, yy = n+1, x+lx, y+p.Seen.Y, xx+lx*lx, xy+lx*p.Seen.Y, yy+p.Seen.Y*p.Seen.Y
		spread := xx - x*x/n
		if n < sharedRows || p.M < floorGrowth*c.Points[0].M || spread <= 0 {
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

// needed is the log of the roofline time for an M in microseconds, as far as peak and bandwidth are known.
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

// compareShapes reports whether the series differ enough in weights and in K to show a floor that follows one
// of them, and whether it does.
func compareShapes(all []flat) (differ, follow bool) {
	differ = true
	for _, size := range []func(kernels.Subject) float64{
		func(s kernels.Subject) float64 { return float64(s.N) * float64(s.K) },
		func(s kernels.Subject) float64 { return float64(s.K) },
	} {
		least, most := math.Inf(1), math.Inf(-1)
		var n, x, y, xx, xy float64
		for _, f := range all {
			subject, _ := f.Series.Key.At(f.Points[0].M)
			of := math.Log(size(subject))
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

func (f flat) setFloor() {
	h := &HostFloor{ToM: f.Points[f.rows-1].M, Rows: f.rows, FromUS: math.Inf(1)}
	for i := range f.Points[:f.rows] {
		us := math.Exp(f.Points[i].Seen.Y)
		h.FromUS, h.ToUS = math.Min(h.FromUS, us), math.Max(h.ToUS, us)
	}
	f.Floor = h
}
