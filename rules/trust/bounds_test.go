package trust

import (
	"context"
	"testing"

	"github.com/gemmaudit/gemmaudit/rules"
)

// With eight machines of each kind, the upper limits over all kinds together must meet their bounds, and the
// lower limits per kind. make trust simulates 1000.
func TestBounds(t *testing.T) {
	if testing.Short() {
		t.Skip("a hundred machines; TestRepeatable simulates three")
	}
	t.Parallel()
	r, err := Run(context.Background(), Options{Machines: 8 * len(Kinds()), Seed: 1, Config: rules.Default(), Worst: 3})
	if err != nil {
		t.Fatal(err)
	}
	type pool struct {
		m     Measure
		bound float64
	}
	pooled, broken := map[pool]*Count{}, map[Measure]bool{}
	for _, k := range r.Kinds {
		for _, rate := range k.Rates {
			if rate.Bound == 0 {
				continue
			}
			if rate.lowerAt(statedLevel) > rate.Bound {
				broken[rate.Measure] = true
				t.Errorf("%s under %s: %d of %d, at least %.4f, bound %g", rate.Measure, k.Name, rate.Hits, rate.Of, rate.Lower, rate.Bound)
			}
			c := at(pooled, pool{rate.Measure, rate.Bound})
			c.Hits += rate.Hits
			c.Of += rate.Of
		}
	}
	for p, c := range pooled {
		if rate := newRate("all kinds", p.m, *c, p.bound); rate.Broken || rate.Thin {
			broken[p.m] = true
			t.Errorf("%s over all kinds: %d of %d, at most %.4f, bound %g", p.m, c.Hits, c.Of, rate.Upper, p.bound)
		}
	}
	for _, o := range r.Worst {
		if broken[o.Measure] {
			t.Logf("%+v", o)
		}
	}
}
