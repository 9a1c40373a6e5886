// What this processor and its operating system let us execute.
#ifndef GEMMAUDIT_CPUINFO_H
#define GEMMAUDIT_CPUINFO_H

#include <stdint.h>

enum {
  GA_HAS_AVX2 = 1 << 0,
  GA_HAS_FMA = 1 << 1,
  GA_HAS_F16C = 1 << 2,
  GA_HAS_AVX512 = 1 << 3, // F, DQ, BW and VL together
  GA_HAS_AVX512VNNI = 1 << 4,
  GA_HAS_AVX512BF16 = 1 << 5,
  GA_HAS_AVXVNNI = 1 << 6,
  GA_HAS_AMX_TILE = 1 << 7,
  GA_HAS_AMX_BF16 = 1 << 8,
  GA_HAS_AMX_INT8 = 1 << 9,
  GA_HAS_AMX_FP16 = 1 << 10,
  // The CPU has AMX, and the operating system does not save the tiles.
  GA_AMX_NOT_ENABLED = 1 << 11,
};

// ga_cpu_features is the set of the above, 0 on anything but x86-64. An
// instruction set counts when the operating system saves its registers too.
uint32_t ga_cpu_features(void);

enum { GA_CPU_INTEL = 1 << 30 };

// ga_cpu_family returns family << 8 | model as CPUID's displayed values, with
// bit 31 set for AMD and bit 30, GA_CPU_INTEL, for Intel; 0 for anything else.
uint32_t ga_cpu_family(void);

// ga_amx_request asks the kernel for the tile registers on behalf of all threads
// of the process. It returns 0 or an errno.
int ga_amx_request(void);

// ga_cache_bytes asks the C library for the size of one data cache of the level,
// 0 when it can't tell.
int64_t ga_cache_bytes(int level);

#endif
