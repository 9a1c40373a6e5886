// A decoder's operations other than GEMMs, as kernels whose plan is a struct below. One source over vectors
// (lanes.h) is compiled for each instruction set. All compute in fp32, and results do not depend on the
// number of threads.
#ifndef GEMMAUDIT_DECODER_H
#define GEMMAUDIT_DECODER_H

#include "pool.h"

typedef struct {
  int64_t rows, hidden, vocab;
  ga_dtype dtype;
  const int32_t *tokens;
  const void *table;
  float *x;
} ga_embedding;

typedef struct {
  int64_t rows, hidden, from_row;
  ga_dtype dtype;
  float epsilon;
  float *x;
  const void *delta; // or NULL
  const void *weight;
  void *out;
} ga_normalization;

typedef struct {
  int64_t rows, query, kv, dim, positions, capacity;
  ga_dtype dtype;
  void *qkv, *keys, *values;
  const int32_t *position;
  const float *table;
  const void *query_norm, *key_norm; // RMSNorm of each head before it is rotated: dim weights each, or NULL
  float epsilon;
} ga_rotation;

typedef struct {
  int64_t rows, inner;
  ga_dtype dtype;
  const void *gate_up;
  void *out;
} ga_gated_unit;

typedef struct {
  int64_t vocab, history_len;
  ga_dtype dtype;
  const void *logits;
  int32_t *token, *position, *history; // history may be NULL
} ga_choice;

typedef struct {
  int64_t rows, query, kv, dim, window, ldq, capacity;
  ga_dtype dtype;
  float scale; // of scores, as exponents of two
  const void *q, *keys, *values;
  const int32_t *position;
  void *out;
  // With few rows, the sequence is also split among threads, into at most splits parts. Their sums follow
  // this struct: [splits][rows * query][GA_PART(dim)].
  int64_t splits;
} ga_attention;

static inline float *ga_attention_parts(const ga_attention *a) { return (float *)(a + 1); }

// GA_PART is the size of a part: the output, its maximum and its sum of weights.
#define GA_PART(dim) ((dim) + 2)

// Limits for splitting the sequence: a minimum number of keys per part makes adding parts cheap compared with
// reading them.
enum { GA_SPLIT_ROWS = 8, GA_SPLIT_KEYS = 512, GA_SPLITS = 32, GA_TILE_KEYS = 64 };

// GA_MAX_DIM is the largest head dimension; attention keeps about ten tiles of it in scratch.
enum { GA_MAX_DIM = 2048 };

typedef struct {
  ga_kernel embed, normalize, rotate, attend, gate, choose;
} ga_decoder;

const ga_decoder *ga_decoder_for(unsigned isa);

extern const ga_decoder ga_portable_decoder;
#if defined(__x86_64__)
extern const ga_decoder ga_avx2_decoder, ga_avx512_decoder;
#endif

#endif
