package trust

import (
	"context"
	"testing"

	"github.com/gemmaudit/gemmaudit/rules"
)

func TestSmoke(t *testing.T) {
	r, err := Run(context.Background(), Options{Machines: 14, Seed: 1, Config: rules.Default(), Worst: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range r.Kinds {
		t.Log(k.Name, k.Machines, k.Samples, k.Detection, k.Promised, k.Predicted, k.Remedies)
		for _, x := range k.Rates {
			t.Logf("   %-24s %d/%d  ≤%.4f %v", x.Measure, x.Hits, x.Of, x.Upper, x.Broken)
		}
	}
	for _, o := range r.Worst {
		t.Logf("%+v", o)
	}
}
