// Attention with online softmax (Milakov and Gimelshein 2018): keys come in tiles, and a tile that raises the
// maximum score rescales the output sums.
//
// One item of work is up to QUERIES query vectors: heads that share a KV head, of consecutive rows, in one
// pass over the cache. With many vectors, a tile of keys is widened, transposed and multiplied as a matrix.
// With few, as in decoding, reading the cache dominates: keys and values are multiplied in place, each
// prefetched to L1 while the other is used.
//
// With few rows, the sequence is split too, at positions independent of the number of threads. Parts are
// added in order, so the number of threads does not change a bit.
#ifndef GEMMAUDIT_ATTENTION_LANES_H
#define GEMMAUDIT_ATTENTION_LANES_H

#include <math.h>

#include "decoder.h"
#include "lanes.h"

// FEW is the maximum number of query vectors for multiplying keys in place.
enum { QUERIES = 96, KEYS = GA_TILE_KEYS, FEW = 8 };

// Scratch of one item. Rows of dim floats are padded to multiples of 16.
typedef struct {
  float *q, *out;            // [QUERIES][dim]
  float *weights;            // [QUERIES][KEYS], initially scores
  float *wide;               // [KEYS][dim]
  float *across;             // [dim][KEYS]
  float top[QUERIES], sum[QUERIES];
} workspace;

typedef struct {
  const ga_attention *a;
  int64_t dim; // padded
  int64_t position, group;
  int64_t kv, first, count; // query vectors: row * group + head within the group
  int64_t lo, hi;           // positions of keys
  workspace w;
} item;

GA_INLINE int64_t sees_from(const ga_attention *a, int64_t position) {
  return a->window > 0 && position >= a->window ? position - a->window + 1 : 0;
}

// multiply_tile adds a[R][depth] · b[depth][W vectors] to c, or with set overwrites c.
GA_INLINE void multiply_tile(const int R, const int W, int set, int64_t depth, const float *a, int64_t lda, const float *b,
                             int64_t ldb, float *c, int64_t ldc) {
  lanes sum[TILE_ROWS][TILE_VECTORS];
  _Pragma("GCC unroll 8") for (int r = 0; r < R; r++)
    _Pragma("GCC unroll 8") for (int v = 0; v < W; v++)
      sum[r][v] = set ? (lanes){0} : load(GA_FP32, c, r * ldc + v * LANES);
  for (int64_t k = 0; k < depth; k++) {
    lanes x[TILE_VECTORS];
    _Pragma("GCC unroll 8") for (int v = 0; v < W; v++) x[v] = load(GA_FP32, b, k * ldb + v * LANES);
    _Pragma("GCC unroll 8") for (int r = 0; r < R; r++)
      _Pragma("GCC unroll 8") for (int v = 0; v < W; v++) sum[r][v] = GA_FUSED(all(a[r * lda + k]), x[v], sum[r][v]);
  }
  _Pragma("GCC unroll 8") for (int r = 0; r < R; r++)
    _Pragma("GCC unroll 8") for (int v = 0; v < W; v++) store(GA_FP32, c, r * ldc + v * LANES, sum[r][v]);
}

// multiply is multiply_tile for any number of rows, and of columns in whole vectors.
static void multiply(int set, int64_t rows, int64_t cols, int64_t depth, const float *a, int64_t lda, const float *b,
                     int64_t ldb, float *c, int64_t ldc) {
  for (int64_t j = 0; j < cols;) {
    int wide = j + TILE_VECTORS * LANES <= cols;
    for (int64_t i = 0; i < rows;) {
      const float *from = a + i * lda;
      float *to = c + i * ldc + j;
      int whole = i + TILE_ROWS <= rows;
      if (wide && whole) multiply_tile(TILE_ROWS, TILE_VECTORS, set, depth, from, lda, b + j, ldb, to, ldc);
      else if (wide) multiply_tile(1, TILE_VECTORS, set, depth, from, lda, b + j, ldb, to, ldc);
      else if (whole) multiply_tile(TILE_ROWS, 1, set, depth, from, lda, b + j, ldb, to, ldc);
      else multiply_tile(1, 1, set, depth, from, lda, b + j, ldb, to, ldc);
      i += whole ? TILE_ROWS : 1;
    }
    j += wide ? TILE_VECTORS * LANES : LANES;
  }
}

GA_INLINE void turn(const ga_dtype type, const item *t, const char *keys, int64_t j0, int64_t j1) {
  const ga_attention *a = t->a;
  int64_t dim = t->dim;
  for (int64_t j = j0 / 4 * 4; j < j1; j += 4) {
    float *wide = t->w.wide;
    for (int64_t k = 0; k < 4; k++) widen(type, keys + (j + k) * a->dim * ga_size(type), a->dim, wide + k * dim);
    for (int64_t e = 0; e < dim; e += 4) {
      four r0 = *(four *)(wide + e), r1 = *(four *)(wide + dim + e), r2 = *(four *)(wide + 2 * dim + e), r3 = *(four *)(wide + 3 * dim + e);
      float *to = t->w.across + e * KEYS + j;
      four a0 = GA_FOUR(r0, r1, 0, 4, 1, 5), a1 = GA_FOUR(r0, r1, 2, 6, 3, 7);
      four b0 = GA_FOUR(r2, r3, 0, 4, 1, 5), b1 = GA_FOUR(r2, r3, 2, 6, 3, 7);
      *(four *)to = GA_FOUR(a0, b0, 0, 1, 4, 5);
      *(four *)(to + KEYS) = GA_FOUR(a0, b0, 2, 3, 6, 7);
      *(four *)(to + 2 * KEYS) = GA_FOUR(a1, b1, 0, 1, 4, 5);
      *(four *)(to + 3 * KEYS) = GA_FOUR(a1, b1, 2, 3, 6, 7);
    }
  }
}

// score_few multiplies N ≤ FEW_QUERIES query vectors by keys [j0,j1) in place, four at a time. Other keys
// that it reads belong to the same tile and are masked.
GA_INLINE void score_few(const ga_dtype type, const int N, const item *t, int64_t i, const char *keys, int64_t j0, int64_t j1,
                         const char *ahead) {
  int64_t dim = t->dim, bytes = dim * ga_size(type);
  for (int64_t j = j0 / 4 * 4; j < j1; j += 4) {
    const char *key = keys + j * bytes;
    lanes sum[FEW_QUERIES][4] = {{{0}}};
    for (int64_t at = 0; at < 4 * bytes; at += 64) __builtin_prefetch(ahead + j * bytes + at);
    for (int64_t e = 0; e < dim; e += LANES) {
      lanes k[4];
      _Pragma("GCC unroll 4") for (int n = 0; n < 4; n++) k[n] = load(type, key + n * bytes, e);
      _Pragma("GCC unroll 4") for (int q = 0; q < N; q++) {
        lanes x = load(GA_FP32, t->w.q, (i + q) * dim + e);
        _Pragma("GCC unroll 4") for (int n = 0; n < 4; n++) sum[q][n] = GA_FUSED(x, k[n], sum[q][n]);
      }
    }
    _Pragma("GCC unroll 4") for (int q = 0; q < N; q++) {
      // Pairs of vectors are added first to get four keys in each four lanes; then the fours are summed.
      lanes ab = GA_LOW(sum[q][0], sum[q][1]) + GA_HIGH(sum[q][0], sum[q][1]);
      lanes cd = GA_LOW(sum[q][2], sum[q][3]) + GA_HIGH(sum[q][2], sum[q][3]);
      *(four *)(t->w.weights + (i + q) * KEYS + j) = fold(GA_FRONT(ab, cd) + GA_BACK(ab, cd));
    }
  }
}

// add_few adds N vectors' weights times values [j0,j1) of a tile in place, for W vectors of columns.
GA_INLINE void add_few(const ga_dtype type, const int N, const int W, const item *t, int64_t i, const char *values, int64_t j0,
                       int64_t j1, int64_t e, const char *ahead) {
  int64_t dim = t->dim, bytes = dim * ga_size(type);
  lanes sum[FEW_QUERIES][TILE_VECTORS];
  _Pragma("GCC unroll 4") for (int q = 0; q < N; q++)
    _Pragma("GCC unroll 4") for (int v = 0; v < W; v++) sum[q][v] = load(GA_FP32, t->w.out, (i + q) * dim + e + v * LANES);
  for (int64_t j = j0; j < j1; j++) {
    lanes x[TILE_VECTORS];
    for (int64_t at = e * ga_size(type); at < (e + W * LANES) * ga_size(type); at += 64) __builtin_prefetch(ahead + j * bytes + at);
    _Pragma("GCC unroll 4") for (int v = 0; v < W; v++) x[v] = load(type, values + j * bytes, e + v * LANES);
    _Pragma("GCC unroll 4") for (int q = 0; q < N; q++)
      _Pragma("GCC unroll 4") for (int v = 0; v < W; v++) sum[q][v] = GA_FUSED(all(t->w.weights[(i + q) * KEYS + j]), x[v], sum[q][v]);
  }
  _Pragma("GCC unroll 4") for (int q = 0; q < N; q++)
    _Pragma("GCC unroll 4") for (int v = 0; v < W; v++) store(GA_FP32, t->w.out, (i + q) * dim + e + v * LANES, sum[q][v]);
}

GA_INLINE void add_values(const ga_dtype type, const int N, const item *t, int64_t i, const char *values, int64_t j0, int64_t j1,
                          const char *ahead) {
  int64_t e = 0;
  for (; e + TILE_VECTORS * LANES <= t->dim; e += TILE_VECTORS * LANES)
    add_few(type, N, TILE_VECTORS, t, i, values, j0, j1, e, ahead);
  for (; e < t->dim; e += LANES) add_few(type, N, 1, t, i, values, j0, j1, e, ahead);
}

// soften converts the scores of vector i to weights, 0 for masked keys, and rescales its sums to the new
// maximum.
GA_INLINE void soften(item *t, int64_t i, int64_t tile) {
  workspace *w = &t->w;
  float *scores = w->weights + i * KEYS;
  int64_t row = t->position + (t->first + i) / t->group;
  int64_t from = sees_from(t->a, row), end = row + 1;
  if (from < t->lo) from = t->lo;
  if (end > t->hi) end = t->hi;
  from -= tile;
  end -= tile;
  if (from >= end || end <= 0 || from >= KEYS) {
    memset(scores, 0, KEYS * 4);
    return;
  }
  words at;
  for (int l = 0; l < LANES; l++) at[l] = l;
  lanes best = all(w->top[i]);
  for (int v = 0; v < KEYS / LANES; v++) {
    words here = at + v * LANES, seen = (here >= (int32_t)(from < 0 ? 0 : from)) & (here < (int32_t)(end < KEYS ? end : KEYS));
    lanes s = pick(seen, load(GA_FP32, scores, v * LANES), all(-INFINITY));
    store(GA_FP32, scores, v * LANES, s);
    best = larger(s, best);
  }
  float top = largest_of(best);
  lanes sum = {0};
  for (int v = 0; v < KEYS / LANES; v++) {
    lanes weight = exp2_of(load(GA_FP32, scores, v * LANES) - top);
    store(GA_FP32, scores, v * LANES, weight);
    sum += weight;
  }
  if (top != w->top[i]) {
    float factor = exp2_of(all(w->top[i] - top))[0];
    w->sum[i] *= factor;
    for (int64_t e = 0; e < t->dim; e += LANES) store(GA_FP32, w->out, i * t->dim + e, load(GA_FP32, w->out, i * t->dim + e) * factor);
    w->top[i] = top;
  }
  w->sum[i] += sum_of(sum);
}

// GA_UP_TO_FEW calls the copy of a function for n queries, at most FEW_QUERIES.
#define GA_UP_TO_FEW(n, function, ...)                              \
  switch ((n) < FEW_QUERIES ? (n) : FEW_QUERIES) {                  \
    case 1: function(type, 1, __VA_ARGS__); break;                  \
    case 2: function(type, 2, __VA_ARGS__); break;                  \
    case 3: function(type, FEW_QUERIES < 3 ? 1 : 3, __VA_ARGS__); break; \
    default: function(type, FEW_QUERIES, __VA_ARGS__); break;       \
  }

// pass processes the item's keys by tiles. Tiles start at multiples of KEYS in the sequence, and therefore in
// the ring buffer.
GA_INLINE void pass(const ga_dtype type, item *t) {
  const ga_attention *a = t->a;
  int64_t bytes = a->dim * ga_size(type), ring = t->kv * a->capacity * bytes;
  int few = t->count <= FEW && a->dim % LANES == 0 && a->dim == t->dim;
  for (int64_t tile = t->lo / KEYS * KEYS; tile < t->hi; tile += KEYS) {
    int64_t j0 = t->lo > tile ? t->lo - tile : 0, j1 = t->hi - tile < KEYS ? t->hi - tile : KEYS;
    const char *keys = (const char *)a->keys + ring + tile % a->capacity * bytes;
    const char *values = (const char *)a->values + ring + tile % a->capacity * bytes;
    const char *next = (const char *)a->keys + ring + (tile + KEYS) % a->capacity * bytes;
    if (few) {
      for (int64_t i = 0; i < t->count; i += FEW_QUERIES) GA_UP_TO_FEW(t->count - i, score_few, t, i, keys, j0, j1, values)
    } else {
      turn(type, t, keys, j0, j1);
      multiply(1, t->count, KEYS, t->dim, t->w.q, t->dim, t->w.across, KEYS, t->w.weights, KEYS);
    }
    for (int64_t i = 0; i < t->count; i++) soften(t, i, tile);
    if (few) {
      for (int64_t i = 0; i < t->count; i += FEW_QUERIES) GA_UP_TO_FEW(t->count - i, add_values, t, i, values, j0, j1, next)
    } else {
      for (int64_t j = j0; j < j1; j++) widen(type, values + j * bytes, a->dim, t->w.wide + j * t->dim);
      multiply(0, t->count, t->dim, j1 - j0, t->w.weights + j0, KEYS, t->w.wide + j0 * t->dim, t->dim, t->w.out, t->dim);
    }
  }
}

// attend_item computes one item into the output, or into part if the sequence is split.
GA_INLINE void attend_item(const ga_dtype type, item *t, float *part) {
  const ga_attention *a = t->a;
  workspace *w = &t->w;
  for (int64_t i = 0; i < t->count; i++) {
    int64_t row = (t->first + i) / t->group, head = t->kv * t->group + (t->first + i) % t->group;
    float *q = w->q + i * t->dim;
    memset(q, 0, (size_t)t->dim * 4);
    widen(type, (const char *)a->q + (row * a->ldq + head * a->dim) * ga_size(type), a->dim, q);
    for (int64_t e = 0; e < t->dim; e += LANES) store(GA_FP32, q, e, load(GA_FP32, q, e) * a->scale);
    w->top[i] = -INFINITY;
    w->sum[i] = 0;
  }
  memset(w->out, 0, (size_t)(t->count * t->dim) * 4);
  pass(type, t);
  for (int64_t i = 0; i < t->count; i++) {
    int64_t row = (t->first + i) / t->group, head = t->kv * t->group + (t->first + i) % t->group;
    int64_t at = row * a->query + head;
    float *out = w->out + i * t->dim;
    if (part != NULL) {
      float *p = part + at * GA_PART(a->dim);
      memcpy(p, out, (size_t)a->dim * 4);
      p[a->dim] = w->top[i];
      p[a->dim + 1] = w->sum[i];
      continue;
    }
    float share = 1 / w->sum[i];
    for (int64_t e = 0; e < t->dim; e += LANES) store(GA_FP32, out, e, load(GA_FP32, out, e) * share);
    narrow(type, out, a->dim, (char *)a->out + at * a->dim * ga_size(type));
  }
}

GA_INLINE void merge(const ga_dtype type, const ga_attention *a, int64_t at, int64_t splits, float *out) {
  int64_t stride = a->rows * a->query * GA_PART(a->dim);
  const float *parts = ga_attention_parts(a) + at * GA_PART(a->dim);
  float top = -INFINITY, sum = 0;
  for (int64_t s = 0; s < splits; s++)
    if (parts[s * stride + a->dim] > top) top = parts[s * stride + a->dim];
  memset(out, 0, (size_t)a->dim * 4);
  for (int64_t s = 0; s < splits; s++) {
    const float *p = parts + s * stride;
    if (p[a->dim + 1] == 0) continue; // fully masked part
    float factor = exp2_of(all(p[a->dim] - top))[0];
    sum += p[a->dim + 1] * factor;
    for (int64_t e = 0; e < a->dim; e++) out[e] += p[e] * factor;
  }
  for (int64_t e = 0; e < a->dim; e++) out[e] /= sum;
  narrow(type, out, a->dim, (char *)a->out + at * a->dim * ga_size(type));
}

GA_INLINE void attend_of(const ga_dtype type, const ga_attention *a, int tid, int nthreads, char *scratch, ga_team *team) {
  item t = {.a = a, .dim = (a->dim + 15) / 16 * 16, .position = *a->position > 0 ? *a->position : 0, .group = a->query / a->kv};
  float *f = (float *)scratch;
  t.w.q = f;
  t.w.out = t.w.q + QUERIES * t.dim;
  t.w.wide = t.w.out + QUERIES * t.dim;
  t.w.across = t.w.wide + KEYS * t.dim;
  t.w.weights = t.w.across + KEYS * t.dim;
  // Padding beyond the head dimension takes part in products, so it must be zero.
  if (a->dim < t.dim) memset(t.w.wide, 0, (size_t)(KEYS * t.dim) * 4);

  int64_t lo = sees_from(a, t.position), hi = t.position + a->rows, begin = lo / KEYS * KEYS;
  int64_t chunk = hi - begin, splits = 1;
  if (a->splits > 1) {
    chunk = (hi - begin + a->splits - 1) / a->splits;
    chunk = chunk < GA_SPLIT_KEYS ? GA_SPLIT_KEYS : (chunk + KEYS - 1) / KEYS * KEYS;
    splits = (hi - begin + chunk - 1) / chunk;
  }
  int64_t vectors = a->rows * t.group, blocks = (vectors + QUERIES - 1) / QUERIES, items = blocks * a->kv * splits;
  // The last rows see most keys; they come first for load balance.
  for (int64_t n = tid; n < items; n += nthreads) {
    int64_t split = n % splits;
    t.kv = n / splits % a->kv;
    t.first = (blocks - 1 - n / splits / a->kv) * QUERIES;
    t.count = vectors - t.first < QUERIES ? vectors - t.first : QUERIES;
    t.lo = sees_from(a, t.position + t.first / t.group);
    t.hi = t.position + (t.first + t.count - 1) / t.group + 1;
    if (t.lo < begin + split * chunk) t.lo = begin + split * chunk;
    if (t.hi > begin + (split + 1) * chunk) t.hi = begin + (split + 1) * chunk;
    attend_item(type, &t, splits == 1 ? NULL : ga_attention_parts(a) + split * a->rows * a->query * GA_PART(a->dim));
  }
  if (splits == 1) return;
  ga_barrier(team);
  int64_t from, to;
  ga_share(a->rows * a->query, nthreads, tid, &from, &to);
  for (int64_t at = from; at < to; at++) merge(type, a, at, splits, t.w.out);
}

static void attend(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team) {
  const ga_attention *a = g->plan;
  GA_OF_TYPES(a->dtype, attend_of, a, tid, nthreads, scratch, team)
}

#endif
