package fitting

import (
	"math"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/candidates"
)

func TestPicks(t *testing.T) {
	of := func(m int, d kernels.DType, held bool, seconds ...float64) *group {
		g := &group{c: candidates.Case{Subject: kernels.Product(d, 4096, 4096), M: m}, held: held}
		for _, s := range seconds {
			g.times = append(g.times, measured{log: math.Log(s)})
		}
		return g
	}
	groups := []*group{
		of(1, kernels.BF16, true, 1, 1.005), of(16, kernels.INT8, true, 1, 1.2), of(17, kernels.BF16, true, 1, 1.1),
		of(2048, kernels.FP8, false, 1, 2),
	}
	second := expectation{pick: 1}
	before, after := []expectation{second, second, second, second}, []expectation{second, {}, second, {}}
	got := picks(groups, before, after, true)
	want := []Picks{
		{"all", Losses{3, 1, 0.305 / 3, 0.2, 0.2}, Losses{3, 2, 0.105 / 3, 0.1, 0.1}},
		{"m 1 to 16", Losses{2, 1, 0.205 / 2, 0.2, 0.2}, Losses{2, 2, 0.005 / 2, 0.005, 0.005}},
		{"m 17 to 64", Losses{1, 0, 0.1, 0.1, 0.1}, Losses{1, 0, 0.1, 0.1, 0.1}},
		{"bf16", Losses{2, 1, 0.105 / 2, 0.1, 0.1}, Losses{2, 1, 0.105 / 2, 0.1, 0.1}},
		{"int8", Losses{1, 0, 0.2, 0.2, 0.2}, Losses{1, 1, 0, 0, 0}},
	}
	if len(got) != len(want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	same := func(a, b Losses) bool {
		return a.Cases == b.Cases && a.Close == b.Close && math.Abs(a.Mean-b.Mean)+math.Abs(a.P99-b.P99)+math.Abs(a.Worst-b.Worst) < 1e-9
	}
	for i, w := range want {
		if g := got[i]; g.Kind != w.Kind || !same(g.Before, w.Before) || !same(g.After, w.After) {
			t.Errorf("got %+v, want %+v", g, w)
		}
	}
	if rest := picks(groups, before, after, false); len(rest) != 3 || rest[1].Kind != "m 2048 and up" || rest[1].Before.Worst != 1 ||
		rest[1].After.Share() != 1 {
		t.Errorf("not held out: %+v", rest)
	}
	many := make([]float64, 200)
	many[7], many[8], many[9] = 3, 2, 1
	if l := losses(many); l.P99 != 1 || l.Worst != 3 || l.Close != 197 {
		t.Errorf("%+v", l)
	}
	if (losses(nil) != Losses{}) || (Losses{}).Share() != 0 {
		t.Error("no cases have losses")
	}
}
