package infer

import "testing"

// A likely unit makes the fastest row possible, and at least a hundredth of the peak.
func TestLikelyUnit(t *testing.T) {
	for _, c := range []struct {
		over float64
		want string
	}{
		{1.5, ""}, {9, ""}, {10, "milliseconds"}, {700, "milliseconds"}, {1000, "milliseconds"},
		{1001, ""}, {10_000, "seconds"}, {1e6, "seconds"}, {1.1e6, ""},
	} {
		if got := LikelyUnit(c.over); got.name != c.want {
			t.Errorf("%g times too fast: %q, expected %q", c.over, got.name, c.want)
		}
	}
}
