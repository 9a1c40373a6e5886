// Readers and copiers over vectors of any width. A reader's iteration reads four lines of each of its
// streams; a copier has one stream.
#ifndef GEMMAUDIT_PEAKS_STREAMS_H
#define GEMMAUDIT_PEAKS_STREAMS_H

#include "peaks.h"

enum { GA_BURST = 256 };

#define GA_PREFETCH_BURST(q)            \
  do {                                  \
    __builtin_prefetch((q), 0, 3);       \
    __builtin_prefetch((q) + 64, 0, 3);  \
    __builtin_prefetch((q) + 128, 0, 3); \
    __builtin_prefetch((q) + 192, 0, 3); \
  } while (0)

// GA_READER defines a function over vectors V of 64-bit integers.
#define GA_READER(name, attributes, V, STREAMS)                                                           \
  static attributes uint64_t name(const char *p, int64_t bytes, int64_t ahead) {                          \
    V a = {0}, b = {0}, c = {0}, d = {0};                                                                 \
    int64_t each = bytes / (STREAMS);                                                                     \
    for (int64_t i = 0; i < each; i += GA_BURST)                                                          \
      for (int s = 0; s < (STREAMS); s++) {                                                               \
        const char *q = p + s * each + i;                                                                 \
        if (ahead > 0) GA_PREFETCH_BURST(q + ahead);                                                      \
        for (int v = 0; v < GA_BURST; v += 4 * (int)sizeof(V)) {                                          \
          const V *x = (const V *)(const void *)(q + v);                                                  \
          a ^= x[0];                                                                                      \
          b ^= x[1];                                                                                      \
          c ^= x[2];                                                                                      \
          d ^= x[3];                                                                                      \
        }                                                                                                 \
      }                                                                                                   \
    a ^= b ^ c ^ d;                                                                                       \
    return (uint64_t)a[0];                                                                                \
  }

// GA_COPIER defines a function that stores with STORE(V *, V) and ends with FENCE.
#define GA_COPIER(name, attributes, V, STORE, FENCE)                                                      \
  static attributes void name(char *dst, const char *src, int64_t bytes, int64_t ahead) {                 \
    for (int64_t i = 0; i < bytes; i += GA_BURST) {                                                       \
      if (ahead > 0) GA_PREFETCH_BURST(src + i + ahead);                                                  \
      for (int v = 0; v < GA_BURST; v += 4 * (int)sizeof(V)) {                                            \
        const V *x = (const V *)(const void *)(src + i + v);                                              \
        V *y = (V *)(void *)(dst + i + v);                                                                \
        V a = x[0], b = x[1], c = x[2], d = x[3];                                                         \
        STORE(y, a);                                                                                      \
        STORE(y + 1, b);                                                                                  \
        STORE(y + 2, c);                                                                                  \
        STORE(y + 3, d);                                                                                  \
      }                                                                                                   \
    }                                                                                                     \
    FENCE;                                                                                                \
  }

#define GA_STORE(p, v) (*(p) = (v))

#endif
