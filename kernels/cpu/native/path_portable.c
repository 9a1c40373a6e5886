// Paths for all CPUs: plain C on 16-byte vectors, compiled to the architecture's baseline (SSE2, NEON). Types
// are widened to fp32, int8 to int32.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=fast") // FMA if the baseline has it
#endif
#include "path.h"

#include "convert.h"

typedef float v4f __attribute__((vector_size(16)));
typedef int32_t v4i __attribute__((vector_size(16)));

// Half a panel at a time: 4 vectors × 4 rows give 16 accumulators, the registers of the smaller baselines.
enum { ROWS = 4, HALF = 4 };

#define GA_TILE_PORTABLE(name, V, T)                                                                      \
  static inline __attribute__((always_inline)) void name##_rows(const int R, int64_t words, const T *a,   \
                                                                const V *b, V *acc, int set) {            \
    for (int h = 0; h < 2; h++, b += HALF, acc += HALF) {                                                 \
      V sum[ROWS][HALF];                                                                                  \
      for (int r = 0; r < R; r++)                                                                         \
        for (int v = 0; v < HALF; v++) sum[r][v] = set ? (V){0} : acc[r * 2 * HALF + v];                  \
      for (int64_t w = 0; w < words; w++) {                                                               \
        const T *row = a + (w / 4 * R) * 4 + w % 4;                                                       \
        for (int r = 0; r < R; r++)                                                                       \
          for (int v = 0; v < HALF; v++) sum[r][v] += row[r * 4] * b[w * 2 * HALF + v];                   \
      }                                                                                                   \
      for (int r = 0; r < R; r++)                                                                         \
        for (int v = 0; v < HALF; v++) acc[r * 2 * HALF + v] = sum[r][v];                                 \
    }                                                                                                     \
  }                                                                                                       \
  static void name(int rows, int64_t words, const void *a, const void *b, void *acc, int set,             \
                   const void *ahead, int64_t step) {                                                     \
    (void)ahead;                                                                                          \
    (void)step;                                                                                           \
    switch (rows) {                                                                                       \
      case 1: name##_rows(1, words, a, b, acc, set); break;                                               \
      case 2: name##_rows(2, words, a, b, acc, set); break;                                               \
      case 3: name##_rows(3, words, a, b, acc, set); break;                                               \
      default: name##_rows(4, words, a, b, acc, set); break;                                              \
    }                                                                                                     \
  }

GA_TILE_PORTABLE(tile_fp32, v4f, float)
GA_TILE_PORTABLE(tile_int32, v4i, int32_t)

#define FROM_FP32(p, i) (((const float *)(p))[i])
#define FROM_FP16(p, i) ga_fp16_to_float(((const uint16_t *)(p))[i])
#define FROM_BF16(p, i) ga_bf16_to_float(((const uint16_t *)(p))[i])
#define FROM_INT8(p, i) ((int32_t)((const int8_t *)(p))[i])

#define GA_PACK_A_PORTABLE(name, T, from)                                                       \
  static void name(const void *a, int64_t lda, int rows, int64_t k, int64_t words, void *out) { \
    T *dst = out;                                                                               \
    for (int r = 0; r < rows; r++)                                                              \
      for (int64_t i = 0; i < words; i++)                                                       \
        dst[(i / 4 * rows + r) * 4 + i % 4] = i < k ? from(a, r * lda + i) : (T)0;              \
  }

GA_PACK_A_PORTABLE(pack_a_fp32, float, FROM_FP32)
GA_PACK_A_PORTABLE(pack_a_fp16, float, FROM_FP16)
GA_PACK_A_PORTABLE(pack_a_bf16, float, FROM_BF16)
GA_PACK_A_PORTABLE(pack_a_int8, int32_t, FROM_INT8)

// Packed B has groups of g k's; widened B has one row of 32 words per k.
#define GA_WIDEN_PORTABLE(name, T, g, from)                                                       \
  static void name(const void *b, int64_t words, void *out) {                                     \
    T *dst = out;                                                                                 \
    for (int64_t i = 0; i < words; i += (g))                                                      \
      for (int j = 0; j < GA_PANEL; j++)                                                          \
        for (int q = 0; q < (g); q++) dst[(i + q) * GA_PANEL + j] = from(b, i * GA_PANEL + j * (g) + q); \
  }

GA_WIDEN_PORTABLE(widen_fp16, float, 1, FROM_FP16)
GA_WIDEN_PORTABLE(widen_bf16, float, 2, FROM_BF16)
GA_WIDEN_PORTABLE(widen_int8, int32_t, 4, FROM_INT8)

#define GA_STORE_PORTABLE(name, S, T, to)                                                                             \
  static void name(const void *acc, int rows, int64_t cols, const int32_t *sums, void *c, int64_t ldc) {              \
    (void)sums;                                                                                                       \
    for (int r = 0; r < rows; r++)                                                                                    \
      for (int64_t j = 0; j < cols; j++) ((T *)c)[r * ldc + j] = to(((const S *)acc)[r * GA_PANEL + j]);              \
  }

GA_STORE_PORTABLE(store_fp32, float, float, )
GA_STORE_PORTABLE(store_fp16, float, uint16_t, ga_float_to_fp16)
GA_STORE_PORTABLE(store_bf16, float, uint16_t, ga_float_to_bf16)
GA_STORE_PORTABLE(store_int32, int32_t, int32_t, )

const ga_path ga_portable_paths[4] = {
    [GA_FP32] = {"portable 4x32", ROWS, 1, 1, pack_a_fp32, NULL, tile_fp32, tile_fp32, store_fp32},
    [GA_FP16] = {"portable 4x32, fp16 widened", ROWS, 1, 1, pack_a_fp16, widen_fp16, tile_fp32, NULL, store_fp16},
    [GA_BF16] = {"portable 4x32, bf16 widened", ROWS, 1, 1, pack_a_bf16, widen_bf16, tile_fp32, NULL, store_bf16},
    [GA_INT8] = {"portable 4x32, int8 widened", ROWS, 1, 1, pack_a_int8, widen_int8, tile_int32, NULL, store_int32},
};
