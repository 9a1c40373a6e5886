package cpu

/*
#include "native/buffer.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/worker"
)

// Buffer is zeroed memory for operands. It uses huge pages if available and is aligned to a page, a small one
// below slabLimit bytes. It belongs to the device that allocated it.
type Buffer struct {
	dev   *Device
	data  unsafe.Pointer // nil once closed
	bytes int64
	slab  *slab // containing the memory; nil for a separate mapping
	// mirror records the copies of other processes.
	mirror worker.Mirror
}

// Mirror implements [worker.Buffer].
func (b *Buffer) Mirror() *worker.Mirror { return &b.mirror }

// Content implements [worker.InHostMemory].
func (b *Buffer) Content() []byte {
	if b.data == nil {
		return nil
	}
	return unsafe.Slice((*byte)(b.data), b.bytes)
}

// askLimit is the minimum size for a check of free memory. The system grants mappings beyond its memory and
// kills the process that fills them. The check is much faster than filling.
const askLimit = 16 << 20

// Alloc returns zeroed memory. Errors contain the number of bytes.
func (d *Device) Alloc(bytes int64) (kernels.Buffer, error) {
	b, err := d.alloc(bytes)
	if err != nil {
		return nil, err // a nil *Buffer would give a non-nil kernels.Buffer
	}
	return b, nil
}

func (d *Device) alloc(bytes int64) (*Buffer, error) {
	if bytes < 1 {
		return nil, fmt.Errorf("allocate %d bytes on %s: expected at least 1", bytes, d.spec.ID)
	}
	if bytes >= askLimit {
		if free, known := d.FreeMemory(); known && bytes > free {
			return nil, fmt.Errorf("allocate %d bytes on %s: out of memory, %d are free", bytes, d.spec.ID, free)
		}
	}
	b := &Buffer{dev: d, bytes: bytes}
	if bytes < slabLimit {
		b.data, b.slab = d.slabs.take(bytes)
	} else {
		b.data = C.ga_map(C.size_t(bytes))
	}
	if b.data == nil {
		return nil, fmt.Errorf("allocate %d bytes on %s: out of memory", bytes, d.spec.ID)
	}
	return b, nil
}

// Bytes returns the requested size.
func (b *Buffer) Bytes() int64 { return b.bytes }

var distributions = map[kernels.Distribution]C.ga_distribution{
	kernels.Normal: C.GA_NORMAL, kernels.Integers: C.GA_INTEGERS, kernels.Zeros: C.GA_ZEROS,
}

// Fill writes n elements of type t. Element i depends only on seed and i, not on the number of threads.
func (b *Buffer) Fill(dist kernels.Distribution, t kernels.DType, n int64, seed uint64) error {
	d, ok := distributions[dist]
	if !ok {
		return fmt.Errorf("fill buffer: unknown distribution %q: expected normal, integers or zeros", dist)
	}
	c, ok := dtypeCodes[t]
	if t == kernels.FP8 { // of operands with scales
		c, ok = C.GA_FP8, true
	}
	if !ok {
		return fmt.Errorf("fill buffer: the CPU has no dtype %q: expected fp32, fp16, bf16, fp8 or int8", t)
	}
	if n < 0 || n > b.bytes/int64(t.Size()) {
		return fmt.Errorf("fill buffer: %d elements of %s do not fit in %d bytes", n, t, b.bytes)
	}
	if b.data == nil {
		return fmt.Errorf("fill buffer of %d bytes: it is closed", b.bytes)
	}
	if n > 0 {
		if err := b.change(); err != nil {
			return fmt.Errorf("fill buffer: %w", err)
		}
		C.ga_fill(b.dev.pool.c, b.data, d, c, C.int64_t(n), C.uint64_t(seed))
	}
	return nil
}

func (b *Buffer) bytesAt(verb string, off int64, n int) ([]byte, error) {
	switch {
	case b.data == nil:
		return nil, fmt.Errorf("%s buffer of %d bytes: it is closed", verb, b.bytes)
	case off < 0 || off > b.bytes || int64(n) > b.bytes-off:
		return nil, fmt.Errorf("%s buffer: bytes %d to %d of a buffer of %d", verb, off, off+int64(n), b.bytes)
	}
	return unsafe.Slice((*byte)(b.data), b.bytes)[off : off+int64(n)], nil
}

// Upload copies src into the buffer from byte off.
func (b *Buffer) Upload(off int64, src []byte) error {
	dst, err := b.bytesAt("upload to", off, len(src))
	if err != nil {
		return err
	}
	if err := b.change(); err != nil {
		return fmt.Errorf("upload to buffer: %w", err)
	}
	copy(dst, src)
	return nil
}

// change is called before the host changes the content.
func (b *Buffer) change() error {
	defer b.mirror.Changed()
	return b.mirror.Fetch(b)
}

// Download copies from byte off of the buffer into dst.
func (b *Buffer) Download(off int64, dst []byte) error {
	src, err := b.bytesAt("download from", off, len(dst))
	if err != nil {
		return err
	}
	if err := b.mirror.Fetch(b); err != nil {
		return fmt.Errorf("download from buffer: %w", err)
	}
	copy(dst, src)
	return nil
}

var _ kernels.Copier = (*Buffer)(nil)

// copyPiece is the minimum size per thread; below it, starting a thread takes longer than copying.
const copyPiece = 4 << 20

// CopyFrom implements [kernels.Copier]. All threads of the device copy, and thereby touch pages first.
func (b *Buffer) CopyFrom(src kernels.Buffer) error {
	from, ok := src.(*Buffer)
	if !ok || from == nil || from.bytes != b.bytes {
		return fmt.Errorf("copy to buffer of %d bytes: expected a buffer of the CPU of that size", b.bytes)
	}
	to, err := b.bytesAt("copy to", 0, int(b.bytes))
	if err != nil {
		return err
	}
	content, err := from.bytesAt("copy from", 0, int(b.bytes))
	if err != nil {
		return err
	}
	if err := errors.Join(from.mirror.Fetch(from), b.change()); err != nil {
		return fmt.Errorf("copy to buffer: %w", err)
	}
	piece := max(copyPiece, (len(to)+b.dev.Threads()-1)/b.dev.Threads())
	var all sync.WaitGroup
	for at := 0; at < len(to); at += piece {
		all.Go(func() { copy(to[at:min(len(to), at+piece)], content[at:]) })
	}
	all.Wait()
	return nil
}

// Close frees the memory. No launch may use the buffer afterwards.
func (b *Buffer) Close() error {
	switch {
	case b.data == nil:
		return nil
	case b.slab != nil:
		b.dev.slabs.give(b.slab)
	default:
		C.ga_unmap(b.data, C.size_t(b.bytes))
	}
	b.data, b.slab = nil, nil
	b.mirror.Release()
	return nil
}
