//go:build cuda

package driver

import (
	"errors"
	"fmt"
	"slices"

	"gorgonia.org/cu"
)

// workspaces are common to all launches of one device, which run in sequence but for those of lanes. Bound launches keep
// their addresses, so an outgrown workspace stays allocated until the device is closed.
type workspaces struct {
	scratch, flags []workspace
	lanes          [Lanes - 1][]workspace // of all but the first
}

type workspace struct {
	address uint64
	bytes   int64
}

// The minimum sizes of workspaces. Larger ones grow by at least half, which keeps outgrown ones below twice
// the size in use.
const (
	leastScratch = 16 << 20
	leastFlags   = 1 << 20
)

func workspaceBytes(bytes, have, least int64) int64 {
	const granule = 2 << 20 // the driver's mapping granularity
	size := max(bytes, least, have+have/2)
	return (size + granule - 1) / granule * granule
}

// Scratch returns the address of a workspace with undefined content.
func (d *Device) Scratch(bytes int64) (uint64, error) {
	return d.workspace(&d.spaces.scratch, bytes, leastScratch, false)
}

// Flags returns the address of a workspace that holds zeros between launches.
func (d *Device) Flags(bytes int64) (uint64, error) {
	return d.workspace(&d.spaces.flags, bytes, leastFlags, true)
}

func (d *Device) workspace(have *[]workspace, bytes, least int64, zeroed bool) (uint64, error) {
	if bytes == 0 {
		return 0, nil
	}
	var largest workspace
	if n := len(*have); n > 0 {
		largest = (*have)[n-1]
	}
	if largest.bytes >= bytes {
		return largest.address, nil
	}
	leave, err := d.Enter()
	if err != nil {
		return 0, err
	}
	defer leave()
	if b := d.blocks; b != nil {
		// A block in flight would time the allocation and clearing; its events stay.
		if err := driver(b.stream.Synchronize()); err != nil {
			return 0, d.failed(err, "wait for blocks in flight")
		}
	}
	size := workspaceBytes(bytes, largest.bytes, least)
	address, err := cu.MemAlloc(size)
	if err != nil && size > bytes { // the requested size may still fit
		size = bytes
		address, err = cu.MemAlloc(size)
	}
	if err != nil {
		return 0, d.failed(driver(err), "allocate a workspace of %d bytes", bytes)
	}
	if zeroed {
		err := cu.MemsetD8(address, 0, size)
		if err == nil {
			err = cu.Synchronize()
		}
		if err != nil {
			return 0, errors.Join(d.failed(driver(err), "clear a workspace of %d bytes", size), driver(cu.MemFree(address)))
		}
	}
	*have = append(*have, workspace{uint64(address), size})
	return uint64(address), nil
}

// close needs the device's context to be current.
func (w *workspaces) close() error {
	var errs []error
	for _, s := range slices.Concat(append(w.lanes[:], w.scratch, w.flags)...) {
		if err := driver(cu.MemFree(cu.DevicePtr(s.address))); err != nil {
			errs = append(errs, fmt.Errorf("free a workspace of %d bytes: %w", s.bytes, err))
		}
	}
	*w = workspaces{}
	return errors.Join(errs...)
}
