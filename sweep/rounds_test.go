package sweep

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/gemmaudit/gemmaudit/results"
	"github.com/gemmaudit/gemmaudit/rules/stats"
)

func TestRoundSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set, want := newRoundSet(rapid.IntRange(0, 200).Draw(t, "room")), map[int]bool{}
		for range rapid.IntRange(0, 100).Draw(t, "additions") {
			round := rapid.IntRange(0, 300).Draw(t, "round")
			set.add(round)
			want[round] = true
		}
		if set.n != len(want) {
			t.Fatalf("%d rounds, expected %d", set.n, len(want))
		}
		for round := range 400 {
			if set.has(round) != want[round] {
				t.Fatalf("round %d: %v, expected %v", round, set.has(round), want[round])
			}
		}
	})
}

func TestUsualTimeIsTheMedian(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s sentinel
		var all []float64
		for range rapid.IntRange(1, 60).Draw(t, "samples") {
			us := float64(rapid.IntRange(1, 20).Draw(t, "us"))
			all = append(all, us)
			d := s.add(results.Sample{US: us})
			last := stats.Median(all[max(0, len(all)-SentinelWindow):])
			if d.Samples != len(all) || d.UsualUS != stats.Median(all) || d.LastUS != last || d.Change != last/stats.Median(all)-1 {
				t.Fatalf("%+v of %v", d, all)
			}
		}
	})
}
