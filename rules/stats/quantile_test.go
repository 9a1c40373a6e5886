package stats

import (
	"math"
	"slices"
	"testing"
)

func TestQuantile(t *testing.T) {
	for _, tc := range []struct {
		in   []float64
		q    float64
		want float64
	}{
		{nil, 0.5, 0}, {[]float64{3}, 0.75, 3}, {[]float64{4, 1}, 0.5, 2.5}, {[]float64{9, 1, 2}, 0.5, 2},
		{[]float64{5, 4, 3, 2, 1}, 0.75, 4}, {[]float64{1, 2}, 1, 2}, {[]float64{1, 2}, 0, 1},
	} {
		if got := Quantile(slices.Sorted(slices.Values(tc.in)), tc.q); math.Abs(got-tc.want) > 1e-12 {
			t.Errorf("quantile(%v, %g) = %g, want %g", tc.in, tc.q, got, tc.want)
		}
	}
}
