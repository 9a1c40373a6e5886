package planning

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
)

// What was chosen is remembered, up to a number, until other constants are in force.
func TestKept(t *testing.T) {
	var k Kept[int, int]
	chosen := 0
	ask := func(p int) int { return k.Choice(p, func() int { chosen++; return chosen }) }
	if ask(1) != 1 || ask(2) != 2 || ask(1) != 1 || chosen != 2 {
		t.Errorf("chosen %d times", chosen)
	}
	cards, err := calibration.Cards()
	if err != nil {
		t.Fatal(err)
	}
	c := cards[0].Clone()
	c.SMs = 7
	if err := calibration.Use(c); err != nil {
		t.Fatal(err)
	}
	if ask(1) != 3 || ask(1) != 3 {
		t.Error("what was chosen by other constants is remembered")
	}
	calibration.Drop(c.Capability, c.SMs, c.Bandwidth)
	if ask(1) != 4 || ask(1) != 4 {
		t.Error("what was chosen by constants that are dropped is remembered")
	}
	for p := range KeptPlans + 10 {
		ask(p)
	}
	if len(k.choices) > KeptPlans {
		t.Errorf("%d choices are remembered", len(k.choices))
	}
}
