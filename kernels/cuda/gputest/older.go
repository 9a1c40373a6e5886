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

// The variables make the tests of this process take the GPU for an older one: compute
// capability × 10, and the folder of PTX for it (make older-ptx), which the driver compiles
// for the GPU that is there. So the branches, swizzles and limits of device code for GPUs
// that nobody has at hand run at least.
const (
	olderCC  = "GEMMAUDIT_TEST_CC"
	olderPTX = "GEMMAUDIT_TEST_PTX"
)

// sharedMax is the shared memory that one block may opt in to, in bytes (CUDA C++ Programming
// Guide, table of technical specifications by compute capability).
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
