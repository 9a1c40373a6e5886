package infer

import (
	"math"
	"slices"
	"testing"
)

// The first of equally wide gaps splits, and a group may have the least size.
func TestWidestGap(t *testing.T) {
	const n = 40
	least := max(modeLeast, int(math.Ceil(modeShare*n)))
	for _, c := range []struct {
		name  string
		sizes []int
		want  int
	}{
		{"the first of two", []int{n - 2*least, least, least}, n - 2*least},
		{"the smallest slow group", []int{n - least, least}, n - least},
		{"the smallest fast group", []int{least, n - least}, least},
		{"one too small", []int{n - least + 1, least - 1}, 0},
	} {
		var samples []float64
		for i, size := range c.sizes {
			samples = append(samples, slices.Repeat([]float64{float64(i + 1)}, size)...)
		}
		if got := widestGap(samples); got != c.want {
			t.Errorf("%s: the cut is at %d, expected %d", c.name, got, c.want)
		}
	}
}
