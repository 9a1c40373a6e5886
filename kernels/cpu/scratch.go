package cpu

/*
#include "native/buffer.h"
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// sharedScratch is memory that the launches of one kernel share, since they run one at a time.
// A launch that needs more gets a larger one, and the launches before it keep theirs until
// they are gone.
type sharedScratch struct {
	last *Buffer // of the launches bound last
}

// of returns memory of at least so many bytes.
func (s *sharedScratch) of(d *Device, bytes int64) (*Buffer, error) {
	if s.last == nil || s.last.Bytes() < bytes {
		b, err := d.alloc(max(bytes, slabLimit)) // a mapping of its own, for the cleanup
		if err != nil {
			return nil, err
		}
		type mapping struct {
			data  unsafe.Pointer
			bytes int64
		}
		runtime.AddCleanup(b, func(m mapping) { C.ga_unmap(m.data, C.size_t(m.bytes)) }, mapping{b.data, b.bytes})
		s.last = b
	}
	return s.last, nil
}
