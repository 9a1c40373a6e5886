//go:build cuda

package cuda

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"gorgonia.org/cu"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Device is one GPU. It works in the device's primary context, which libraries of
// the same process share.
type Device struct {
	spec kernels.Spec
	arch arch
	// card is what NVML knows of the GPU.
	*card

	handle  cu.Device
	context cu.CUContext
	code    *code
	blocks  *blocks
	spaces  workspaces
	shared  sharedWeights

	gemms    []kernels.Gemm
	missing  []kernels.Missing
	ceilings *kernels.Ceilings
	closers  []func() error // in the order of opening
	lost     error          // why nothing works any more, nil while it does
}

// libraries make the subjects that stand beside our kernels, or say why one is
// missing. Each library's file puts its own in. What a library holds is released
// by functions that it passes to [Device.onClose].
var libraries []func(*Device) ([]kernels.Gemm, []kernels.Missing)

// leastCapability is the oldest compute capability × 10 that kernels are built for.
const leastCapability = 75

// openDevice opens one GPU and finds what runs on it.
func openDevice(ordinal int) (d *Device, err error) {
	d = &Device{spec: kernels.Spec{ID: deviceID(ordinal), Kind: kernels.CUDA}}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
			d = nil
		}
	}()
	if d.handle, err = cu.GetDevice(ordinal); err != nil {
		return d, fmt.Errorf("open: %w", driver(err))
	}
	if err := d.readSpec(); err != nil {
		return d, err
	}
	if d.arch.cc < leastCapability {
		return d, fmt.Errorf("%s has compute capability %d.%d, expected at least %d.%d (Turing)",
			d.spec.Name, d.arch.cc/10, d.arch.cc%10, leastCapability/10, leastCapability%10)
	}
	if d.context, err = d.handle.RetainPrimaryCtx(); err != nil {
		return d, fmt.Errorf("create a context on %s: %w", d.spec.Name, driver(err))
	}
	leave, err := d.enter()
	if err != nil {
		return d, err
	}
	defer leave()
	d.code = loadCode(d)
	if err := d.openBlocks(); err != nil {
		return d, err
	}
	d.onClose(d.spaces.close)
	d.gemms, d.missing = ladder(d)
	for _, open := range libraries {
		gemms, missing := open(d)
		d.gemms = append(d.gemms, gemms...)
		d.missing = append(d.missing, missing...)
	}
	return d, nil
}

// enter makes the device's context current and keeps the goroutine on its thread,
// to which the context belongs, until leave is called.
func (d *Device) enter() (leave func(), err error) {
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

// onClose has close called, with the context current, when the device is closed:
// the last one first.
func (d *Device) onClose(close func() error) { d.closers = append(d.closers, close) }

// Spec describes the GPU.
func (d *Device) Spec() kernels.Spec { return d.spec }

// Gemms lists the kernels that run here, ours first.
func (d *Device) Gemms() []kernels.Gemm { return d.gemms }

// Missing lists the kernels and libraries that don't, with reasons.
func (d *Device) Missing() []kernels.Missing { return d.missing }

// Telemetry is the card's power, temperature and throttle reasons.
func (d *Device) Telemetry() kernels.Telemetry { return d.telemetry() }

// FreeMemory is what the driver could still allocate, all processes considered.
func (d *Device) FreeMemory() (bytes int64, ok bool) {
	leave, err := d.enter()
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

// releaseContext gives the primary context back. One that is unusable is reset, so
// that a later opening finds a new one where the driver can make it.
func (d *Device) releaseContext() error {
	if d.lost != nil {
		d.handle.ResetPrimaryCtx() // its errors are those of the loss
		return nil
	}
	return driver(d.handle.ReleasePrimaryCtx())
}

// Close releases what the device holds. Buffers and weights are closed by their
// owners before. Where the context is unusable or can't be made current, only that
// itself is released, and all the rest goes with it: the thread may have another
// device's context.
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
