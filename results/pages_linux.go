package results

import (
	"syscall"
	"unsafe"
)

// largePage is the size of a large page of memory, in bytes.
const largePage = 2 << 20

// onLargePages asks for large pages under a list that is about to be filled in no order. A
// page of 4 KiB would be brought in for each few samples of it, and looked up again for the
// next: that took as long as reading the samples.
func onLargePages(list []Sample) {
	if len(list) == 0 {
		return
	}
	start := unsafe.Pointer(unsafe.SliceData(list))
	size := uintptr(len(list)) * unsafe.Sizeof(list[0])
	skip := -uintptr(start) % largePage
	if size < skip+largePage {
		return
	}
	inside := unsafe.Slice((*byte)(unsafe.Add(start, skip)), (size-skip)/largePage*largePage)
	// It is a wish: a kernel that can't grant it changes nothing.
	_ = syscall.Madvise(inside, syscall.MADV_HUGEPAGE)
}
