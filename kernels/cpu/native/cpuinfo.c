#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "cpuinfo.h"

#include <errno.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <string.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif

static uint64_t xcr0(void) {
  uint32_t lo, hi;
  __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
  return (uint64_t)hi << 32 | lo;
}

uint32_t ga_cpu_features(void) {
  // XCR0 bits: SSE and AVX; opmask, upper halves, upper registers; tile configuration and data.
  enum { AVX_STATE = 0x6, AVX512_STATE = 0xe0, AMX_STATE = 0x60000 };
  uint32_t a, b, c, d, set = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return 0;
  uint64_t saved = xcr0();
  if ((saved & AVX_STATE) != AVX_STATE) return 0;
  if (c & (1u << 12)) set |= GA_HAS_FMA;
  if (c & (1u << 29)) set |= GA_HAS_F16C;

  uint32_t a7, b7, c7, d7, a71 = 0, b71, c71, d71;
  if (!__get_cpuid_count(7, 0, &a7, &b7, &c7, &d7)) return set;
  if (a7 >= 1) __get_cpuid_count(7, 1, &a71, &b71, &c71, &d71);
  if (b7 & (1u << 5)) set |= GA_HAS_AVX2;
  if (a71 & (1u << 4)) set |= GA_HAS_AVXVNNI;

  const uint32_t avx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;
  if ((saved & AVX512_STATE) == AVX512_STATE && (b7 & avx512) == avx512) {
    set |= GA_HAS_AVX512;
    if (c7 & (1u << 11)) set |= GA_HAS_AVX512VNNI;
    if (a71 & (1u << 5)) set |= GA_HAS_AVX512BF16;
  }
  if (d7 & (1u << 24)) {
    if ((saved & AMX_STATE) != AMX_STATE) return set | GA_AMX_NOT_ENABLED;
    set |= GA_HAS_AMX_TILE;
    if (d7 & (1u << 22)) set |= GA_HAS_AMX_BF16;
    if (d7 & (1u << 25)) set |= GA_HAS_AMX_INT8;
    if (a71 & (1u << 21)) set |= GA_HAS_AMX_FP16;
  }
  return set;
}

uint32_t ga_cpu_family(void) {
  uint32_t a, b, c, d, vendor;
  char name[13] = {0};
  if (!__get_cpuid(0, &a, &b, &c, &d)) return 0;
  memcpy(name, &b, 4);
  memcpy(name + 4, &d, 4);
  memcpy(name + 8, &c, 4);
  if (strcmp(name, "AuthenticAMD") == 0) vendor = 1u << 31;
  else if (strcmp(name, "GenuineIntel") == 0) vendor = GA_CPU_INTEL;
  else return 0;
  __get_cpuid(1, &a, &b, &c, &d);
  uint32_t family = a >> 8 & 15, model = a >> 4 & 15;
  if (family == 6 || family == 15) model |= (a >> 16 & 15) << 4;
  if (family == 15) family += a >> 20 & 255;
  return vendor | family << 8 | model;
}

int ga_amx_request(void) {
#if defined(__linux__)
  enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
  return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 ? 0 : errno;
#else
  return ENOSYS;
#endif
}

#else

uint32_t ga_cpu_features(void) { return 0; }
uint32_t ga_cpu_family(void) { return 0; }
int ga_amx_request(void) { return ENOSYS; }

#endif

int64_t ga_cache_bytes(int level) {
  long n = 0;
  switch (level) {
#if defined(_SC_LEVEL1_DCACHE_SIZE)
  case 1: n = sysconf(_SC_LEVEL1_DCACHE_SIZE); break;
  case 2: n = sysconf(_SC_LEVEL2_CACHE_SIZE); break;
  case 3: n = sysconf(_SC_LEVEL3_CACHE_SIZE); break;
#endif
  default: break;
  }
  return n > 0 ? n : 0;
}
