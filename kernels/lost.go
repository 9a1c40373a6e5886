package kernels

import (
	"errors"
)

// ErrDeviceLost is wrapped by errors of [Device.Execute] and [Device.Alloc] after which the device is
// unusable until reopened: a GPU fell off the bus, or a fault destroyed its context. Earlier results stay
// valid, and a sweep can be resumed.
var ErrDeviceLost = errors.New("device lost")

// ErrContextLost is an [ErrDeviceLost] caused by the launched work: an illegal address, a failed launch. The
// device is sound and a new process can use it. It replaces ErrDeviceLost, which errors.Is also finds in it.
var ErrContextLost error = contextLost{}

type contextLost struct{}

func (contextLost) Error() string        { return ErrDeviceLost.Error() }
func (contextLost) Is(target error) bool { return target == ErrDeviceLost }

// ErrProcessLost is wrapped by errors of a kernel's calls that ended the process of an [Elsewhere] kernel: it crashed,
// hung, or lost its device. The device stays usable, and the process starts again at the next call.
var ErrProcessLost = errors.New("process lost")

// FreeMemory returns the best estimate of a device's available memory in bytes; false if unknown.
func FreeMemory(d Device) (bytes int64, known bool) {
	if t, ok := d.(MemoryTeller); ok {
		if free, ok := t.FreeMemory(); ok {
			return free, true
		}
	}
	total := d.Spec().MemoryBytes
	return total, total != 0
}
