package results

import (
	"syscall"
	"unsafe"
)

const largePage = 2 << 20

// onLargePages requests large pages for a list that will be filled in random order. With 4 KiB pages, page
// faults and TLB misses took as long as reading the samples.
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
	// This is only advice, and the kernel may ignore it.
	_ = syscall.Madvise(inside, syscall.MADV_HUGEPAGE)
}
