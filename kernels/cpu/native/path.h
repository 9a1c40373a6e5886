// A path is the code for one type and instruction set: the register tile, and conversions of A, B and C to
// and from its formats. The blocked kernels (tiled.c, gemv.c) use paths and are independent of instruction
// sets.
//
// Internal data are 32-bit words. A word of A or B holds `group` consecutive k (one float, two bf16, four
// int8), an accumulator one fp32 or int32.
//   A tile  [words/4][rows][4]  granules of 16 bytes, for packing A by copying
//   B slice [words][32]
//   acc     [rows][32]
#ifndef GEMMAUDIT_PATH_H
#define GEMMAUDIT_PATH_H

#include "pack.h"

// GA_MAX_ROWS is the largest tile of all paths.
enum { GA_MAX_ROWS = 14 };

// A ga_tile adds the product of a tile of A and a slice of B to acc, or with set overwrites acc. words is a
// multiple of 4. For each four words it prefetches from ahead and advances ahead by step bytes.
typedef void (*ga_tile)(int rows, int64_t words, const void *a, const void *b, void *acc, int set, const void *ahead,
                        int64_t step);

typedef struct {
  const char *name; // "avx512 14x32 vdpbf16ps"
  int rows;         // of the largest tile; all smaller ones exist too
  int group;        // k in a word
  int parts;        // calls of tile per panel, each for 32/parts columns
  // pack_a writes rows rows of k elements as a tile, padded with zeros to words.
  void (*pack_a)(const void *a, int64_t lda, int rows, int64_t k, int64_t words, void *out);
  // widen_b converts words words of each column of packed B; NULL if tile reads packed B.
  void (*widen_b)(const void *b, int64_t words, void *out);
  // tile multiplies with B from widen_b. For the second part, b and acc are advanced by half a row.
  ga_tile tile;
  // direct multiplies a whole panel with packed B and widens in registers, which is faster if few tiles share
  // the panel. It may be NULL.
  ga_tile direct;
  // store rounds cols columns of acc to C. sums are column sums of B.
  void (*store)(const void *acc, int rows, int64_t cols, const int32_t *sums, void *c, int64_t ldc);
  // stream is store for all columns with non-temporal stores, if rows of C are aligned to cache lines.
  // GA_STREAM_FENCE must follow. It may be NULL.
  void (*stream)(const void *acc, int rows, void *c, int64_t ldc);
} ga_path;

#if defined(__x86_64__)
#define GA_STREAM_FENCE() __builtin_ia32_sfence()
#else
#define GA_STREAM_FENCE() ((void)0)
#endif

// Instruction sets beyond the architecture's baseline.
enum { GA_ISA_AVX2 = 1, GA_ISA_AVX512 = 2, GA_ISA_VNNI = 4, GA_ISA_BF16 = 8 };

const ga_path *ga_path_for(ga_dtype t, unsigned isa);

extern const ga_path ga_portable_paths[4];
#if defined(__x86_64__)
extern const ga_path ga_avx2_paths[4];
extern const ga_path ga_avx512_paths[4];
extern const ga_path ga_avx512_bf16_path;
extern const ga_path ga_avx512_vnni_path;
#endif

// ga_words is k in words, rounded up to whole granules.
static inline int64_t ga_words(const ga_path *p, int64_t k) { return ((k + p->group - 1) / p->group + 3) / 4 * 4; }

// ga_slice returns the address of k in a packed panel; k is a multiple of 64.
static inline const void *ga_slice(const void *panel, ga_dtype t, int64_t k) {
  return (const char *)panel + k * GA_PANEL * ga_size(t);
}

#endif
