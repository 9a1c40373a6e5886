package cpu

/*
#include "native/cpuinfo.h"
#include "native/peaks.h"
*/
import "C"

// model is a processor's microarchitecture as CPUID tells it: family and model of a
// vendor, the zero value for a processor that is not x86.
type model struct {
	vendor        string // "amd" or "intel"
	family, model int
}

func cpuModel() model {
	v := uint32(C.ga_cpu_family())
	m := model{family: int(v >> 8 & 0xfff), model: int(v & 0xff)}
	switch {
	case v>>31 == 1:
		m.vendor = "amd"
	case v>>30 == 1:
		m.vendor = "intel"
	}
	return m
}

// fmaBits is the width of all FMA units of a core together, 0 when it is not known
// for certain. wide says that 512-bit vectors are used.
//
// Left out on purpose: Skylake-SP and its kin (model 55h), of which cheaper models
// have one 512-bit unit and others two, with nothing in CPUID to tell; CPUs with
// two sorts of cores; and everything newer than this table.
func (m model) fmaBits(wide bool) int {
	in := func(models ...int) bool {
		for _, x := range models {
			if m.model == x {
				return true
			}
		}
		return false
	}
	switch {
	case m.vendor == "amd" && m.family == 0x17 && m.model >= 0x30: // Zen 2
		return 2 * 256
	case m.vendor == "amd" && m.family == 0x19: // Zen 3, and Zen 4, which halves 512 bits
		return 2 * 256
	case m.vendor == "amd" && m.family == 0x1a && (m.model < 0x20 || m.model>>4 == 4): // Zen 5, but not its mobile kind
		if wide {
			return 2 * 512
		}
		return 2 * 256
	case m.vendor != "intel" || m.family != 6:
		return 0
	case in(0x3c, 0x3f, 0x45, 0x46, // Haswell
		0x3d, 0x47, 0x4f, 0x56, // Broadwell
		0x4e, 0x5e, 0x8e, 0x9e, 0xa5, 0xa6): // Skylake and its refinements, without AVX-512
		return 2 * 256
	case in(0x7d, 0x7e, 0x8c, 0x8d): // Ice Lake and Tiger Lake clients: one 512-bit unit made of the two
		return 2 * 256
	case in(0x6a, 0x6c, // Ice Lake-SP
		0x8f, 0xcf, 0xad, 0xae): // Sapphire, Emerald and Granite Rapids
		if wide {
			return 2 * 512
		}
		return 2 * 256
	}
	return 0
}

// flopsPerCycle is what one core can do with a unit in a cycle, by the number and
// width of its execution units: FMA, and the tiles, of which a core with AMX has one
// that takes 16 cycles for a full product. It is 0 where that is not known; of the
// dot products of vectors the number of units differs between makers in ways that
// they don't publish, so those are measured alone.
func flopsPerCycle(m model, code C.ga_unit_code, f features) float64 {
	switch code {
	case C.GA_FMA_AVX2, C.GA_FMA_AVX512:
		// 32 bits a lane, a multiply and an add in each.
		return float64(m.fmaBits(f.AVX512)) / 32 * 2
	case C.GA_DOT_BF16_AMX:
		return 2 * 16 * 16 * 32 / 16
	case C.GA_DOT_INT8_AMX:
		return 2 * 16 * 16 * 64 / 16
	}
	return 0
}
