package stats

import (
	"slices"
	"testing"
)

// The bounds are order statistics: of 15 samples the 4th and the 12th.
func TestMedian(t *testing.T) {
	x := make([]float64, 15)
	for i := range x {
		x[i] = float64(15 - i)
	}
	before := slices.Clone(x)
	for _, c := range []struct {
		samples        []float64
		mid, low, high float64
	}{
		{x, 8, 4, 12}, {[]float64{7}, 7, 7, 7}, {[]float64{4, 1, 2, 3}, 2.5, 1, 4},
	} {
		if mid, low, high := MedianInterval(c.samples); mid != c.mid || low != c.low || high != c.high {
			t.Errorf("%v: %v [%v, %v], want %v [%v, %v]", c.samples, mid, low, high, c.mid, c.low, c.high)
		}
	}
	if !slices.Equal(x, before) {
		t.Error("the samples were changed")
	}
}
