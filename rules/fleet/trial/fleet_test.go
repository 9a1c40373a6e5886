package trial

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/rules/fleet"
)

func TestSmoke(t *testing.T) {
	for _, kind := range []fleet.Kind{fleet.AllCases, fleet.Clock, fleet.Thermal, fleet.Power, fleet.Memory, fleet.Kernel} {
		cfg := Default(8, 1)
		depth := 0.03
		if kind == fleet.Clock || kind == fleet.Thermal || kind == fleet.Power {
			depth = 0.08
		}
		cfg.Faults = map[int]Fault{3: {Kind: kind, Depth: depth}}
		r := New(cfg).Judge(fleet.Default(), nil)
		for _, c := range r.Cards[:2] {
			t.Logf("%s: %s %s %s: %s (p %.2g, adj %.2g)", kind, c.Card, c.Verdict, c.Kind, c.Reason, c.P, c.AdjustedP)
		}
		g := r.Groups[0]
		t.Logf("card %.4f process %.4f sustained %.4f %.4f drift %v; slow cases %d", *g.Common.Card, *g.Common.Process, *g.Sustained.Card, *g.Sustained.Process, g.Drift, r.Cards[0].SlowCases)
	}
}
