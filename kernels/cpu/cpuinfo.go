package cpu

// #include "native/cpuinfo.h"
import "C"

import (
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/procfs"
)

// features are the instruction sets that the CPU and the operating system support.
type features struct {
	AVX2, FMA, F16C, AVX512, AVX512VNNI, AVX512BF16, AVXVNNI bool
	AMX, AMXBF16, AMXINT8, AMXFP16                           bool
	// noAMX is the reason for missing AMX, as a full phrase.
	noAMX string
}

// detect returns what this process can execute, regardless of GEMMAUDIT_ISA. The first call requests the tile
// registers, before threads that use them start.
var detect = sync.OnceValue(func() features {
	f := featuresOf(uint32(C.ga_cpu_features()))
	switch {
	case amxEmulated:
		f.AMX, f.AMXBF16, f.AMXINT8, f.noAMX = true, true, true, ""
	case f.AMX:
		if errno := syscall.Errno(C.ga_amx_request()); errno != 0 {
			f.dropAMX(fmt.Sprintf("the kernel refuses the tile registers: arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA): %v", errno))
		}
	}
	return f
})

func featuresOf(has uint32) features {
	bit := func(b uint32) bool { return has&b != 0 }
	f := features{
		AVX2: bit(C.GA_HAS_AVX2), FMA: bit(C.GA_HAS_FMA), F16C: bit(C.GA_HAS_F16C),
		AVX512: bit(C.GA_HAS_AVX512), AVX512VNNI: bit(C.GA_HAS_AVX512VNNI), AVX512BF16: bit(C.GA_HAS_AVX512BF16),
		AVXVNNI: bit(C.GA_HAS_AVXVNNI),
		AMX:     bit(C.GA_HAS_AMX_TILE), AMXBF16: bit(C.GA_HAS_AMX_BF16),
		AMXINT8: bit(C.GA_HAS_AMX_INT8), AMXFP16: bit(C.GA_HAS_AMX_FP16),
	}
	switch {
	case bit(C.GA_AMX_NOT_ENABLED):
		f.noAMX = "this CPU has AMX, but the operating system does not save its tile registers (XCR0)"
	case !f.AMX:
		f.noAMX = "this CPU has no AMX"
	case !f.AVX512:
		f.dropAMX("this CPU has AMX without AVX-512, which converts its results")
	}
	return f
}

func (f *features) dropAMX(reason string) {
	f.AMX, f.AMXBF16, f.AMXINT8, f.AMXFP16, f.noAMX = false, false, false, false, reason
}

func (f features) names() []string {
	var out []string
	for _, x := range []struct {
		name string
		has  bool
	}{
		{"avx2", f.AVX2}, {"fma", f.FMA}, {"f16c", f.F16C}, {"avx_vnni", f.AVXVNNI},
		{"avx512", f.AVX512}, {"avx512_vnni", f.AVX512VNNI}, {"avx512_bf16", f.AVX512BF16},
		{"amx_tile", f.AMX && !amxEmulated}, {"amx_bf16", f.AMXBF16 && !amxEmulated},
		{"amx_int8", f.AMXINT8 && !amxEmulated}, {"amx_fp16", f.AMXFP16 && !amxEmulated},
		{"amx_emulated", f.AMX && amxEmulated},
	} {
		if x.has {
			out = append(out, x.name)
		}
	}
	return out
}

// readSpec describes the machine as this process sees it: usable cores and their caches.
func readSpec() kernels.Spec {
	s := thisHost().spec()
	// Opening the device has rejected unknown values of GEMMAUDIT_ISA.
	f, _ := capped(detect(), os.Getenv("GEMMAUDIT_ISA"))
	s.Features = append(f.names(), s.Features...)
	return s
}

func thisHost() host {
	return host{Tree: procfs.Tree{FS: os.DirFS("/")}, affinity: affinity(), cacheBytes: func(level int) int64 {
		return int64(C.ga_cache_bytes(C.int(level)))
	}}
}
