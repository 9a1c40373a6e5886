// Epilogues over the vectors of lanes.h.
#ifndef GEMMAUDIT_EPILOGUE_LANES_H
#define GEMMAUDIT_EPILOGUE_LANES_H

#include "epilogue.h"
#include "lanes.h"
#include "pool.h"

GA_INLINE lanes absolute(lanes x) { return (lanes)((words)x & 0x7fffffff); }

// sigmoid is 1 ÷ (1 + e^-x), from e^-|x|, which does not overflow.
GA_INLINE lanes sigmoid(lanes x) {
  lanes e = exp2_of(absolute(x) * -GA_LOG2_E);
  return pick(x < all(0), e, all(1)) / (e + 1);
}

// normal is Φ(x). With z = |x|÷√2, ½erfc z is a polynomial of 1 ÷ (1 + pz) times ½e^-z² with an error of 8e-8 (Abramowitz and
// Stegun, 7.1.26).
GA_INLINE lanes normal(lanes x) {
  lanes z = absolute(x) * 0.70710678118654752f, t = 1 / GA_FUSED(z, all(0.3275911f), all(1));
  lanes p = GA_FUSED(t, all(0.5f * 1.061405429f), all(0.5f * -1.453152027f));
  p = GA_FUSED(p, t, all(0.5f * 1.421413741f));
  p = GA_FUSED(p, t, all(0.5f * -0.284496736f));
  p = GA_FUSED(p, t, all(0.5f * 0.254829592f));
  lanes tail = p * t * exp2_of(z * z * -GA_LOG2_E);
  return pick(x < all(0), tail, 1 - tail);
}

GA_INLINE lanes activated(const ga_activation activation, lanes x) {
  switch (activation) {
    case GA_RELU: return pick(x < all(0), all(0), x); // NaN stays
    case GA_GELU: return x * normal(x);
    // ½(1 + tanh u) is the sigmoid of 2u.
    case GA_TANH_GELU: return x * sigmoid(x * GA_FUSED(x * x, all(2 * 0.79788456080286536f * 0.044715f), all(2 * 0.79788456080286536f)));
    case GA_SILU: return x * sigmoid(x);
    default: return x;
  }
}

GA_INLINE void apply_rows(const ga_activation activation, const ga_epilogue *e, float *sums, int64_t rows, int64_t ld,
                          int64_t col, int64_t cols) {
  const float *bias = e->bias == NULL ? NULL : e->bias + col;
  for (int64_t r = 0; r < rows; r++, sums += ld) {
    int64_t i = 0;
    for (; i + LANES <= cols; i += LANES) {
      lanes x = load(GA_FP32, sums, i);
      if (bias != NULL) x += load(GA_FP32, bias, i);
      store(GA_FP32, sums, i, activated(activation, x));
    }
    if (i == cols) continue;
    lanes x = load_some(GA_FP32, sums, i, cols - i);
    if (bias != NULL) x += load_some(GA_FP32, bias, i, cols - i);
    store_some(GA_FP32, sums, i, cols - i, activated(activation, x));
  }
}

// multiply_gates writes SiLU(gate)·up for cols columns; out may be gate. The biases may be NULL.
GA_INLINE void multiply_gates(const float *gate, const float *up, const float *gate_bias, const float *up_bias, int64_t cols,
                              float *out) {
  int64_t i = 0;
  for (; i + LANES <= cols; i += LANES) {
    lanes x = load(GA_FP32, gate, i), y = load(GA_FP32, up, i);
    if (gate_bias != NULL) x += load(GA_FP32, gate_bias, i), y += load(GA_FP32, up_bias, i);
    store(GA_FP32, out, i, activated(GA_SILU, x) * y);
  }
  if (i == cols) return;
  int64_t n = cols - i;
  lanes x = load_some(GA_FP32, gate, i, n), y = load_some(GA_FP32, up, i, n);
  if (gate_bias != NULL) x += load_some(GA_FP32, gate_bias, i, n), y += load_some(GA_FP32, up_bias, i, n);
  store_some(GA_FP32, out, i, n, activated(GA_SILU, x) * y);
}

GA_INLINE void gate_rows(const ga_epilogue *e, float *sums, int64_t rows, int64_t ld, int64_t col, int64_t cols) {
  const float *bias = e->bias == NULL ? NULL : e->bias + col, *up_bias = bias == NULL ? NULL : bias + GA_GATES;
  for (int64_t r = 0; r < rows; r++, sums += ld) multiply_gates(sums, sums + GA_GATES, bias, up_bias, cols, sums);
}

GA_INLINE void add_residual(const ga_dtype type, const ga_gemm *g, float *sums, int64_t rows, int64_t ld, int64_t row, int64_t col,
                            int64_t cols) {
  const char *residual = (const char *)g->residual + (row * g->n + col) * ga_size(type);
  for (int64_t r = 0; r < rows; r++, sums += ld, residual += g->n * ga_size(type)) {
    int64_t i = 0;
    for (; i + LANES <= cols; i += LANES) store(GA_FP32, sums, i, load(GA_FP32, sums, i) + load(type, residual, i));
    if (i < cols)
      store_some(GA_FP32, sums, i, cols - i, load_some(GA_FP32, sums, i, cols - i) + load_some(type, residual, i, cols - i));
  }
}

static void apply(const ga_gemm *g, float *sums, int64_t rows, int64_t ld, int64_t row, int64_t col, int64_t cols) {
  const ga_epilogue *e = g->epilogue;
  switch (e->activation) {
    case GA_RELU: apply_rows(GA_RELU, e, sums, rows, ld, col, cols); break;
    case GA_GELU: apply_rows(GA_GELU, e, sums, rows, ld, col, cols); break;
    case GA_TANH_GELU: apply_rows(GA_TANH_GELU, e, sums, rows, ld, col, cols); break;
    case GA_SILU: apply_rows(GA_SILU, e, sums, rows, ld, col, cols); break;
    case GA_GATED: gate_rows(e, sums, rows, ld, col, cols); break;
    case GA_RESIDUAL:
      if (e->bias != NULL) apply_rows(GA_NO_ACTIVATION, e, sums, rows, ld, col, cols);
      GA_OF_TYPES(g->dtype, add_residual, g, sums, rows, ld, row, col, cols);
      break;
    default: apply_rows(GA_NO_ACTIVATION, e, sums, rows, ld, col, cols); break;
  }
}

// CHUNK is the number of elements that are widened at once.
enum { CHUNK = 1024 };

// pass divides C into chunks of rows, which threads share.
static void pass(const ga_gemm *g, int tid, int nthreads, void *scratch, ga_team *team) {
  (void)team;
  const ga_epilogue *e = g->epilogue;
  int64_t across = (e->columns + CHUNK - 1) / CHUNK, size = ga_size(g->dtype), from, to;
  float *wide = scratch;
  ga_share(g->m * across, nthreads, tid, &from, &to);
  for (int64_t i = from; i < to; i++) {
    int64_t row = i / across, col = i % across * CHUNK, cols = e->columns - col < CHUNK ? e->columns - col : CHUNK;
    char *c = (char *)g->c + (row * g->ldc + col) * size;
    if (e->activation == GA_GATED) {
      const char *gates = (const char *)g->a + (row * g->lda + col) * size;
      GA_OF_TYPES(g->dtype, widen, gates, cols, wide);
      GA_OF_TYPES(g->dtype, widen, gates + e->columns * size, cols, wide + CHUNK);
      const float *bias = e->bias == NULL ? NULL : e->bias + col;
      multiply_gates(wide, wide + CHUNK, bias, bias == NULL ? NULL : bias + e->columns, cols, wide);
      GA_OF_TYPES(g->dtype, narrow, wide, cols, c);
      continue;
    }
    if (g->dtype == GA_FP32) {
      e->apply(g, (float *)(void *)c, 1, cols, row, col, cols);
      continue;
    }
    GA_OF_TYPES(g->dtype, widen, c, cols, wide);
    e->apply(g, wide, 1, cols, row, col, cols);
    GA_OF_TYPES(g->dtype, narrow, wide, cols, c);
  }
}

#endif
