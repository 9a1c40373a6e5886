package simulated

import (
	"errors"
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

var (
	_ kernels.LaunchCopier = (*Device)(nil)
	_ kernels.TimesOnly    = (*Device)(nil)
)

// TimesOnly implements [kernels.TimesOnly]: nothing is computed here.
func (d *Device) TimesOnly() bool { return true }

const (
	// copyKernel is no kernel that a sweep finds.
	copyKernel = "copy"
	// copyOverhead is what a copy takes beside its bytes, in seconds, and copyWatts what it draws.
	copyOverhead, copyWatts = 1.5e-6, 290
	// copyBeta is how much of its time follows the clock.
	copyBeta = 0.1
)

// CopySeconds is the true time of a copy of so many bytes at NominalClockMHz.
func CopySeconds(bytes int64) float64 { return copyOverhead + 2*float64(bytes)/bandwidth }

// CopyElasticity is β of a copy.
func CopyElasticity() float64 { return copyBeta }

// BindCopy implements [kernels.LaunchCopier].
func (d *Device) BindCopy(to kernels.Buffer, toOffset int64, from kernels.Buffer, fromOffset, bytes int64) (kernels.Launch, error) {
	target, toOK := to.(*buffer)
	source, fromOK := from.(*buffer)
	if !toOK || !fromOK {
		return nil, fmt.Errorf("%s: a copy between buffers of another device", DeviceID)
	}
	if err := errors.Join(target.Within(toOffset, bytes), source.Within(fromOffset, bytes)); err != nil {
		return nil, fmt.Errorf("%s: copy: %w", DeviceID, err)
	}
	if to == from && toOffset < fromOffset+bytes && fromOffset < toOffset+bytes {
		return nil, fmt.Errorf("%s: copy %d bytes from byte %d to byte %d of one buffer: they overlap", DeviceID, bytes, fromOffset, toOffset)
	}
	key := place{copyKernel, int(bytes)}
	r := d.rows[key]
	if r == nil {
		r = &row{kernel: copyKernel, seconds: CopySeconds(bytes), beta: copyBeta, watts: copyWatts, id: mix(hashName(copyKernel), uint64(bytes)), label: copyKernel}
		d.rows[key] = r
	}
	return &launch{device: d, row: r}, nil
}
