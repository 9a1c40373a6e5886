// Products with weights of 4 and 8 bits. Their packed form is panels of GA_PANEL columns, like that
// of plain weights (pack.h), of eight quads each. A quad is four columns over all of K, one contiguous
// stream:
//
//   scales  [K / group][4]       of 16 bits
//   zeros   [K / group][4]       bytes, if there are any; padded to 64 bytes with the scales
//   codes   [blocks][4][block]   unsigned
//
// A block is 32 codes of 8 bits, in the order of K, less 128, or as many of 4 bits as fill a vector: nibble
// j of the vector's word or half word l, of L, is that of k = L·j + l. One shift then leaves codes of
// consecutive k in the lowest bits of each, or of every other k in those of words where the form has half
// words. Permutations take them as indices into a table of 16 weights, so that a weight costs no
// arithmetic. Zero points of 8 bits are stored less 128, too. Codes past K stand for 0.
#ifndef GEMMAUDIT_QUANTISED_H
#define GEMMAUDIT_QUANTISED_H

#include "path.h"

enum { GA_QUAD = 4, GA_QUANTISED_ROWS = 6 };

// A form is how an instruction set stores and decodes weights for one type of A. Words are those of
// the path of that type and instruction set (path.h), vectors hold lanes of them, and units of rows or
// columns are a vector of each, all of the same k.
typedef struct {
  const char *name;
  int lanes; // words in a vector
  int group; // k in a word
  int piece; // bytes of the words or half words in which codes of 4 bits lie
  int rows;  // that are multiplied at once, at most
  int tile;  // rows that add takes at most, up to GA_QUANTISED_ROWS
  // pack_a writes a row as units for k up to kp, zero from K on; vectors lie pitch bytes apart.
  void (*pack_a)(const ga_gemm *g, const void *a, int64_t kp, void *out, int64_t pitch);
  // multiply adds rows of A, [unit][rows], times the columns of a quad, from k0 to k1, multiples of 128
  // but for the end of K, to vectors of sums, [rows][4], or sets them to it, and writes the columns' units
  // to kept, [unit][4]: for as many rows as the first of several tiles has. It fetches the codes that lie
  // ahead bytes behind.
  void (*multiply)(const ga_gemm *g, int rows, const char *quad, int64_t k0, int64_t k1, int64_t ahead, const char *a,
                   char *kept, char *sums, int set);
  // columns writes the columns of a quad as units [4], pitch bytes apart; NULL where nothing asks for it.
  void (*columns)(const ga_gemm *g, const char *quad, int64_t k0, int64_t k1, char *out, int64_t pitch);
  // add adds units of a tile of A, [unit][rows], times columns, [unit][4], to vectors of sums, [rows][4],
  // or sets them to it.
  void (*add)(int rows, int64_t units, const char *a, const char *columns, char *sums, int set);
  // total adds up the lanes of vectors of sums, to [rows][32], of which it writes four columns.
  void (*total)(int rows, const char *sums, float *out);
  // decode writes words of the columns of a panel, [words][32], from k0 on, a multiple of 128. It
  // writes up to the next multiple of 32 k, and fetches the codes that lie ahead bytes behind.
  void (*decode)(const ga_gemm *g, const char *panel, int64_t k0, int64_t words, int64_t ahead, void *out);
} ga_form;

// A few is how as many rows as a form takes at once are multiplied by weights as that form stores them.
// Integers are multiplied and their sums scaled, so that weights are not rounded to the type of A.
typedef struct {
  const char *name;
  int bytes; // of a row of A, for each k
  int lanes; // words in a vector
  void (*pack_a)(const ga_gemm *g, const void *a, int64_t kp, void *out, int64_t pitch); // a form's
  // multiply is a form's, but keeps nothing.
  void (*multiply)(const ga_gemm *g, int rows, const char *quad, int64_t k0, int64_t k1, int64_t ahead, const char *a,
                   char *sums, int set);
  void (*total)(int rows, const char *sums, float *out); // a form's
} ga_few;

// ga_few_for is that for a type of A and weights of so many bits.
const ga_few *ga_few_for(ga_dtype t, int bits, unsigned isa);

extern const ga_few ga_portable_few;
#if defined(__x86_64__)
extern const ga_few ga_avx2_few, ga_avx512_few, ga_avx512_bf16_few, ga_avx512_split_few;
#endif

// ga_form_for is the form for a type of A with the instruction sets of isa.
const ga_form *ga_form_for(ga_dtype t, unsigned isa);

extern const ga_form ga_portable_form;
#if defined(__x86_64__)
extern const ga_form ga_avx2_form, ga_avx512_form, ga_avx512_bf16_form;

// ga_transpose_avx512 transposes 16 rows of 16 words.
void ga_transpose_avx512(const char *from, int64_t pitch, char *to, int64_t to_pitch);
#endif

// The sizes of the packed form.
static inline int64_t ga_block_k(const ga_weights *w) { return w->bits == 4 ? ((const ga_form *)w->form)->lanes * 8 : 32; }

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

static inline int64_t ga_quantised_panel_bytes(const ga_gemm *g) {
  return ga_quad_bytes(&g->weights, g->k) * (GA_PANEL / GA_QUAD);
}

int64_t ga_quantised_bytes(const ga_gemm *g);

// ga_quantised_pack packs with all threads of the pool, from codes [N,K], scales and zero points
// [N, K / group], of which zeros may be NULL.
void ga_quantised_pack(ga_pool *pool, const ga_gemm *g, const void *codes, const void *scales, const void *zeros, void *packed);

// ga_quantised_few is the kernel for as many rows as a form multiplies at once, ga_quantised_rows that
// for more (quantised_rows.c). ga_quantised_fits says whether such a product's operands fit in scratch.
void ga_quantised_few(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team);
void ga_quantised_rows(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team);
int ga_quantised_fits(const ga_gemm *g);

#endif
