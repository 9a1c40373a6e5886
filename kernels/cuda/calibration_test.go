package cuda

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/calibration"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/cudatest"
)

// Every calibrated card has each model that planners read, and no other. The plans of [TestPlansAreKept] and
// of attention read all of them.
func TestCalibratedModels(t *testing.T) {
	want := []string{"attention", "attention_decode", "common", "flash", "flash_hopper", "gemv", "hopper", "hopper_narrow", "mma"}
	cards := calibration.Cards()
	for _, c := range cards {
		for _, name := range want {
			if _, ok := c.Models[name]; !ok {
				t.Errorf("%s has no model %s", c.Card, name)
			}
		}
		if len(c.Models) != len(want) {
			t.Errorf("%s has %d models, want %d", c.Card, len(c.Models), len(want))
		}
	}
	if a, c := cudatest.H200, cards[0]; c.Capability != a.CC || c.SMs != a.SMs || c.Bandwidth != a.Bandwidth {
		t.Errorf("the reference is of %d with %d multiprocessors and %.4g B/s", c.Capability, c.SMs, c.Bandwidth)
	}
}
