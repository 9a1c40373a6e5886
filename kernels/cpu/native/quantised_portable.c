// Quantized weights on 16-byte vectors, part of each architecture's baseline.
#include "quantised.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#define GA_FUSED(a, b, c) (lanes)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b))
#else
#define GA_FUSED(a, b, c) ((a) * (b) + (c))
#endif

#define GROUP 1
#define TERMS 1
#define PAIRED 0
#define LANES 4
#define ROWS 4
#define COLUMNS(rows) 2
#define FEW_COLUMNS(rows) 2
#define TILE 3
#define GA_QUARTER(x, i) (four)(x)

#include "lanes.h"

typedef uint32_t codes __attribute__((vector_size(16)));
typedef codes codes_anywhere __attribute__((aligned(1), may_alias));
typedef struct { float weights[16]; } table;

GA_INLINE codes load_codes(const char *p) { return *(const codes_anywhere *)p; }

GA_INLINE table table_of(const lanes *values) {
  table t;
  memcpy(t.weights, values, sizeof t.weights);
  return t;
}

GA_INLINE table integer_table(const float *p) {
  table t;
  memcpy(t.weights, p, sizeof t.weights);
  return t;
}

GA_INLINE lanes look_up(const table *t, codes x, int j) {
  codes index = x >> (4 * j) & 15;
  return (lanes){t->weights[index[0]], t->weights[index[1]], t->weights[index[2]], t->weights[index[3]]};
}

GA_INLINE lanes floats_of(const uint8_t *p) { return (lanes){(int8_t)p[0], (int8_t)p[1], (int8_t)p[2], (int8_t)p[3]}; }

GA_INLINE lanes step(lanes sum, lanes w, lanes a) { return GA_FUSED(w, a, sum); }

GA_INLINE void transpose(lanes v[4]) {
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < i; j++) {
      float x = v[i][j];
      v[i][j] = v[j][i];
      v[j][i] = x;
    }
}

#include "quantised_few.h"
#include "quantised_lanes.h"

const ga_form ga_portable_form = {"portable table", LANES, GROUP, 4, ROWS, TILE, quantised_pack_a, quantised_multiply, NULL,
                            quantised_add, quantised_total, quantised_decode};
const ga_few ga_portable_few = {"portable table", 4, LANES, quantised_pack_a, few_multiply, quantised_total};
