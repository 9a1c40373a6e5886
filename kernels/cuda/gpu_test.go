//go:build cuda

package cuda

import (
	"sync"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

var openAll = sync.OnceValues(func() ([]kernels.Device, []kernels.Missing) { return Provider{}.Open() })

func gpu(t testing.TB) *Device {
	t.Helper()
	devices, missing := openAll()
	if len(devices) == 0 {
		t.Skipf("no GPU here: %s", missing[0].Reason)
	}
	return devices[0].(*Device)
}
