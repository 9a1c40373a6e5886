package cpu

/*
#include "native/cpuinfo.h"
#include "native/peaks.h"
*/
import "C"

// model is a processor's vendor, family and model from CPUID; zero if not x86.
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

// fmaBits is the total width of a core's FMA units, 0 if uncertain: Skylake-SP (model 55h) has one or two
// 512-bit units that CPUID does not distinguish; hybrid CPUs and CPUs newer than this table are not listed.
// wide means 512-bit vectors.
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
	case m.vendor == "amd" && m.family == 0x19: // Zen 3, and Zen 4 with half-width 512-bit units
		return 2 * 256
	case m.vendor == "amd" && m.family == 0x1a && (m.model < 0x20 || m.model>>4 == 4): // Zen 5, but not the mobile version
		if wide {
			return 2 * 512
		}
		return 2 * 256
	case m.vendor != "intel" || m.family != 6:
		return 0
	case in(0x3c, 0x3f, 0x45, 0x46, // Haswell
		0x3d, 0x47, 0x4f, 0x56, // Broadwell
		0x4e, 0x5e, 0x8e, 0x9e, 0xa5, 0xa6): // Skylake and derivatives without AVX-512
		return 2 * 256
	case in(0x7d, 0x7e, 0x8c, 0x8d): // Ice Lake and Tiger Lake clients: both units form one 512-bit unit
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

// flopsPerCycle is a core's theoretical operations per cycle: of its FMA units, or with AMX of one tile unit
// that takes 16 cycles per product. It is 0 if unknown. Makers do not publish the number of vector
// dot-product units.
func flopsPerCycle(m model, code C.ga_unit_code, f features) float64 {
	switch code {
	case C.GA_FMA_AVX2, C.GA_FMA_AVX512:
		// 32 bits per lane, one multiply and one add each.
		return float64(m.fmaBits(f.AVX512)) / 32 * 2
	case C.GA_DOT_BF16_AMX:
		return 2 * 16 * 16 * 32 / 16
	case C.GA_DOT_INT8_AMX:
		return 2 * 16 * 16 * 64 / 16
	}
	return 0
}
