package cpu

/*
#include "native/buffer.h"
*/
import "C"

import (
	"runtime"
	"unsafe"
)

// sharedScratch is memory shared by the launches of one kernel, which run one at a time. A larger request
// allocates new memory; earlier launches keep theirs.
type sharedScratch struct {
	last *Buffer
}

func (s *sharedScratch) of(d *Device, bytes int64) (*Buffer, error) {
	if s.last == nil || s.last.Bytes() < bytes {
		b, err := d.alloc(max(bytes, slabLimit)) // large enough for its own mapping, for the cleanup
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
