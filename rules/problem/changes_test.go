package problem

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/rules"
)

// A problem is new or gone only if the other run measured its sizes.
func TestCompare(t *testing.T) {
	lt, other := key("cuda:0", "cublaslt", 1024), key("cuda:0", "cublaslt", 8192)
	both, _ := machine(lt, other)
	one, _ := machine(lt)
	at := func(n, from, to int, status rules.Status) *Problem {
		p := &Problem{Kernels: []string{"cublaslt"}, FromM: from, ToM: to, Status: status}
		p.Place = (&finder{names: deviceNames(both)}).place(key("cuda:0", "cublaslt", n))
		return p
	}
	for _, c := range []struct {
		name            string
		a, b            Side
		new, gone, same int
	}{
		{name: "none", a: Side{Data: both}, b: Side{Data: both}},
		{name: "overlap", a: Side{both, []*Problem{at(1024, 320, 352, rules.Confirmed)}},
			b: Side{both, []*Problem{at(1024, 352, 384, rules.Confirmed)}}, same: 1},
		{name: "apart", a: Side{both, []*Problem{at(1024, 320, 352, rules.Confirmed)}},
			b: Side{both, []*Problem{at(1024, 416, 448, rules.Confirmed)}}, new: 1, gone: 1},
		{name: "a product that A did not measure", a: Side{Data: one}, b: Side{both, []*Problem{at(8192, 352, 352, rules.Confirmed)}}},
		{name: "sizes that B did not measure", a: Side{both, []*Problem{at(1024, 5000, 5001, rules.Confirmed)}}, b: Side{Data: both}},
		{name: "suspected in B", a: Side{Data: both}, b: Side{both, []*Problem{at(1024, 352, 352, rules.Suspected)}}},
		{name: "suspected in both", a: Side{both, []*Problem{at(1024, 352, 352, rules.Suspected)}},
			b: Side{both, []*Problem{at(1024, 352, 352, rules.Suspected)}}, same: 1},
	} {
		got := Compare(c.a, c.b)
		if len(got.New) != c.new || len(got.Gone) != c.gone || got.Same != c.same {
			t.Errorf("%s: %d new, %d gone, %d the same, want %d, %d, %d", c.name, len(got.New), len(got.Gone), got.Same, c.new, c.gone,
				c.same)
		}
	}
}
