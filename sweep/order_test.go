package sweep

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A resumed run, or the same seed in a later version, must continue in the same order.
func TestRoundOrderIsFixed(t *testing.T) {
	if got, want := RoundOrder(42, 0, 10, nil), []int{9, 8, 6, 4, 7, 3, 5, 1, 0, 2}; !slices.Equal(got, want) {
		t.Errorf("round 0 of seed 42: %v, expected %v", got, want)
	}
	if got, want := RoundOrder(42, 1, 10, nil), []int{9, 7, 2, 3, 6, 0, 5, 4, 1, 8}; !slices.Equal(got, want) {
		t.Errorf("round 1 of seed 42: %v, expected %v", got, want)
	}
}

func TestRoundOrderIsAPermutation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed, round := rapid.Uint64().Draw(t, "seed"), rapid.IntRange(0, 1000).Draw(t, "round")
		n := rapid.IntRange(0, 300).Draw(t, "cases")
		var group []int
		if sets := rapid.IntRange(0, 4).Draw(t, "sets"); sets > 0 {
			for range n {
				group = append(group, rapid.IntRange(0, sets-1).Draw(t, "set"))
			}
		}
		order := RoundOrder(seed, round, n, group)
		if !slices.Equal(order, RoundOrder(seed, round, n, group)) {
			t.Fatal("the same seed gave another order")
		}
		sorted := slices.Sorted(slices.Values(order))
		for i, v := range sorted {
			if i != v {
				t.Fatalf("%v is no permutation of %d cases", order, n)
			}
		}
		if group != nil {
			changes := 0
			for i := 1; i < n; i++ {
				if group[order[i]] != group[order[i-1]] {
					changes++
				}
			}
			if distinct := len(slices.Compact(slices.Sorted(slices.Values(group)))); changes > max(0, distinct-1) {
				t.Fatalf("%d sets of weights were switched %d times", distinct, changes)
			}
		}
		if n > 20 && slices.Equal(RoundOrder(seed, round+1, n, nil), RoundOrder(seed, round, n, nil)) {
			t.Fatal("two rounds have the same order")
		}
	})
}

func TestShuffleIsFair(t *testing.T) {
	const cases, rounds = 8, 8000
	var first [cases]int
	for round := range rounds {
		first[RoundOrder(7, round, cases, nil)[0]]++
	}
	for c, n := range first {
		// 1000 expected, standard deviation 30; the seed is fixed.
		if n < 850 || n > 1150 {
			t.Errorf("case %d came first in %d of %d rounds", c, n, rounds)
		}
	}
}

func TestShardsPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed, count := rapid.Uint64().Draw(t, "seed"), rapid.IntRange(1, 20).Draw(t, "count")
		cases := rapid.IntRange(0, 500).Draw(t, "cases")
		taken := make([]int, cases)
		least, most := cases, 0
		for i := 1; i <= count; i++ {
			n := 0
			for c, mine := range (Shard{i, count}).keep(seed, cases) {
				if mine {
					taken[c]++
					n++
				}
			}
			least, most = min(least, n), max(most, n)
		}
		for c, n := range taken {
			if n != 1 {
				t.Fatalf("case %d belongs to %d shards", c, n)
			}
		}
		if most-least > 1 {
			t.Fatalf("shards of %d to %d cases", least, most)
		}
	})
}

func TestShardsDoNotAlias(t *testing.T) {
	var residues [8]int
	for c, mine := range (Shard{1, 8}).keep(1, 8000) {
		if mine {
			residues[c%8]++
		}
	}
	for r, n := range residues {
		if n < 80 || n > 170 {
			t.Errorf("residue %d has %d of 1000 cases of the shard", r, n)
		}
	}
}
