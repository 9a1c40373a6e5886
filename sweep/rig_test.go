package sweep

import (
	"testing"
	"time"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// testRig is a rig on a device that always answers.
func testRig(t *testing.T, d kernels.Device, dist kernels.Distribution, seed uint64, target time.Duration, least int) *rig {
	t.Helper()
	b, err := newRig(d, dist, seed, target, least, 0)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
