package diff

import "testing"

func TestDisturbedShare(t *testing.T) {
	for _, c := range []struct {
		of   Disturbed
		want float64
	}{{Disturbed{}, 0}, {Disturbed{Samples: 8}, 0}, {Disturbed{Samples: 8, Disturbed: 2}, 0.25}, {Disturbed{Samples: 3, Disturbed: 3}, 1}} {
		if got := c.of.Share(); got != c.want {
			t.Errorf("%+v: %g, expected %g", c.of, got, c.want)
		}
	}
}
