package rules

import (
	"fmt"
	"math"
)

// ScatterOrigin says where the scatter of a time comes from.
type ScatterOrigin string

const (
	// OwnScatter is that of the row's own samples.
	OwnScatter ScatterOrigin = "own"
	// BorrowedScatter is that of the rows around it: how far each row of a series lies from the line between
	// its neighbours.
	BorrowedScatter ScatterOrigin = "borrowed"
	// AssumedScatter is [assumedScatter], where a series has too few rows to borrow from.
	AssumedScatter ScatterOrigin = "assumed"
)

const (
	// assumedScatter is the standard deviation, as a share of the time, of a time of which nothing is known: that of one
	// block of launches on a machine that other work shares.
	assumedScatter = 0.05
	assumedDF      = 8
	// borrowRows is the least number of rows from which scatter is borrowed.
	borrowRows = 12
	// borrowedFloor is the least scatter that is believed of neighbours: times rounded to the same digit look alike.
	borrowedFloor = 0.01
	// borrowedDF is the degrees of freedom per row of a scale from neighbours: a median of absolute residuals has 0.37 of
	// the efficiency of a standard deviation, and neighbouring residuals share rows.
	borrowedDF = 0.25
)

// SeriesScatter is the scatter of the rows of a series that have too few samples for their own.
type SeriesScatter struct {
	Origin ScatterOrigin `json:"origin"`
	// Share is the standard deviation as a share of the time, Rows how many rows it stands for.
	Share float64 `json:"share"`
	Rows  int     `json:"rows"`

	df float64
}

// scatterOf is the scatter of rows of a curve with fewer than least samples; nil where every row has its own.
func (c *curve) scatterOf(least int) *SeriesScatter {
	few := 0
	for i := range c.points {
		if p := &c.points[i]; p.n < least && !p.inferred {
			few++
		}
	}
	if few == 0 {
		return nil
	}
	// What rows with two to four samples scatter by is too little for each, but no row is believed to scatter by less than all do together:
	// levels that a card changes between lie as far apart in one row as in any other.
	within := c.withinRows(least)
	if len(c.points) < borrowRows {
		return &SeriesScatter{Origin: AssumedScatter, Share: math.Max(assumedScatter, within), Rows: few, df: assumedDF}
	}
	m, y := make([]int, len(c.points)), make([]float64, len(c.points))
	for i := range c.points {
		m[i], y[i] = c.points[i].m, c.points[i].us.y
	}
	share, df := aboutNeighbours(m, y)
	return &SeriesScatter{Origin: BorrowedScatter, Share: math.Max(within, math.Max(borrowedFloor, share)), Rows: few, df: df}
}

// withinRows is the standard deviation of log times within the rows of a curve that have several samples and fewer than least, pooled; 0 where
// none has. It is no robust one: a sample at another level counts.
func (c *curve) withinRows(least int) float64 {
	squares, freedom := 0.0, 0
	for i := range c.points {
		p := &c.points[i]
		if p.n < 2 || p.n >= least || p.inferred {
			continue
		}
		var y []float64
		for _, s := range c.series.Rows[p.row].Samples {
			if usable(&s) {
				y = append(y, math.Log(s.US))
			}
		}
		mean := meanOf(y)
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

// aboutNeighbours is the standard deviation of values about the lines between their neighbours, with its degrees of freedom. m is
// ascending, with at least three values.
func aboutNeighbours(m []int, y []float64) (sd, df float64) {
	residuals := make([]float64, 0, len(y))
	for i := 1; i+1 < len(y); i++ {
		from, at, to := math.Log(float64(m[i-1])), math.Log(float64(m[i])), math.Log(float64(m[i+1]))
		w := (at - from) / (to - from)
		r := y[i] - (1-w)*y[i-1] - w*y[i+1]
		residuals = append(residuals, math.Abs(r)/math.Sqrt(1+(1-w)*(1-w)+w*w))
	}
	return 1.4826 * spoiledMedian(residuals), math.Max(1, borrowedDF*float64(len(y)))
}

// known is the time of a point with an error, from its own samples or from the scatter of its series, and whether the error is
// its own.
func (c *curve) known(i, least int, s *SeriesScatter) (e estimate, own bool) {
	p := &c.points[i]
	if p.judged(least) || s == nil {
		return p.us, true
	}
	return estimate{y: p.us.y, se: s.Share, df: s.df}, false
}

// text says what stands for the scatter of the rows that have fewer than least samples.
func (s *SeriesScatter) text(least int) string {
	from := "a scatter of %s is assumed"
	if s.Origin == BorrowedScatter {
		from = "a scatter of %s is borrowed from the rows around them"
	}
	return fmt.Sprintf("%s with fewer than %d samples can only be suspected: "+from, plural(s.Rows, "row"), least, roughly(s.Share))
}
