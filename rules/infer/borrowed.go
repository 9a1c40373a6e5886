package infer

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gemmaudit/gemmaudit/rules/phrase"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

// ScatterOrigin is the source of a time's scatter.
type ScatterOrigin string

const (
	// OwnScatter comes from the row's own samples.
	OwnScatter ScatterOrigin = "own"
	// BorrowedScatter comes from the other rows of the series: the distance of each row from the line between
	// its neighbors.
	BorrowedScatter ScatterOrigin = "borrowed"
	// AssumedScatter is a typical value, used if a series has too few rows to borrow from.
	AssumedScatter ScatterOrigin = "assumed"
)

const (
	// assumedScatter is the standard deviation, as a share of the time, if the noise is unknown. It is
	// typical of one block of launches on a shared machine.
	assumedScatter = 0.05
	assumedDF      = 8
	// BorrowRows is the least number of rows for borrowing scatter.
	BorrowRows = 12
	// BorrowedFloor is the lower limit of borrowed scatter: times rounded to the same digit look identical.
	BorrowedFloor = 0.01
	// A borrowed scale has borrowedDF + borrowedRowDF·rows degrees of freedom: for 12 to 256 rows of normal
	// noise, Student's t with as many has wider tails than the ratio has, down to p = 0.0001.
	borrowedDF, borrowedRowDF = 2, 0.25
	// strayShare is the share of rows, those farthest from their neighbors, that may be slow without raising
	// the scatter. strayFactor is the standard deviation of normal noise trimmed by that share.
	strayShare, strayFactor = 0.1, 0.789
)

// SeriesScatter is the scatter for the rows of a series that have too few samples of their own.
type SeriesScatter struct {
	Origin ScatterOrigin `json:"origin"`
	// Share is the standard deviation as a share of the time, Rows the number of rows that it applies to.
	Share float64 `json:"share"`
	Rows  int     `json:"rows"`
	// DF is the degrees of freedom of Share.
	DF float64 `json:"-"`
}

// ScatterOf is the scatter that rows with fewer samples than least are judged by; nil if no row needs it.
func (c *Curve) ScatterOf(least int) *SeriesScatter {
	few := 0
	for i := range c.Points {
		if p := &c.Points[i]; p.N < least && !p.Inferred {
			few++
		}
	}
	if few == 0 {
		return nil
	}
	// Two to four samples are too few to estimate one row's scatter, but their pooled scatter is a lower
	// limit. A card that switches between two clock levels scatters as much in every row.
	within := c.WithinRows(least)
	if len(c.Points) < BorrowRows {
		return &SeriesScatter{Origin: AssumedScatter, Share: math.Max(assumedScatter, within), Rows: few, DF: assumedDF}
	}
	m, y := make([]int, len(c.Points)), make([]float64, len(c.Points))
	for i := range c.Points {
		m[i], y[i] = c.Points[i].M, c.Points[i].US.Y
	}
	share, df := AboutNeighbours(m, y)
	return &SeriesScatter{Origin: BorrowedScatter, Share: math.Max(within, math.Max(BorrowedFloor, share)), Rows: few, DF: df}
}

// WithinRows is the pooled standard deviation of log times within rows that have several samples but fewer
// than least, or 0. It is not robust on purpose: a sample at another clock level counts.
func (c *Curve) WithinRows(least int) float64 {
	squares, freedom := 0.0, 0
	for i := range c.Points {
		p := &c.Points[i]
		if p.N < 2 || p.N >= least || p.Inferred {
			continue
		}
		var y []float64
		for _, s := range c.Series.Rows[p.Row].Samples {
			if s.Usable() {
				y = append(y, math.Log(s.US))
			}
		}
		mean := stats.Mean(y)
		for _, v := range y {
			squares += (v - mean) * (v - mean)
		}
		freedom += len(y) - 1
	}
	if freedom == 0 {
		return 0
	}
	return math.Sqrt(squares / float64(freedom))
}

// AboutNeighbours is the standard deviation of values about the lines between their neighbors, with its
// degrees of freedom. m is ascending and has at least three values.
//
// One slow row is also far from its neighbors' lines, three residuals in all. So strays are dropped as rows,
// and the residuals of the others are taken without them.
func AboutNeighbours(m []int, y []float64) (sd, df float64) {
	residuals := lineResiduals(m, y)
	stray := make([]bool, len(y))
	left := int(strayShare * float64(len(residuals)))
	for _, r := range byResidual(residuals) {
		if i := r + 1; left > 0 && !stray[i-1] && !stray[i+1] {
			stray[i] = true
			left--
		}
	}
	var keptM []int
	var keptY []float64
	for i := range y {
		if !stray[i] {
			keptM, keptY = append(keptM, m[i]), append(keptY, y[i])
		}
	}
	kept := lineResiduals(keptM, keptY)
	squares := 0.0
	for _, r := range kept {
		squares += r * r
	}
	// The median ignores a slower level that the card is at now and then, and includes one that is frequent.
	slices.Sort(residuals)
	return math.Max(stats.MADFactor*stats.MedianOfSorted(residuals), math.Sqrt(squares/float64(len(kept)))/strayFactor),
		borrowedDF + borrowedRowDF*float64(len(y))
}

// lineResiduals returns the distance of each inner value from the line between its neighbors in log m, in
// units of one value's standard deviation.
func lineResiduals(m []int, y []float64) []float64 {
	residuals := make([]float64, 0, len(y))
	for i := 1; i+1 < len(y); i++ {
		from, at, to := math.Log(float64(m[i-1])), math.Log(float64(m[i])), math.Log(float64(m[i+1]))
		w := (at - from) / (to - from)
		r := y[i] - (1-w)*y[i-1] - w*y[i+1]
		residuals = append(residuals, math.Abs(r)/math.Sqrt(1+(1-w)*(1-w)+w*w))
	}
	return residuals
}

// byResidual returns the indices of residuals, largest residual first.
func byResidual(residuals []float64) []int {
	order := make([]int, len(residuals))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(residuals[b], residuals[a]) })
	return order
}

// Known returns the time of a point with its standard error, and whether the error comes from the point's own
// samples.
func (c *Curve) Known(i, least int, s *SeriesScatter) (e stats.Estimate, own bool) {
	p := &c.Points[i]
	if p.Judged(least) || s == nil {
		return p.US, true
	}
	return stats.Estimate{Y: p.US.Y, SE: s.Share, DF: s.DF}, false
}

// Text is the sentence that says where the scatter comes from; least is the least number of samples of a row
// with its own.
func (s *SeriesScatter) Text(least int) string {
	from := "noise of %s is assumed"
	if s.Origin == BorrowedScatter {
		from = "noise of %s is taken from the rows around them"
	}
	return fmt.Sprintf("%s with fewer than %d samples can only be suspected: "+from, phrase.Count(s.Rows, "row"), least,
		phrase.Roughly(s.Share))
}
