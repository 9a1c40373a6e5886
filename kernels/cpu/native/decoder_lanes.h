// Embedding, normalization, rotation, gated unit and token choice over the vectors of lanes.h.
#ifndef GEMMAUDIT_DECODER_LANES_H
#define GEMMAUDIT_DECODER_LANES_H

#include <math.h>

#include "decoder.h"
#include "lanes.h"

// SEGMENT is the size of a piece of a row, for splitting rows among threads.
enum { SEGMENT = 1024 };

GA_INLINE void embed_of(const ga_dtype type, const ga_embedding *e, int tid, int nthreads) {
  int64_t segments = (e->hidden + SEGMENT - 1) / SEGMENT, from, to;
  ga_share(e->rows * segments, nthreads, tid, &from, &to);
  for (int64_t i = from; i < to; i++) {
    int64_t row = i / segments, at = i % segments * SEGMENT, n = e->hidden - at < SEGMENT ? e->hidden - at : SEGMENT;
    int64_t token = e->tokens[row];
    float *x = e->x + row * e->hidden + at;
    if (token < 0 || token >= e->vocab) memset(x, 0, (size_t)n * 4);
    else widen(type, (const char *)e->table + (token * e->hidden + at) * ga_size(type), n, x);
  }
}

static void embed(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team) {
  (void)scratch;
  (void)team;
  const ga_embedding *e = g->plan;
  GA_OF_TYPES(e->dtype, embed_of, e, tid, nthreads)
}

GA_INLINE void normalize_row(const ga_dtype type, const ga_normalization *n, int64_t row) {
  float *x = n->x + row * n->hidden;
  int64_t whole = n->hidden / LANES * LANES, rest = n->hidden - whole;
  lanes sums[4] = {{0}};
  for (int64_t i = 0, turn = 0; i < whole; i += LANES, turn = (turn + 1) % 4) {
    lanes v = load(GA_FP32, x, i);
    if (n->delta != NULL) {
      v += load(type, n->delta, row * n->hidden + i);
      store(GA_FP32, x, i, v);
    }
    sums[turn] = GA_FUSED(v, v, sums[turn]);
  }
  if (rest > 0) {
    lanes v = load_some(GA_FP32, x, whole, rest);
    if (n->delta != NULL) {
      v += load_some(type, n->delta, row * n->hidden + whole, rest);
      store_some(GA_FP32, x, whole, rest, v);
    }
    sums[0] = GA_FUSED(v, v, sums[0]);
  }
  if (row < n->from_row) return;
  lanes r = all(1 / sqrtf(sum_of((sums[0] + sums[1]) + (sums[2] + sums[3])) / (float)n->hidden + n->epsilon));
  int64_t out = (row - n->from_row) * n->hidden;
  for (int64_t i = 0; i < whole; i += LANES) store(type, n->out, out + i, load(GA_FP32, x, i) * r * load(type, n->weight, i));
  if (rest > 0)
    store_some(type, n->out, out + whole, rest, load_some(GA_FP32, x, whole, rest) * r * load_some(type, n->weight, whole, rest));
}

GA_INLINE void normalize_of(const ga_dtype type, const ga_normalization *n, int tid, int nthreads) {
  int64_t from, to;
  ga_share(n->rows, nthreads, tid, &from, &to);
  for (int64_t row = from; row < to; row++) normalize_row(type, n, row);
}

static void normalize(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team) {
  (void)scratch;
  (void)team;
  const ga_normalization *n = g->plan;
  GA_OF_TYPES(n->dtype, normalize_of, n, tid, nthreads)
}

// normalize_head is RMSNorm of one head in fp32.
GA_INLINE void normalize_head(const ga_dtype type, float *x, int64_t dim, const void *weight, float epsilon) {
  float square = 0;
  for (int64_t e = 0; e < dim; e++) square += x[e] * x[e];
  float scale = 1 / sqrtf(square / (float)dim + epsilon), *wide = x + dim;
  widen(type, weight, dim, wide);
  for (int64_t e = 0; e < dim; e++) x[e] = x[e] * scale * wide[e];
}

GA_INLINE void rotate_of(const ga_dtype type, const ga_rotation *r, int tid, int nthreads, float *scratch) {
  int64_t heads = r->query + 2 * r->kv, half = r->dim / 2, size = ga_size(type), from, to;
  int64_t first = *r->position > 0 ? *r->position : 0;
  ga_share(r->rows * heads, nthreads, tid, &from, &to);
  for (int64_t i = from; i < to; i++) {
    int64_t row = i / heads, head = i % heads, position = first + row;
    char *x = (char *)r->qkv + i * r->dim * size;
    int64_t slot = ((head - r->query) % r->kv * r->capacity + position % r->capacity) * r->dim * size;
    if (head >= r->query + r->kv) {
      memcpy((char *)r->values + slot, x, (size_t)(r->dim * size));
      continue;
    }
    // Positions beyond the table are a caller's error; clamping prevents reads out of bounds.
    const float *angle = r->table + (position < r->positions ? position : r->positions - 1) * r->dim;
    float *a = scratch, *b = scratch + half;
    widen(type, x, r->dim, scratch);
    const void *norm = head < r->query ? r->query_norm : r->key_norm;
    if (norm != NULL) normalize_head(type, scratch, r->dim, norm, r->epsilon);
    for (int64_t e = 0; e < half; e++) {
      float cosine = angle[2 * e], sine = angle[2 * e + 1], turned = a[e] * cosine - b[e] * sine;
      b[e] = b[e] * cosine + a[e] * sine;
      a[e] = turned;
    }
    narrow(type, scratch, r->dim, head < r->query ? x : (char *)r->keys + slot);
  }
}

static void rotate(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team) {
  (void)team;
  const ga_rotation *r = g->plan;
  GA_OF_TYPES(r->dtype, rotate_of, r, tid, nthreads, scratch)
}

// silu_of is x / (1 + e^-x), computed with e^-|x| to avoid overflow.
GA_INLINE lanes silu_of(lanes x) {
  lanes e = exp2_of(pick(x < (lanes){0}, x, -x) * GA_LOG2_E);
  return x * pick(x < (lanes){0}, e, all(1)) / (1 + e);
}

GA_INLINE void gate_of(const ga_dtype type, const ga_gated_unit *u, int tid, int nthreads) {
  int64_t segments = (u->inner + SEGMENT - 1) / SEGMENT, from, to;
  ga_share(u->rows * segments, nthreads, tid, &from, &to);
  for (int64_t s = from; s < to; s++) {
    int64_t row = s / segments, at = s % segments * SEGMENT, end = at + SEGMENT < u->inner ? at + SEGMENT : u->inner;
    int64_t gate = row * 2 * u->inner, up = gate + u->inner, out = row * u->inner, i = at;
    for (; i + LANES <= end; i += LANES)
      store(type, u->out, out + i, silu_of(load(type, u->gate_up, gate + i)) * load(type, u->gate_up, up + i));
    if (i < end)
      store_some(type, u->out, out + i, end - i,
                 silu_of(load_some(type, u->gate_up, gate + i, end - i)) * load_some(type, u->gate_up, up + i, end - i));
  }
}

static void gate(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team) {
  (void)scratch;
  (void)team;
  const ga_gated_unit *u = g->plan;
  GA_OF_TYPES(u->dtype, gate_of, u, tid, nthreads)
}

// A thread's result: the first position of its maximum, or -1.
typedef struct {
  float value;
  int64_t at;
} found;

// look finds the maximum, then its position. NaN is neither greater than nor equal to any value.
GA_INLINE void look(const ga_dtype type, const ga_choice *c, int64_t from, int64_t to, found *f) {
  lanes best = all(-INFINITY);
  int64_t i = from;
  for (; i + LANES <= to; i += LANES) best = larger(load(type, c->logits, i), best);
  float top = largest_of(best);
  for (; i < to; i++) {
    float x = load_some(type, c->logits, i, 1)[0];
    if (x > top) top = x;
  }
  *f = (found){top, -1};
  for (i = from; i < to && f->at < 0;) {
    if (i + LANES <= to) {
      words equal = load(type, c->logits, i) == all(top);
      int32_t any = 0;
      for (int l = 0; l < LANES; l++) any |= equal[l];
      if (!any) {
        i += LANES;
        continue;
      }
    }
    if (load_some(type, c->logits, i, 1)[0] == top) f->at = i;
    i++;
  }
}

static void choose(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team) {
  const ga_choice *c = g->plan;
  int64_t from, to;
  found *own = scratch;
  ga_share(c->vocab, nthreads, tid, &from, &to);
  GA_OF_TYPES(c->dtype, look, c, from, to, own)
  ga_barrier(team);
  if (tid != 0) return;
  found best = *own;
  for (int i = 1; i < nthreads; i++) {
    const found *f = ga_team_scratch(team, i);
    if (f->at >= 0 && (best.at < 0 || f->value > best.value)) best = *f;
  }
  int32_t token = best.at < 0 ? 0 : (int32_t)best.at; // all NaN
  int32_t position = *c->position;
  *c->token = token;
  if (c->history != NULL) c->history[(uint32_t)position % (uint64_t)c->history_len] = token;
  *c->position = (int32_t)((uint32_t)position + 1);
}

#endif
