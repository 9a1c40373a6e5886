package sweep

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

func TestHalvings(t *testing.T) {
	var ranks []int
	for _, h := range halvings(9) {
		ranks = append(ranks, h.rank)
	}
	if !slices.Equal(ranks, []int{0, 3, 2, 3, 1, 3, 2, 3, 0}) {
		t.Errorf("%v", ranks)
	}
	for n := range 5 {
		if got := halvings(n); len(got) != n {
			t.Errorf("%d: %v", n, got)
		}
	}
}

func worthKey(n int) results.SeriesKey {
	return results.SeriesKey{Device: "sim", Kernel: "k", Subject: kernels.Product(kernels.FP32, n, 8)}
}

func TestSeedWorth(t *testing.T) {
	a, b := results.LaunchKind{Label: "a"}, results.LaunchKind{Label: "b"}
	choices := results.Choices{{From: 1, To: 1, Kind: a}, {From: 4, To: 40, Kind: b}, {From: 70, To: 70, Kind: a}}
	s := PlannedSeries{SeriesKey: worthKey(8), Ms: append(Batches{1}, append(Batches(upTo(40))[3:], 70)...), Infer: true}
	for _, c := range []struct {
		name    string
		traffic results.Traffic
		ms      []int
		weights []float64
	}{
		{"nothing known", nil, []int{4, 40, 1, 70, 20}, []float64{0, 0, 0, 0, 0}},
		{"all at m1", results.Traffic{{M: 1, Weight: 3}, {M: 2, Weight: 0}}, []int{1, 70, 4, 40, 20}, []float64{3, 3, 0, 0, 0}},
		{"most between m4 and m40", results.Traffic{{M: 1, Weight: 5}, {M: 2, Weight: 0}, {M: 30, Weight: 1}, {M: 41, Weight: 0}},
			[]int{4, 40, 20, 1, 70}, []float64{11, 11, 11, 5, 5}},
	} {
		var ms []int
		var weights []float64
		for _, w := range seedWorth(s, Batches{1, 4, 20, 40, 70}, choices, c.traffic) {
			ms, weights = append(ms, w.m), append(weights, w.traffic)
		}
		if !slices.Equal(ms, c.ms) || !slices.Equal(weights, c.weights) {
			t.Errorf("%s: %v of traffic %v, expected %v of %v", c.name, ms, weights, c.ms, c.weights)
		}
	}
	// Without choices the gaps are between seeds, and the heavier half comes first.
	traffic := results.Traffic{{M: 1, Weight: 1}, {M: 21, Weight: 9}, {M: 40, Weight: 9}}
	s.Ms = Batches(upTo(40))
	var ms []int
	for _, w := range seedWorth(s, Batches{1, 10, 20, 30, 40}, nil, traffic) {
		ms = append(ms, w.m)
	}
	if !slices.Equal(ms, []int{1, 40, 20, 30, 10}) {
		t.Errorf("in one stretch: %v", ms)
	}
}

func TestWaiting(t *testing.T) {
	one, two := PlannedSeries{SeriesKey: worthKey(8), Ms: upTo(6), Infer: true},
		PlannedSeries{SeriesKey: worthKey(16), Ms: upTo(6), Infer: true}
	dense := PlannedSeries{SeriesKey: worthKey(32), Ms: Batches{1, 2, 6}}
	for _, c := range []struct {
		name, want string
		plan       Plan
	}{
		{"in turn", "n8m1 n16m4 n8m3 n16m6 n8m2 n16m5", Plan{}},
		{"staged", "n8m1 n16m4 n8m3 n16m6 n16m5 n32m6 n8m2 n32m1 n32m2",
			Plan{Step: 1, Traffic: results.Traffic{{M: 1, Weight: 1}, {M: 4, Weight: 5}, {M: 6, Weight: 5}}}},
	} {
		c.plan.Series = []PlannedSeries{one, two, dense}
		var got []string
		for _, c := range c.plan.waiting(Seeds{one.SeriesKey: {1, 2, 3}, two.SeriesKey: {4, 5, 6}}, nil) {
			got = append(got, fmt.Sprintf("n%dm%d", c.N, c.M))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: rows come as %s, expected %s", c.name, s, c.want)
		}
	}
}
