//go:build cuda

package driver

// #include <cuda.h>
import "C"

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/gemmaudit/gemmaudit/kernels"
)

type driverError struct{ code C.CUresult }

// Error returns the driver's description and name of the error.
func (e *driverError) Error() string {
	var name, text *C.char
	C.cuGetErrorName(e.code, &name)
	C.cuGetErrorString(e.code, &text)
	if name == nil || text == nil {
		return fmt.Sprintf("driver error %d", int(e.code))
	}
	return fmt.Sprintf("%s (%s)", C.GoString(text), C.GoString(name))
}

// driver converts errors of gorgonia.org/cu, whose type is not exported, to ones with the driver's
// description.
func driver(err error) error {
	if err == nil {
		return nil
	}
	if v := reflect.ValueOf(err); v.Kind() == reflect.Int {
		return result(C.CUresult(v.Int()))
	}
	return err
}

func result(code C.CUresult) error {
	if code == C.CUDA_SUCCESS {
		return nil
	}
	return &driverError{code}
}

// sticky lists the errors that make the context unusable: every later call on it returns the same error. Those
// that are true are the fault of the code that ran, not of the GPU.
var sticky = map[C.CUresult]bool{
	C.CUDA_ERROR_DEINITIALIZED: false, C.CUDA_ERROR_DEVICE_UNAVAILABLE: false, C.CUDA_ERROR_ECC_UNCORRECTABLE: false,
	C.CUDA_ERROR_NVLINK_UNCORRECTABLE: false, C.CUDA_ERROR_CONTAINED: false, C.CUDA_ERROR_CONTEXT_IS_DESTROYED: false,
	C.CUDA_ERROR_MPS_CLIENT_TERMINATED: false, C.CUDA_ERROR_EXTERNAL_DEVICE: false, C.CUDA_ERROR_UNKNOWN: false,
	C.CUDA_ERROR_ILLEGAL_ADDRESS: true, C.CUDA_ERROR_LAUNCH_TIMEOUT: true, C.CUDA_ERROR_ASSERT: true,
	C.CUDA_ERROR_HARDWARE_STACK_ERROR: true, C.CUDA_ERROR_ILLEGAL_INSTRUCTION: true, C.CUDA_ERROR_MISALIGNED_ADDRESS: true,
	C.CUDA_ERROR_INVALID_ADDRESS_SPACE: true, C.CUDA_ERROR_INVALID_PC: true, C.CUDA_ERROR_LAUNCH_FAILED: true,
}

// unusable returns the error of a device whose context err makes unusable, or nil.
func unusable(err error) error {
	e, ok := errors.AsType[*driverError](err)
	if !ok {
		return nil
	}
	switch ranWrong, known := sticky[e.code]; {
	case ranWrong:
		return kernels.ErrContextLost
	case known:
		return kernels.ErrDeviceLost
	}
	return nil
}

// failed adds the attempted operation to a driver's error. After a sticky error the device is lost. This
// error and those of later calls then wrap [kernels.ErrDeviceLost], or [kernels.ErrContextLost] if the code
// that ran caused it, and name the operation that failed first.
func (d *Device) failed(err error, format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	if lost := unusable(err); d.lost == nil && lost != nil {
		d.lost = fmt.Errorf("%w: %s: %s: %w; a new process can use it again", lost, d.spec.ID, what, err)
		return d.lost
	}
	if d.lost != nil {
		return d.lost
	}
	return &callError{d.spec.ID, what, err}
}

// callError is a failed call on a GPU that is still usable.
type callError struct {
	device, what string
	err          error
}

func (e *callError) Error() string { return e.device + ": " + e.what + ": " + e.err.Error() }
func (e *callError) Unwrap() error { return e.err }

// unnamed removes the GPU from a failed call's error, for callers that name it.
func unnamed(err error) error {
	if e, ok := errors.AsType[*callError](err); ok {
		return fmt.Errorf("%s: %w", e.what, e.err)
	}
	return err
}
