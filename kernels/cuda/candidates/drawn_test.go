package candidates

import (
	"iter"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
)

func first(all iter.Seq[Case], n int) []Case {
	var some []Case
	for c := range all {
		if some = append(some, c); len(some) == n {
			break
		}
	}
	return some
}

func TestDrawn(t *testing.T) {
	const n = 1200
	drawn := first(Drawn(1), n)
	if !slices.Equal(first(Drawn(1), n), drawn) || slices.Equal(first(Drawn(2), n), drawn) {
		t.Error("what is drawn does not follow from the seed")
	}
	seen := map[Case]bool{}
	counts := map[string]int{}
	for _, c := range drawn {
		if err := c.Validate(); err != nil || seen[c] {
			t.Fatalf("%v: %v, drawn before: %v", c, err, seen[c])
		}
		seen[c] = true
		for _, side := range []int{c.N, c.K} {
			if side < 512 || side > 16384 || side%64 != 0 {
				t.Errorf("%v: side %d", c, side)
			}
		}
		if c.M < 1 || c.M > 16384 {
			t.Errorf("%v: %d rows", c, c.M)
		}
		count := func(name string, of bool) {
			if of {
				counts[name]++
			}
		}
		counts[string(c.DType)]++
		count("small", c.M <= 1024)
		count("odd", c.M > 64 && c.M%2 == 1)
		count("single", c.M == 1)
		count("large", c.M > 8192)
		count("narrow", c.N < 1024)
		count("wide", c.N > 8192)
		count("kn", c.Layout == kernels.RowMajor)
	}
	for name, want := range map[string][2]float64{
		"bf16": {.25, .25}, "fp16": {.25, .25}, "int8": {.25, .25}, "fp8": {.25, .25},
		"small": {.86, .93}, "odd": {.2, .3}, "single": {.06, .13}, "large": {.01, .05}, "narrow": {.08, .18}, "wide": {.3, .42},
		"kn": {.13, .2},
	} {
		if share := float64(counts[name]) / n; share < want[0] || share > want[1] {
			t.Errorf("%.3f of the cases are %s, expected %v", share, name, want)
		}
	}
	for _, c := range drawn[:60] {
		some := 0
		for _, f := range Families(c.Operation) {
			all, err := Expect(cudatest.H200, c, f)
			if err != nil {
				t.Fatal(err)
			}
			some += len(all)
		}
		if some == 0 {
			t.Errorf("%v: no family takes it", c)
		}
	}
}
