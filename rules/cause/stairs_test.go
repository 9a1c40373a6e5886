package cause

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gemmaudit/gemmaudit/rules/infer"
	"github.com/gemmaudit/gemmaudit/rules/synthetic"
)

// A step one row off the multiples of the other steps is not part of their period.
func TestStepBesideThePeriod(t *testing.T) {
	const period = 64
	ends := func(m int) float64 { // steps at multiples, but one row early behind m511
		if m == 512 {
			m++
		}
		return math.Ceil(float64(m) / period)
	}
	data := synthetic.ByM(func(m int) float64 { return 5 + 100*ends(m) }, synthetic.Gaussian(0.0005), rand.New(rand.NewPCG(5,
		1))).Sweep(synthetic.Grid(1, 640, 1), 5)
	c := infer.Prepare(data, usual).Curves[0]
	for _, tc := range []struct {
		m     int
		cause Kind
		why   string
	}{
		{449, TileQuantization, "at multiples of 64"},
		{512, "", "the time steps up by 12.4 % after m511, which is not a multiple of 64"},
	} {
		at, _ := c.At(tc.m)
		w := &Witness{Curve: c, At: at, Row: c.Points[at], Reference: c.Points[at-1],
			Loss: 0.1}
		if cause, why := w.steps(); cause != tc.cause || !strings.Contains(why, tc.why) {
			t.Errorf("m%d: %q: %s, want %q: %s", tc.m, cause, why, tc.cause, tc.why)
		}
	}
}
