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
	// slabBytes is what is mapped at once for small buffers: a few huge pages.
	slabBytes = 8 << 20
	// slabLimit is the size from which on a buffer has a mapping of its own.
	// Below it one would mostly hold padding: a rotation over thousands of copies
	// of a small matrix would take gigabytes for megabytes, and as many system
	// calls as copies.
	slabLimit = slabBytes / 4
	// slabAlign is that of a small buffer: one never shares a page with another.
	slabAlign = 4096
)

// slab is a mapping that is dealt out to small buffers from its start on. What
// one of them held is not dealt out again, so that every buffer begins zeroed;
// the last one to be closed returns the mapping.
type slab struct {
	base unsafe.Pointer
	used int64
	live int
}

// slabs deals out small buffers. The zero value is ready.
type slabs struct {
	mu      sync.Mutex
	current *slab // has room; nil at first
}

// take returns zeroed memory for a buffer of less than slabLimit bytes, and the
// slab it lies in; nil when the system has no memory left.
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

// give takes one buffer of b back.
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
