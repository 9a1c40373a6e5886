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

// sticky reports whether an error makes the context unusable: every later call on it returns the same error.
func sticky(err error) bool {
	var e *driverError
	if !errors.As(err, &e) {
		return false
	}
	switch e.code {
	case C.CUDA_ERROR_DEINITIALIZED, C.CUDA_ERROR_DEVICE_UNAVAILABLE, C.CUDA_ERROR_ECC_UNCORRECTABLE, C.CUDA_ERROR_NVLINK_UNCORRECTABLE,
		C.CUDA_ERROR_CONTAINED, C.CUDA_ERROR_ILLEGAL_ADDRESS, C.CUDA_ERROR_LAUNCH_TIMEOUT, C.CUDA_ERROR_CONTEXT_IS_DESTROYED,
		C.CUDA_ERROR_ASSERT, C.CUDA_ERROR_HARDWARE_STACK_ERROR, C.CUDA_ERROR_ILLEGAL_INSTRUCTION, C.CUDA_ERROR_MISALIGNED_ADDRESS,
		C.CUDA_ERROR_INVALID_ADDRESS_SPACE, C.CUDA_ERROR_INVALID_PC, C.CUDA_ERROR_LAUNCH_FAILED, C.CUDA_ERROR_MPS_CLIENT_TERMINATED,
		C.CUDA_ERROR_EXTERNAL_DEVICE, C.CUDA_ERROR_UNKNOWN:
		return true
	}
	return false
}

// ranWrong reports whether a sticky error is the fault of the code that ran, not of the GPU.
func ranWrong(err error) bool {
	var e *driverError
	if !errors.As(err, &e) {
		return false
	}
	switch e.code {
	case C.CUDA_ERROR_ILLEGAL_ADDRESS, C.CUDA_ERROR_LAUNCH_TIMEOUT, C.CUDA_ERROR_ASSERT, C.CUDA_ERROR_HARDWARE_STACK_ERROR,
		C.CUDA_ERROR_ILLEGAL_INSTRUCTION, C.CUDA_ERROR_MISALIGNED_ADDRESS, C.CUDA_ERROR_INVALID_ADDRESS_SPACE,
		C.CUDA_ERROR_INVALID_PC, C.CUDA_ERROR_LAUNCH_FAILED:
		return true
	}
	return false
}

// failed adds the attempted operation to a driver's error. After a sticky error the device is lost. This
// error and those of later calls then wrap [kernels.ErrDeviceLost], or [kernels.ErrContextLost] if the code
// that ran caused it, and name the operation that failed first.
func (d *Device) failed(err error, format string, args ...any) error {
	what := fmt.Sprintf(format, args...)
	if d.lost == nil && sticky(err) {
		lost := kernels.ErrDeviceLost
		if ranWrong(err) {
			lost = kernels.ErrContextLost
		}
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
