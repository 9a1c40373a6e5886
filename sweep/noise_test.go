package sweep

import (
	"strings"
	"testing"
)

func TestNoiseFloorOfNothing(t *testing.T) {
	d := declared(nil)
	m := newMeasurer(t, d, nil, nil)
	for _, c := range []struct{ pairs, rounds int }{{0, 3}, {3, 0}, {-1, 3}} {
		_, err := m.NoiseFloor(t.Context(), simCase(8), c.pairs, c.rounds, func(a, b []float64) bool { return false })
		if err == nil || !strings.Contains(err.Error(), "expected at least 1") {
			t.Errorf("%d pairs of %d rounds: %v", c.pairs, c.rounds, err)
		}
	}
	if _, blocks := d.Busy(); blocks > 0 {
		t.Errorf("%d blocks ran", blocks)
	}
}
