package kernels

import (
	"errors"
)

// ErrDeviceLost is wrapped by errors of [Device.Execute] and [Device.Alloc] after
// which nothing on the device works any more until it is opened again: a GPU
// that fell off the bus, a context destroyed by a fault. What was measured
// before it stays good, and a sweep can be resumed.
var ErrDeviceLost = errors.New("device lost")

// ErrContextLost is an [ErrDeviceLost] that what ran on the device has brought about: an illegal
// address, a launch that failed. The device itself is sound, and a new process can use it. It is
// wrapped in place of ErrDeviceLost, which errors.Is finds in it too.
var ErrContextLost error = contextLost{}

type contextLost struct{}

func (contextLost) Error() string        { return ErrDeviceLost.Error() }
func (contextLost) Is(target error) bool { return target == ErrDeviceLost }

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
