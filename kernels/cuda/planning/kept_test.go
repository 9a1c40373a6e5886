package planning

import "testing"

func TestKept(t *testing.T) {
	var k Kept[int, int]
	chosen := 0
	ask := func(p int) int { return k.Choice(p, func() int { chosen++; return chosen }) }
	if ask(1) != 1 || ask(2) != 2 || ask(1) != 1 || chosen != 2 {
		t.Errorf("chosen %d times", chosen)
	}
	for p := range KeptPlans + 10 {
		ask(p)
	}
	if len(k.choices) > KeptPlans {
		t.Errorf("%d choices are remembered", len(k.choices))
	}
}
