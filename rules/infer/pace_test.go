package infer

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/rules/stats"
)

func TestSortBySeqProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		widest := rapid.SampledFrom([]int64{40, 100, 1 << 40}).Draw(t, "widest")
		first := rapid.SampledFrom([]int64{-3, 0, 1 << 50}).Draw(t, "first")
		seqs := rapid.SliceOfNDistinct(rapid.Int64Range(first, first+widest), 0, 40, rapid.ID).Draw(t, "seqs")
		got := make([]block, len(seqs))
		for i, seq := range seqs {
			got[i] = block{seq, float64(seq)}
		}
		sortBySeq(got, func(b *block) int64 { return b.seq })
		slices.Sort(seqs)
		for i, seq := range seqs {
			if got[i] != (block{seq, float64(seq)}) {
				t.Fatalf("place %d holds %v, expected seq %d", i, got[i], seq)
			}
		}
	})
}

func TestSortBySeqOfEqualSeqs(t *testing.T) {
	v := []block{{3, 1}, {1, 2}, {3, 3}, {2, 4}}
	sortBySeq(v, func(b *block) int64 { return b.seq })
	if !slices.IsSortedFunc(v, func(a, b block) int { return int(a.seq - b.seq) }) {
		t.Errorf("%v", v)
	}
}

func TestWindowProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(-3, 3), 3, 60).Draw(t, "values")
		size := rapid.IntRange(2, min(17, len(values))).Draw(t, "size")
		var w window
		for i, v := range values {
			w.add(v)
			if i >= size {
				w.drop(values[i-size])
			}
			in := slices.Clone(values[max(0, i+1-size) : i+1])
			if got := w.location(false, 0, false); got != stats.Median(in) {
				t.Fatalf("median %v of %v, expected %v", got, in, stats.Median(in))
			}
			if len(in) < 2 {
				continue
			}
			if got, want := w.location(false, v, true), stats.Median(in[:len(in)-1]); got != want {
				t.Fatalf("median %v of %v without the last, expected %v", got, in, want)
			}
		}
	})
}

func TestFullRounds(t *testing.T) {
	rows := make([]track, 20)
	for i := range rows {
		rows[i].round = []int{0, 1, denseRounds + 7, math.MaxInt}
		if i < 2 {
			rows[i].round = append(rows[i].round, 2, denseRounds+8)
		}
	}
	full := fullRounds(rows)
	for round, want := range map[int]bool{0: true, 1: true, 2: false, 3: false, denseRounds + 7: true, denseRounds + 8: false,
		math.MaxInt: true} {
		if full.has(round) != want {
			t.Errorf("round %d: %v, expected %v", round, !want, want)
		}
	}
}

// The centers from merged parts must equal the direct ones to the bit.
func TestFoldProperty(t *testing.T) {
	var f folder
	rapid.Check(t, func(t *rapid.T) {
		y := rapid.SliceOfN(rapid.Float64Range(-1, 9), 1, 200).Draw(t, "y")
		var p Point
		whole := f.fold(&p, y)
		if want, _ := stats.Centre(y, nil); whole != want {
			t.Fatalf("centre %v, expected %v", whole, want)
		}
		if p.Folded != (len(y) >= stats.Folds) {
			t.Fatalf("folded %v with %d samples", p.Folded, len(y))
		}
		for k := 0; p.Folded && k < stats.Folds; k++ {
			var rest, part []float64
			for i, v := range y {
				if i%stats.Folds == k {
					part = append(part, v)
				} else {
					rest = append(rest, v)
				}
			}
			without, _ := stats.Centre(rest, nil)
			of, _ := stats.Centre(part, nil)
			if p.Without[k] != without || p.Of[k] != of {
				t.Fatalf("fold %d: %v and %v, expected %v and %v", k, p.Without[k], p.Of[k], without, of)
			}
		}
	})
}

func TestSpoiledMedianProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.Float64Range(-2, 2), 0, 100).Draw(t, "v")
		if want, got := stats.Median(v), stats.MedianInPlace(slices.Clone(v)); got != want {
			t.Fatalf("%v, expected %v", got, want)
		}
	})
}
