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

// driverError is an error of the driver API.
type driverError struct{ code C.CUresult }

// Error gives the driver's words and its name for them.
func (e *driverError) Error() string {
	var name, text *C.char
	C.cuGetErrorName(e.code, &name)
	C.cuGetErrorString(e.code, &text)
	if name == nil || text == nil {
		return fmt.Sprintf("driver error %d", int(e.code))
	}
	return fmt.Sprintf("%s (%s)", C.GoString(text), C.GoString(name))
}

// driver turns what gorgonia.org/cu returns into an error with the driver's own
// words. Its errors are codes of a type that it doesn't export.
func driver(err error) error {
	if err == nil {
		return nil
	}
	if v := reflect.ValueOf(err); v.Kind() == reflect.Int {
		return result(C.CUresult(v.Int()))
	}
	return err
}

// result is the error of a code, nil for success.
func result(code C.CUresult) error {
	if code == C.CUDA_SUCCESS {
		return nil
	}
	return &driverError{code}
}

// sticky says whether a context is unusable after an error: every later call on it
// returns the same one.
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

// ranWrong says whether an error that leaves a context unusable is the fault of what ran in it,
// and not of the GPU.
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

// failed adds what was tried to an error of the driver. After one that leaves the
// context unusable the device is lost: this error, and those of all later calls,
// wrap [kernels.ErrDeviceLost], or [kernels.ErrContextLost] where what ran has brought it about, and
// name what was tried when it happened.
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

// callError is a call that failed on a GPU that is still usable.
type callError struct {
	device, what string
	err          error
}

func (e *callError) Error() string { return e.device + ": " + e.what + ": " + e.err.Error() }
func (e *callError) Unwrap() error { return e.err }

// unnamed leaves the GPU out of a failed call's error, for a caller that names it.
func unnamed(err error) error {
	if e, ok := errors.AsType[*callError](err); ok {
		return fmt.Errorf("%s: %w", e.what, e.err)
	}
	return err
}
