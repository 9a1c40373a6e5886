// Instruction sets that the processor and operating system support.
#ifndef GEMMAUDIT_CPUINFO_H
#define GEMMAUDIT_CPUINFO_H

#include <stdint.h>

enum {
  GA_HAS_AVX2 = 1 << 0,
  GA_HAS_FMA = 1 << 1,
  GA_HAS_F16C = 1 << 2,
  GA_HAS_AVX512 = 1 << 3, // F, DQ, BW and VL
  GA_HAS_AVX512VNNI = 1 << 4,
  GA_HAS_AVX512BF16 = 1 << 5,
  GA_HAS_AVXVNNI = 1 << 6,
  GA_HAS_AMX_TILE = 1 << 7,
  GA_HAS_AMX_BF16 = 1 << 8,
  GA_HAS_AMX_INT8 = 1 << 9,
  GA_HAS_AMX_FP16 = 1 << 10,
  // The CPU has AMX, but the operating system does not save the tiles.
  GA_AMX_NOT_ENABLED = 1 << 11,
};

// ga_cpu_features returns the bits above, 0 if not x86-64. An instruction set counts only if the operating
// system saves its registers.
uint32_t ga_cpu_features(void);

enum { GA_CPU_INTEL = 1 << 30 };

// ga_cpu_family returns family << 8 | model with CPUID's displayed values. Bit 31 is set for AMD and bit 30,
// GA_CPU_INTEL, for Intel; 0 for other CPUs.
uint32_t ga_cpu_family(void);

// ga_amx_request requests tile registers from the kernel for all threads of the process. It returns 0 or an
// errno.
int ga_amx_request(void);

// ga_cache_bytes returns the C library's size of a level's data cache, 0 if unknown.
int64_t ga_cache_bytes(int level);

#endif
