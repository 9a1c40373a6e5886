package infer

import (
	"cmp"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// Point is a row of a series with its estimates.
type Point struct {
	Row    int // index into Series.Rows; -1 for an inferred row
	M      int
	Label  string // of the kernel; see [results.Case]
	Launch results.Launch
	N      int     // usable samples
	Flops  float64 // log of the product's FLOPs
	// US is log of microseconds at the common clock, Seen the same as observed.
	US, Seen stats.Estimate
	// Elastic is the elasticity of the row's time in the clock; Clock is the median of its samples' in MHz, 0
	// if unknown. Away is true if all are farther from the reference than [ClockReach]: Open of US then covers
	// every elasticity.
	Elastic Elasticity
	Clock   float64
	Away    bool
	// Modes are the two levels, in logs, of a bimodal row; nil for others.
	Modes *Modes
	// Like is the time at the faster level, for rows of a curve that moves between two levels; nil for
	// others.
	Like *LikeTime
	// Floor is the low quantile of a row that scatters more than others, if such rows scatter to one side;
	// nil for others.
	Floor *stats.Estimate
	// Alone is true if the row scatters more than its neighbors, so its noise is its own.
	Alone bool
	// Without[k] is the center of the samples without fold k, Of[k] of fold k alone; Folded is false for rows with too
	// few samples.
	Without, Of [stats.Folds]float64
	Folded      bool
	// Inferred is true for a row that was not measured: its estimates are predictions of its family's line.
	Inferred bool
	taken    *taken // its samples, kept by [PreparePairs]; else nil
}

// Judged reports whether the point has at least least samples. An inferred row needs none.
func (p Point) Judged(least int) bool { return p.N >= least || p.Inferred }

// Serves reports whether the point can be a reference. A bimodal row can't, because it has no single time.
func (p Point) Serves(least int) bool { return p.Judged(least) && (p.Modes == nil || p.Like != nil) }

// Rate is the log of FLOP per microsecond.
func (p Point) Rate() float64 { return p.Flops - p.US.Y }

// Curve is a series with its estimates. Rows that failed or have no usable sample are not among its points.
type Curve struct {
	Series results.Series
	Spec   kernels.Spec
	// Command is the command line of the run.
	Command string
	Points  []Point
	// Peak is log of FLOP per microsecond at MFU 1.
	Peak float64
	// Clocked is true if every sample has a clock; Reference is the clock in MHz that times are adjusted to.
	Clocked   bool
	Reference float64
	// Control marks the control rows, by row of the series.
	Control []bool
	// tiles caches the orientation of a kernel's tile, by label; see orient.
	tiles map[string][2]int
	// stairs caches the steps in the times, by octave of M, and least the least times.
	stairs map[int]*Stairs
	least  []float64
	// Choices are the curves of the same library's other choices at the same products; Unjudged is true for a
	// curve that is not judged itself.
	Choices  []*Curve
	Unjudged bool
	// Families describes the inferred rows, or nil; Made are the cases of such rows, by point.
	Families *Families
	Made     map[int]*results.Case
	fitted   []*FittedFamily
	// Floor is the host's floor; nil if no row lies on it.
	Floor *HostFloor
	// Flips are the two levels that many rows share; nil if few rows are bimodal.
	Flips *Modes
	// Placed describes the effect of time on the curve's rows; nil if the order changed every round.
	Placed  *Placing
	weights map[int]float64
}

// MFU is the share of the peak that a point reaches in a log time, with its interval.
func (c *Curve) MFU(i int, us stats.Estimate, confidence float64, q stats.Quantiles) stats.Interval {
	t := us.Interval(confidence, q)
	top := math.Exp(c.Points[i].Flops - c.Peak)
	return stats.Interval{Lo: top / t.Hi, Mid: top / t.Mid, Hi: top / t.Lo}
}

// MFUAtClock is the MFU of a point relative to the peak at the common clock; zero if a clock is unknown.
func (c *Curve) MFUAtClock(i int, confidence float64, q stats.Quantiles) stats.Interval {
	perClock := c.Series.Peak.At(1)
	if !c.Clocked || perClock <= 0 {
		return stats.Interval{}
	}
	p := c.Points[i]
	t := p.US.Interval(confidence, q)
	top := math.Exp(p.Flops) / (perClock / 1e6 * c.Reference)
	return stats.Interval{Lo: top / t.Hi, Mid: top / t.Mid, Hi: top / t.Lo}
}

// At is the index of the first point with at least so large an M, and whether its M is equal.
func (c *Curve) At(m int) (int, bool) {
	// Points are large, so a search by comparing values would copy each one.
	lo, hi := 0, len(c.Points)
	for lo < hi {
		if middle := (lo + hi) / 2; c.Points[middle].M < m {
			lo = middle + 1
		} else {
			hi = middle
		}
	}
	return lo, lo < len(c.Points) && c.Points[lo].M == m
}

// Lost counts the points of other whose M the curve lacks.
func (c *Curve) Lost(other *Curve) int {
	n := 0
	for _, p := range other.Points {
		_, tried := slices.BinarySearchFunc(c.Series.Rows, p.M, func(r results.Row, m int) int { return cmp.Compare(r.Case.M, m) })
		if _, judged := c.At(p.M); tried && !judged {
			n++
		}
	}
	return n
}

// Suspectable reports whether a point with too few samples for a verdict can be suspected: it has a sample,
// one level and a usable clock.
func (p *Point) Suspectable() bool { return p.N > 0 && p.Modes == nil }
