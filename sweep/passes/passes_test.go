package passes

import (
	"slices"
	"testing"
)

func TestTriedSizes(t *testing.T) {
	saving := map[int]float64{}
	for m := 16; m <= 640; m += 16 {
		saving[m] = 1
	}
	saving[448], saving[560], saving[64] = 126, 96, 50
	got := TriedSizes(saving, 8)
	if len(got) != 8 || !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != 8 {
		t.Fatalf("tried %v: expected 8 sizes, ascending", got)
	}
	for _, m := range []int{64, 448, 560} {
		if !slices.Contains(got, m) {
			t.Errorf("tried %v without %d, which promises most", got, m)
		}
	}
	if few := TriedSizes(map[int]float64{96: 0, 32: 5}, 8); !slices.Equal(few, []int{32, 96}) {
		t.Errorf("of two sizes %v are tried", few)
	}
}
