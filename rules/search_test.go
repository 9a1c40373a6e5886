package rules

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// cheapestByHand tries every way to write whole as ascending parts.
func cheapestByHand(ms []int, cost map[int]float64, whole, from, parts int) float64 {
	best := math.Inf(1)
	if c, ok := cost[whole]; ok && whole >= from {
		best = c
	}
	if parts < 2 {
		return best
	}
	for _, m := range ms {
		if m < from || m*2 > whole {
			continue
		}
		// What is left has to be a measured M, as the search says.
		if _, ok := cost[whole-m]; ok {
			best = min(best, cost[m]+cheapestByHand(ms, cost, whole-m, m, parts-1))
		}
	}
	return best
}

func TestPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := grid(1, rapid.IntRange(1, 25).Draw(t, "rows"), 1)
		if rapid.Bool().Draw(t, "holes") {
			set = rapid.SliceOfNDistinct(rapid.IntRange(1, 60), 0, 25, rapid.ID).Draw(t, "ms")
		}
		slices.Sort(set)
		if scale := rapid.SampledFrom([]int{1, 1, 8, denseLimit}).Draw(t, "scale"); scale > 1 {
			for i := range set {
				set[i] *= scale // beyond the dense limit the other way is taken
			}
		}
		most := rapid.IntRange(2, 5).Draw(t, "parts")
		times, cost := make([]float64, len(set)), map[int]float64{}
		for i, m := range set {
			times[i] = float64(rapid.IntRange(1, 50).Draw(t, "time"))
			cost[m] = times[i]
		}
		p := newPartition(set, times, most)
		for i, whole := range set {
			for k := 2; k <= most; k++ {
				want := math.Inf(1)
				for _, m := range set {
					if _, ok := cost[whole-m]; ok && m*2 <= whole {
						want = min(want, cost[m]+cheapestByHand(set, cost, whole-m, m, k-1))
					}
				}
				parts, got := p.parts(i, k)
				// On a grid with holes the search may also find sums whose ascending
				// chain leads through one; on a full grid there are none.
				full := len(set) > 0 && set[len(set)-1] == len(set)*set[0]
				if got > want || full && got != want || k == 2 && got != want {
					t.Fatalf("m%d in %d parts: %v, want %v", whole, k, got, want)
				}
				if parts == nil {
					continue
				}
				sum, total := 0, 0.0
				for _, part := range parts {
					sum += part
					total += cost[part]
				}
				if sum != whole || total != got || len(parts) < 2 || len(parts) > k || !slices.IsSorted(parts) {
					t.Fatalf("m%d: parts %v cost %v, stated %v", whole, parts, total, got)
				}
			}
		}
	})
}

func TestPartitionTies(t *testing.T) {
	p := newPartition([]int{1, 2, 3, 4}, []float64{1, 2, 3, 4}, 4)
	if parts, _ := p.parts(3, 4); !slices.Equal(parts, []int{1, 3}) {
		t.Errorf("of equal sums %v was taken, want 1+3: fewest parts, smallest first", parts)
	}
}

func TestCheapestAbove(t *testing.T) {
	got := cheapestAbove([]float64{5, 1, 4, 2, 2, 9})
	if want := []int{1, 3, 3, 4, 5, -1}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
