package stats

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestMerged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Float64Range(0, 9), 0, 5)
		a, b := list.Draw(t, "a"), list.Draw(t, "b")
		slices.Sort(a)
		slices.Sort(b)
		want := slices.Concat([]float64{-1}, a, b)
		slices.Sort(want)
		if got := MergeSorted([]float64{-1}, a, b); !slices.Equal(got, want) {
			t.Fatalf("%v and %v become %v", a, b, got)
		}
	})
}
