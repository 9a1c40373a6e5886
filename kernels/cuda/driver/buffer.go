//go:build cuda

package driver

// #include <cuda.h>
import "C"

import (
	"fmt"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
	"github.com/gemmaudit/gemmaudit/kernels/worker"
)

// Buffer is memory of a GPU, aligned to 256 bytes and initially undefined.
type Buffer struct {
	dev     *Device
	Address uint64 // 0 once closed
	bytes   int64
	// edition changes with the content, which invalidates packed forms of earlier content.
	edition uint64
	// mirror records the processes that map the memory.
	mirror worker.Mirror
}

// Mirror implements [worker.Buffer].
func (b *Buffer) Mirror() *worker.Mirror { return &b.mirror }

// Handle implements [worker.Mappable].
func (b *Buffer) Handle() (handle []byte, offset int64, err error) {
	if b.Address == 0 {
		return nil, 0, fmt.Errorf("share a buffer of %d bytes: it is closed", b.bytes)
	}
	leave, err := b.dev.Enter()
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	// The driver places small buffers in one allocation, and the handle is the allocation's.
	var base C.CUdeviceptr
	var size C.size_t
	if err := result(C.cuMemGetAddressRange(&base, &size, C.CUdeviceptr(b.Address))); err != nil {
		return nil, 0, b.dev.failed(err, "find the allocation of a buffer of %d bytes", b.bytes)
	}
	var of C.CUipcMemHandle
	if err := result(C.cuIpcGetMemHandle(&of, base)); err != nil {
		return nil, 0, b.dev.failed(err, "share a buffer of %d bytes with another process", b.bytes)
	}
	return C.GoBytes(unsafe.Pointer(&of), C.int(unsafe.Sizeof(of))), int64(b.Address) - int64(base), nil
}

// Alloc allocates memory of the GPU. The error gives the requested and the free bytes.
func (d *Device) Alloc(bytes int64) (kernels.Buffer, error) {
	b, err := d.alloc(bytes)
	if err != nil {
		return nil, err // a nil *Buffer in the interface would not be nil
	}
	return b, nil
}

func (d *Device) alloc(bytes int64) (*Buffer, error) {
	if bytes < 1 {
		return nil, fmt.Errorf("allocate %d bytes on %s: expected at least 1", bytes, d.spec.ID)
	}
	leave, err := d.Enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	address, err := cu.MemAlloc(bytes)
	if err != nil {
		what := fmt.Sprintf("allocate %d bytes", bytes)
		if free, total, e := cu.MemInfo(); e == nil {
			what += fmt.Sprintf(" (%d of %d are free)", free, total)
		}
		return nil, d.failed(driver(err), "%s", what)
	}
	return &Buffer{dev: d, Address: uint64(address), bytes: bytes}, nil
}

// Bytes returns the requested size.
func (b *Buffer) Bytes() int64 { return b.bytes }

// Fill writes n elements of type t, bit-identical to the CPU's buffers.
func (b *Buffer) Fill(dist kernels.Distribution, t kernels.DType, n int64, seed uint64) error {
	if t.Size() == 0 || n < 0 || n > b.bytes/int64(t.Size()) {
		return fmt.Errorf("fill buffer: %d elements of %q do not fit in %d bytes", n, t, b.bytes)
	}
	if b.Address == 0 {
		return fmt.Errorf("fill buffer of %d bytes: it is closed", b.bytes)
	}
	c, err := support.FillCall(b.dev.arch, b.Address, n, t, dist, seed)
	if err != nil || n == 0 {
		return err
	}
	b.edition++
	return b.dev.Run(c)
}

// Run launches one of our kernels and waits for it.
func (d *Device) Run(c planning.Call) error {
	_, err := d.Timed(c)
	return err
}

// Timed runs a kernel once and returns its time.
func (d *Device) Timed(c planning.Call) (seconds float64, err error) {
	l, err := d.NewLaunch(c.Kernel, c.Kernel, Steps([]planning.Call{c}))
	if err != nil {
		return 0, err
	}
	return d.Once(l)
}

// transfer checks a range of the buffer and copies it by move, unless it is empty.
func (b *Buffer) transfer(verb, where string, off int64, host []byte, move func(at cu.DevicePtr) error) error {
	switch {
	case b.Address == 0:
		return fmt.Errorf("%s %s buffer of %d bytes: it is closed", verb, where, b.bytes)
	case off < 0 || off > b.bytes || int64(len(host)) > b.bytes-off:
		return fmt.Errorf("%s %s buffer: bytes %d to %d of a buffer of %d", verb, where, off, off+int64(len(host)), b.bytes)
	case len(host) == 0:
		return nil
	}
	leave, err := b.dev.Enter()
	if err != nil {
		return err
	}
	defer leave()
	if err := move(cu.DevicePtr(b.Address + uint64(off))); err != nil {
		return b.dev.failed(driver(err), "%s %d bytes", verb, len(host))
	}
	return nil
}

// Upload copies src into the buffer from byte off on.
func (b *Buffer) Upload(off int64, src []byte) error {
	return b.transfer("upload", "to", off, src, func(at cu.DevicePtr) error {
		b.edition++
		err := cu.MemcpyHtoD(at, unsafe.Pointer(&src[0]), int64(len(src)))
		if err == nil {
			// The copy may return before the transfer ends, and our stream does not wait for it.
			err = cu.Synchronize()
		}
		return err
	})
}

// Download copies from byte off of the buffer into dst.
func (b *Buffer) Download(off int64, dst []byte) error {
	return b.transfer("download", "from", off, dst, func(at cu.DevicePtr) error {
		return cu.MemcpyDtoH(unsafe.Pointer(&dst[0]), at, int64(len(dst)))
	})
}

// Close frees the memory. Launches that use the buffer must not run afterwards. Memory of a lost or closed
// device is already freed.
func (b *Buffer) Close() error {
	if b.Address == 0 {
		return nil
	}
	address := b.Address
	b.Address = 0
	b.mirror.Release()
	if b.dev.lost != nil || b.dev.context == (cu.CUContext{}) {
		return nil
	}
	leave, err := b.dev.Enter()
	if err != nil {
		return err
	}
	defer leave()
	if err := cu.MemFree(cu.DevicePtr(address)); err != nil {
		return b.dev.failed(driver(err), "free %d bytes", b.bytes)
	}
	return nil
}
