//go:build cuda

package driver

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"gorgonia.org/cu"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/management"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// Device is one GPU. It works in the device's primary context, which it shares with libraries of the same
// process.
type Device struct {
	spec kernels.Spec
	arch planning.Arch
	// cooperative launches are supported
	cooperative bool
	// card is the GPU in NVML.
	*management.Card

	handle  cu.Device
	context cu.CUContext
	code    *code
	blocks  *blocks
	spaces  workspaces
	lanes   lanes
	tables  tables
	shared  sharedWeights

	ceilings *kernels.Ceilings
	closers  []func() error // in the order of opening
	lost     error          // why the device is unusable, or nil
}

const leastCapability = 75

// Open opens the GPU of that number, in the driver's order. Its errors omit the GPU's name.
func Open(ordinal int) (d *Device, err error) {
	d = &Device{spec: kernels.Spec{ID: ID(ordinal), Kind: kernels.CUDA}}
	defer func() {
		if err != nil {
			err = errors.Join(unnamed(err), d.Close())
			d = nil
		}
	}()
	if d.handle, err = cu.GetDevice(ordinal); err != nil {
		return d, fmt.Errorf("open: %w", driver(err))
	}
	if err := d.readSpec(); err != nil {
		return d, err
	}
	if d.arch.CC < leastCapability {
		return d, fmt.Errorf("%s has compute capability %d.%d, expected at least %d.%d (Turing)",
			d.spec.Name, d.arch.CC/10, d.arch.CC%10, leastCapability/10, leastCapability%10)
	}
	if d.context, err = d.handle.RetainPrimaryCtx(); err != nil {
		return d, fmt.Errorf("create a context on %s: %w", d.spec.Name, driver(err))
	}
	leave, err := d.Enter()
	if err != nil {
		return d, err
	}
	defer leave()
	d.code = loadCode(d)
	if err := d.openBlocks(); err != nil {
		return d, err
	}
	d.OnClose(d.spaces.close)
	return d, nil
}

// Enter makes the device's context current and locks the goroutine to its thread, which owns the current
// context, until leave is called.
func (d *Device) Enter() (leave func(), err error) {
	if d.lost != nil {
		return nil, d.lost
	}
	if d.context == (cu.CUContext{}) {
		return nil, fmt.Errorf("%s is closed", d.spec.ID)
	}
	runtime.LockOSThread()
	if err := driver(cu.SetCurrentContext(d.context)); err != nil {
		runtime.UnlockOSThread()
		return nil, d.failed(err, "make the context current")
	}
	return runtime.UnlockOSThread, nil
}

// OnClose registers close to be called, with the context current, when the device is closed, in reverse
// order.
func (d *Device) OnClose(close func() error) { d.closers = append(d.closers, close) }

// Arch returns the GPU's description for planning.
func (d *Device) Arch() planning.Arch { return d.arch }

// SetVersion sets the version of a library or other component in the GPU's description.
func (d *Device) SetVersion(library, version string) { d.spec.AddVersion(library, version) }

// SetSetting sets a setting in the GPU's description.
func (d *Device) SetSetting(name, value string) { d.spec.AddSetting(name, value) }

// Spec describes the GPU.
func (d *Device) Spec() kernels.Spec { return d.spec }

// FreeMemory returns the bytes that the driver can still allocate, considering all processes.
func (d *Device) FreeMemory() (bytes int64, ok bool) {
	leave, err := d.Enter()
	if err != nil {
		return 0, false
	}
	defer leave()
	free, _, err := cu.MemInfo()
	return free, err == nil
}

// Ceilings takes the peaks from the data sheet and measures the memory at the
// first call.
func (d *Device) Ceilings(ctx context.Context) (kernels.Ceilings, error) {
	if d.ceilings == nil {
		c, err := d.measureCeilings(ctx)
		if err != nil {
			return kernels.Ceilings{}, err
		}
		d.ceilings = &c
	}
	return *d.ceilings, nil
}

// releaseContext releases the primary context. An unusable one is reset, so a later Open can get a new one if
// the driver allows it.
func (d *Device) releaseContext() error {
	if d.lost != nil {
		d.handle.ResetPrimaryCtx() // it fails like the lost device
		return nil
	}
	return driver(d.handle.ReleasePrimaryCtx())
}

// Close releases the device's resources. Owners must close buffers and weights before. If the context is
// unusable or can't be made current, Close releases only the context, which frees everything in it: the
// thread may have another device's context.
func (d *Device) Close() error {
	if d.context == (cu.CUContext{}) {
		return nil
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	told := d.lost != nil // when it happened
	var errs []error
	if !told {
		err := driver(cu.SetCurrentContext(d.context))
		for i := len(d.closers) - 1; i >= 0 && err == nil; i-- {
			errs = append(errs, d.closers[i]())
		}
		errs = append(errs, err)
	}
	errs = append(errs, d.releaseContext())
	d.closers, d.context = nil, cu.CUContext{}
	if told {
		return nil
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close %s: %w", d.spec.ID, err)
	}
	return nil
}
