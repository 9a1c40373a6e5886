package cpu

/*
#include "native/buffer.h"
*/
import "C"

import (
	"sync"
	"unsafe"
)

const (
	// slabBytes is the size of a mapping for small buffers: a few huge pages.
	slabBytes = 8 << 20
	// slabLimit is the minimum size of a separate mapping. For smaller buffers it would be nearly all
	// padding: thousands of copies of a small matrix would take gigabytes instead of megabytes, and a system
	// call each.
	slabLimit = slabBytes / 4
	// slabAlign aligns small buffers; they never share a page.
	slabAlign = 4096
)

// slab is a mapping for small buffers, allocated in order. Freed memory is not reused, which keeps new
// buffers zeroed. Closing the last buffer unmaps the slab.
type slab struct {
	base unsafe.Pointer
	used int64
	live int
}

// slabs allocates small buffers. The zero value is ready.
type slabs struct {
	mu      sync.Mutex
	current *slab // has room; nil at first
}

// take returns zeroed memory for less than slabLimit bytes and its slab; nil if memory is exhausted.
func (s *slabs) take(bytes int64) (unsafe.Pointer, *slab) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := (bytes + slabAlign - 1) / slabAlign * slabAlign
	if s.current == nil || s.current.used+size > slabBytes {
		base := C.ga_map(slabBytes)
		if base == nil {
			return nil, nil
		}
		s.current = &slab{base: base}
	}
	b := s.current
	p := unsafe.Add(b.base, b.used)
	b.used += size
	b.live++
	return p, b
}

func (s *slabs) give(b *slab) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.live--; b.live > 0 {
		return
	}
	C.ga_unmap(b.base, slabBytes)
	if s.current == b {
		s.current = nil
	}
}
