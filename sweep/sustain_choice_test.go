package sweep

import (
	"reflect"
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

func TestAffordable(t *testing.T) {
	c := func(m int, parts ...int) results.Case {
		return results.Case{SeriesKey: results.SeriesKey{Device: "sim", Kernel: "lib", Subject: kernels.Product(kernels.BF16, 64, 64)},
			M: m, Parts: parts}
	}
	all := [][]results.Case{{c(64), c(32)}, {c(64), c(64, 16, 48)}, {c(96)}, {c(128), c(32)}}
	for _, tc := range []struct {
		cases int // cases that fit in the time
		want  []results.Case
		left  int
	}{
		{0, []results.Case{c(64), c(32)}, 3}, // the first one always fits
		{2, []results.Case{c(64), c(32)}, 3},
		{3, []results.Case{c(64), c(32), c(64, 16, 48)}, 2}, // m64 runs once for both
		{4, []results.Case{c(64), c(32), c(64, 16, 48), c(96)}, 1},
		{5, []results.Case{c(64), c(32), c(64, 16, 48), c(96), c(128)}, 0},
	} {
		got := Affordable(all, time.Duration(tc.cases)*SustainTime)
		if !reflect.DeepEqual(got, tc.want) {
			t.Errorf("time for %d: %v, expected %v", tc.cases, got, tc.want)
		}
		samples := make([]results.Sample, len(got))
		for i := range samples {
			samples[i].Launches = 10
		}
		if left := NotSustained(all, got, samples); left != tc.left {
			t.Errorf("time for %d: %d left out, expected %d", tc.cases, left, tc.left)
		}
		samples[0].Launches = 0 // m64 failed; two elements depend on it
		if left := NotSustained(all[:1], got, samples); left != 1 {
			t.Errorf("time for %d: a failed case leaves out %d", tc.cases, left)
		}
		if left := NotSustained(all[:1], got, nil); left != 1 {
			t.Errorf("time for %d: no samples leave out %d", tc.cases, left)
		}
	}
}
