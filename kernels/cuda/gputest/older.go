//go:build cuda

package gputest

import (
	"fmt"
	"os"
	"strconv"

	"github.com/gemmaudit/gemmaudit/kernels/cuda/artefacts"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// These variables make the tests treat the GPU as an older one: compute capability × 10, and the folder of
// PTX for it (make older-ptx), which the driver compiles for the actual GPU. This runs the device code's
// branches, swizzles and limits for GPUs that are not available.
const (
	olderCC  = "GEMMAUDIT_TEST_CC"
	olderPTX = "GEMMAUDIT_TEST_PTX"
)

// sharedMax is a block's maximum opt-in shared memory in bytes (CUDA C++ Programming Guide, table of
// technical specifications by compute capability).
var sharedMax = map[int]int{75: 64 << 10, 80: 163 << 10, 86: 99 << 10, 89: 99 << 10}

func init() {
	word, dir := os.Getenv(olderCC), os.Getenv(olderPTX)
	if word == "" {
		return
	}
	cc, err := strconv.Atoi(word)
	if _, known := sharedMax[cc]; err != nil || !known || dir == "" {
		fmt.Fprintf(os.Stderr, "%s is %q and %s %q: expected 75, 80, 86 or 89, and a folder\n", olderCC, word, olderPTX, dir)
		os.Exit(2)
	}
	artefacts.UseFolder(dir)
	driver.Pretend = func(a *planning.Arch) {
		if a.CC < cc {
			fmt.Fprintf(os.Stderr, "the GPU has compute capability %d.%d, which can't stand for %d.%d\n", a.CC/10, a.CC%10, cc/10, cc%10)
			os.Exit(2)
		}
		a.CC, a.SharedMax = cc, min(a.SharedMax, sharedMax[cc])
	}
}
