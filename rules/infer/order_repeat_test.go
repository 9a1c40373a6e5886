package infer

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/results"
)

// Sums of floats depend on their order, so that no verdict may follow the order of a map.
func TestPlacesRepeat(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	s := results.Series{Key: syntheticKey}
	var seq int64
	for m := range 40 {
		s.Rows = append(s.Rows, results.Row{Case: results.Case{ID: int64(m), SeriesKey: s.Key, M: m + 1}})
	}
	for round := range 60 {
		for _, m := range rng.Perm(len(s.Rows)) {
			seq++
			s.Rows[m].Samples = append(s.Rows[m].Samples, results.Sample{CaseID: int64(m), Round: round, Seq: seq, US: 1 + rng.Float64()})
		}
	}
	first, _ := Places(s)
	correlation, _ := Ordered(s)
	for range 20 {
		again, _ := Places(s)
		if c, _ := Ordered(s); !slices.Equal(first, again) || c != correlation {
			t.Fatalf("two calls differ: %v, %v and %v, %v", first, correlation, again, c)
		}
	}
}
