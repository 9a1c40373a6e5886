// Products with 4-bit and 8-bit weights. They are packed in panels of GA_PANEL columns like plain weights
// (pack.h). A panel has eight quads; a quad is four columns with all of K, one contiguous stream:
//
//   scales  [K / group][4]       of 16 bits
//   zeros   [K / group][4]       bytes, optional; padded to 64 bytes with the scales
//   codes   [blocks][4][block]   unsigned
//
// A block of 8-bit codes is 32 codes in the order of K, less 128. A block of 4-bit codes fills a vector:
// nibble j of word or half word l, of L, is the code of k = L·j + l. One shift then puts codes of consecutive
// k in the lowest bits of each; with half words in a form of words, of every other k. Permutations use them
// as indices into a table of 16 weights, without arithmetic per weight. 8-bit zero points are also stored
// less 128. Codes beyond K stand for 0.
#ifndef GEMMAUDIT_QUANTISED_H
#define GEMMAUDIT_QUANTISED_H

#include "path.h"

enum { GA_QUAD = 4, GA_QUANTISED_ROWS = 6 };

// A form is an instruction set's storage format and decoder for one type of A. Words are as in the path of
// that type and instruction set (path.h). Vectors hold lanes words, and a unit is one vector per row or
// column, all of the same k.
typedef struct {
  const char *name;
  int lanes; // words in a vector
  int group; // k in a word
  int piece; // size of the words or half words with 4-bit codes, in bytes
  int rows;  // maximum rows of multiply
  int tile;  // maximum rows of add, up to GA_QUANTISED_ROWS
  // pack_a writes a row as units up to kp, zero beyond K; vectors are pitch bytes apart.
  void (*pack_a)(const ga_gemm *g, const void *a, int64_t kp, void *out, int64_t pitch);
  // multiply adds the product of A's rows, [unit][rows], and the columns of a quad to vectors of sums,
  // [rows][4], or with set overwrites them. k0 and k1 are multiples of 128, except at the end of K. It stores
  // the decoded columns in kept, [unit][4], for other tiles, and prefetches codes ahead bytes away. It
  // supports the row counts of a last tile.
  void (*multiply)(const ga_gemm *g, int rows, const char *quad, int64_t k0, int64_t k1, int64_t ahead, const char *a,
                   char *kept, char *sums, int set);
  // columns decodes the columns of a quad to units [4], pitch bytes apart; NULL if unused.
  void (*columns)(const ga_gemm *g, const char *quad, int64_t k0, int64_t k1, char *out, int64_t pitch);
  // add adds the product of a tile of A, [unit][rows], and decoded columns, [unit][4], to vectors of sums,
  // [rows][4], or with set overwrites them.
  void (*add)(int rows, int64_t units, const char *a, const char *columns, char *sums, int set);
  // total sums the lanes of each vector into four columns of out, [rows][32].
  void (*total)(int rows, const char *sums, float *out);
  // decode writes words of a panel's columns, [words][32], from k0, a multiple of 128. It writes up to the
  // next multiple of 32 k and prefetches codes ahead bytes away.
  void (*decode)(const ga_gemm *g, const char *panel, int64_t k0, int64_t words, int64_t ahead, void *out);
  // Forms in strips (strips.h) have the columns of a strip and code for integers; rows, tile, multiply and add are
  // unused. Their decode does not round weights.
  int strip;
  const struct ga_strip_code *code;
} ga_form;

// A few is the kernel for up to a form's rows with weights stored in that form. It multiplies by integers and
// scales the sums, which avoids rounding weights to the type of A.
typedef struct {
  const char *name;
  int bytes; // of a row of A, per k
  int lanes; // words in a vector
  void (*pack_a)(const ga_gemm *g, const void *a, int64_t kp, void *out, int64_t pitch); // a form's
  // Like a form's multiply, without kept.
  void (*multiply)(const ga_gemm *g, int rows, const char *quad, int64_t k0, int64_t k1, int64_t ahead, const char *a,
                   char *sums, int set);
  void (*total)(int rows, const char *sums, float *out); // a form's
} ga_few;

const ga_few *ga_few_for(ga_dtype t, int bits, unsigned isa);

extern const ga_few ga_portable_few;
#if defined(__x86_64__)
extern const ga_few ga_avx2_few, ga_avx512_few, ga_avx512_bf16_few, ga_avx512_split_few;
#endif

const ga_form *ga_form_for(ga_dtype t, int bits, unsigned isa);

extern const ga_form ga_portable_form;
#if defined(__x86_64__)
extern const ga_form ga_avx2_form, ga_avx512_form, ga_avx512_bf16_form;

// ga_transpose_avx512 transposes 16×16 words.
void ga_transpose_avx512(const char *from, int64_t pitch, char *to, int64_t to_pitch);
#endif

static inline int64_t ga_block_k(const ga_weights *w) {
  const ga_form *form = w->form;
  return w->bits == 4 && form->strip == 0 ? form->lanes * 8 : 32;
}

static inline int64_t ga_quantised_k(const ga_weights *w, int64_t k) {
  int64_t block = ga_block_k(w);
  return (k + block - 1) / block * block;
}

static inline int64_t ga_quad_header(const ga_weights *w, int64_t k) {
  return (k / w->group * GA_QUAD * (w->zeros ? 3 : 2) + 63) / 64 * 64;
}

static inline int64_t ga_quad_bytes(const ga_weights *w, int64_t k) {
  return ga_quad_header(w, k) + ga_quantised_k(w, k) * w->bits / 8 * GA_QUAD;
}

int64_t ga_quantised_panel_bytes(const ga_gemm *g);

int64_t ga_quantised_bytes(const ga_gemm *g);

// ga_quantised_pack packs with all threads of the pool, from codes [N,K], and scales and zero points [N, K /
// group]; zeros may be NULL.
void ga_quantised_pack(ga_pool *pool, const ga_gemm *g, const void *codes, const void *scales, const void *zeros, void *packed);

// ga_quantised_few is the kernel for up to a form's rows, ga_quantised_rows for more (quantised_rows.c).
// ga_quantised_fits reports whether the operands fit in scratch.
void ga_quantised_few(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team);
void ga_quantised_rows(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team);
int ga_quantised_fits(const ga_gemm *g);

#endif
