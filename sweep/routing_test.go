package sweep

import (
	"context"
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/simulated"
)

// Each grouped product is planned once for each routing; other products, and shapes with a routing, once in all.
func TestPlansOfSeveralRoutings(t *testing.T) {
	table := kernels.RecordedRouting{Groups: 8, Rows: map[int][]int{6: {6, 0, 0, 0, 0, 0, 0, 0}}}
	hash, err := table.Register()
	if err != nil {
		t.Fatal(err)
	}
	even, drawn := Routing{Even: true}, Routing{Skew: 100, Draw: 1}
	recorded := Routing{Recorded: table, Hash: hash}
	size := func(d kernels.Dims) kernels.Dims {
		d.N, d.K, d.Groups = 256, 128, 8
		return d
	}
	both := size(kernels.Dims{TopK: 2, Skew: 100, Draw: 1})
	for _, c := range []struct {
		shape    string
		routings []Routing
		topK     int
		want     []kernels.Dims
		ms       []int // of the last
		tables   int
	}{
		{shape: "n256k128g8", want: []kernels.Dims{both}, ms: []int{4, 6}},
		{shape: "n256k128g8", routings: []Routing{even, drawn}, want: []kernels.Dims{size(kernels.Dims{}), both}, ms: []int{4, 6}},
		{shape: "n256k128g8", routings: []Routing{drawn, even, drawn}, topK: 4,
			want: []kernels.Dims{size(kernels.Dims{}), size(kernels.Dims{TopK: 4, Skew: 100, Draw: 1})}, ms: []int{4, 6}},
		{shape: "n256k128g8t2s100d1", routings: []Routing{even, drawn}, want: []kernels.Dims{both}, ms: []int{4, 6}},
		{shape: "n256k128g8", routings: []Routing{even, recorded},
			want: []kernels.Dims{size(kernels.Dims{}), size(kernels.Dims{Routing: hash})}, ms: []int{6}, tables: 1},
		{shape: "n256k128", routings: []Routing{even, drawn}, want: []kernels.Dims{{N: 256, K: 128}}, ms: []int{4, 6}},
	} {
		target, err := ParseTarget(OperationOf(c.shape), c.shape)
		if err != nil {
			t.Fatal(err)
		}
		d := simulated.New(simulated.Config{Gemms: []simulated.KernelConfig{{Name: "flat", Cost: simulated.Linear(1e12, 1e-5)}}})
		plan, err := NewPlan(context.Background(), []kernels.Device{d}, Options{Preset: "standard", Targets: []Target{target},
			DTypes: []kernels.DType{kernels.BF16}, Batches: Batches{4, 6}, Routings: c.routings, TopK: c.topK}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []kernels.Dims
		for _, s := range plan.Series {
			if len(got) == 0 || got[len(got)-1] != s.Dims {
				got = append(got, s.Dims)
			}
		}
		slices.SortFunc(got, func(a, b kernels.Dims) int { return a.TopK + int(min(1, a.Routing)) - b.TopK - int(min(1, b.Routing)) })
		got = slices.Compact(got)
		last := plan.Series[slices.IndexFunc(plan.Series, func(s PlannedSeries) bool { return s.Dims == got[len(got)-1] })]
		if !slices.Equal(got, c.want) || !slices.Equal([]int(last.Ms), c.ms) || len(plan.Routings) != c.tables {
			t.Errorf("%s with %v: %v at %v and %d tables, expected %v at %v", c.shape, c.routings, got, last.Ms, len(plan.Routings),
				c.want, c.ms)
		}
	}
}
