// A path is how one type is multiplied with one instruction set: the register
// tile and what brings A, B and C into and out of its form. The blocked kernels
// (tiled.c, gemv.c) are written over paths and know no instruction set.
//
// Inside, everything is 32-bit words: a word of A or B holds `group` consecutive
// k (one float, two bf16, four int8), an accumulator one fp32 or int32.
//   A tile  [words/4][rows][4]  granules of 16 bytes, so that packing A is copying
//   B slice [words][32]
//   acc     [rows][32]
#ifndef GEMMAUDIT_PATH_H
#define GEMMAUDIT_PATH_H

#include "pack.h"

// GA_MAX_ROWS is the largest tile of any path.
enum { GA_MAX_ROWS = 14 };

// A ga_tile adds the product of a tile of A and a slice of B to acc, or sets acc to
// it. words is a multiple of 4. For each four words, lines from ahead on are fetched
// and ahead moves on by step bytes.
typedef void (*ga_tile)(int rows, int64_t words, const void *a, const void *b, void *acc, int set, const void *ahead,
                        int64_t step);

typedef struct {
  const char *name; // "avx512 14x32 vdpbf16ps"
  int rows;         // of the largest tile; every smaller one exists too
  int group;        // k in a word
  int parts;        // calls of tile for a panel, each for 32/parts columns
  // pack_a writes rows rows of k elements as a tile, zero up to words.
  void (*pack_a)(const void *a, int64_t lda, int rows, int64_t k, int64_t words, void *out);
  // widen_b writes words words of each column from packed B; NULL when tile reads
  // packed B as it is.
  void (*widen_b)(const void *b, int64_t words, void *out);
  // tile multiplies with B as widen_b leaves it. For the second part b and acc are
  // advanced by half a row.
  ga_tile tile;
  // direct multiplies a whole panel with packed B, widening in registers: better
  // than to widen ahead when few tiles share the panel. NULL when there is none.
  ga_tile direct;
  // store rounds cols columns of acc to C. sums are the columns' sums of B.
  void (*store)(const void *acc, int rows, int64_t cols, const int32_t *sums, void *c, int64_t ldc);
  // stream is store for all columns, where rows of C begin with a cache line: past the
  // caches, without reading what was there. GA_STREAM_FENCE comes after. NULL when there
  // is none.
  void (*stream)(const void *acc, int rows, void *c, int64_t ldc);
} ga_path;

#if defined(__x86_64__)
#define GA_STREAM_FENCE() __builtin_ia32_sfence()
#else
#define GA_STREAM_FENCE() ((void)0)
#endif

// What the CPU has, beyond its architecture's baseline.
enum { GA_ISA_AVX2 = 1, GA_ISA_AVX512 = 2, GA_ISA_VNNI = 4, GA_ISA_BF16 = 8 };

// ga_path_for is the best path for a type with the instruction sets of isa.
const ga_path *ga_path_for(ga_dtype t, unsigned isa);

// The paths of each instruction set, by type.
extern const ga_path ga_portable_paths[4];
#if defined(__x86_64__)
extern const ga_path ga_avx2_paths[4];
extern const ga_path ga_avx512_paths[4];
extern const ga_path ga_avx512_bf16_path;
extern const ga_path ga_avx512_vnni_path;
#endif

// ga_words is k in words of a path, a whole number of granules.
static inline int64_t ga_words(const ga_path *p, int64_t k) { return ((k + p->group - 1) / p->group + 3) / 4 * 4; }

// ga_slice is where k begins in a packed panel; k is a multiple of 64.
static inline const void *ga_slice(const void *panel, ga_dtype t, int64_t k) {
  return (const char *)panel + k * GA_PANEL * ga_size(t);
}

#endif
