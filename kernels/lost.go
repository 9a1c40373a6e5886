package kernels

import (
	"context"
	"errors"
)

// ErrDeviceLost is wrapped by errors of [Device.Execute] and [Device.Alloc] after
// which nothing on the device works any more until it is opened again: a GPU
// that fell off the bus, a context destroyed by a fault. What was measured
// before it stays good, and a sweep can be resumed.
var ErrDeviceLost = errors.New("device lost")

// MemoryTeller is implemented by devices that know how much of their memory is
// free right now, in bytes. Others are taken to have all of [Spec].MemoryBytes.
type MemoryTeller interface {
	FreeMemory() (bytes int64, ok bool)
}

// FreeMemory is what can be taken of a device's memory, in bytes, as well as it can be
// known: false when the device tells nothing.
func FreeMemory(d Device) (bytes int64, known bool) {
	if t, ok := d.(MemoryTeller); ok {
		if free, ok := t.FreeMemory(); ok {
			return free, true
		}
	}
	total := d.Spec().MemoryBytes
	return total, total != 0
}

// BandwidthMeter is implemented by devices that measure their memory as often as they are
// asked to, where [Device.Ceilings] does it once: what other work leaves of it changes.
type BandwidthMeter interface {
	// Bandwidth is that of reading and of copying, as in [Ceilings].
	Bandwidth(ctx context.Context) (read, copied float64, err error)
}

// Threaded is implemented by devices that run on threads of the host.
type Threaded interface {
	// Threads is how many there are.
	Threads() int
	// WithThreads opens the device once more, on fewer threads: 1 to Threads of them.
	WithThreads(n int) (Device, error)
}

// Primer is implemented by devices on which the first run of a product takes what
// later ones don't, such as loading code, so that [Device.Execute] would run it once
// more ahead of the block.
type Primer interface {
	// Prime runs l once unless one like it has run. seconds is what that took, what
	// only a first run takes included; 0 when nothing ran. Errors are Execute's.
	Prime(ctx context.Context, l Launch) (seconds float64, err error)
}
