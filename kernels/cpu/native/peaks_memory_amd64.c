#include <immintrin.h>

#include "peaks_streams.h"

#define AVX2 __attribute__((target("avx2")))
#define AVX512 __attribute__((target("avx512f")))

typedef long long v32 __attribute__((vector_size(32)));
typedef long long v64 __attribute__((vector_size(64)));

#define STREAM32(p, v) _mm256_stream_si256((__m256i *)(void *)(p), (__m256i)(v))
#define STREAM64(p, v) _mm512_stream_si512((__m512i *)(void *)(p), (__m512i)(v))

GA_READER(read32_one, AVX2, v32, 1)
GA_READER(read32_two, AVX2, v32, 2)
GA_READER(read32_four, AVX2, v32, 4)
GA_COPIER(copy32_plain, AVX2, v32, GA_STORE, (void)0)
GA_COPIER(copy32_past_cache, AVX2, v32, STREAM32, _mm_sfence())

GA_READER(read64_one, AVX512, v64, 1)
GA_READER(read64_two, AVX512, v64, 2)
GA_READER(read64_four, AVX512, v64, 4)
GA_COPIER(copy64_plain, AVX512, v64, GA_STORE, (void)0)
GA_COPIER(copy64_past_cache, AVX512, v64, STREAM64, _mm_sfence())

const ga_stream ga_avx2_streams[] = {
    {"32 bytes, 1 stream", read32_one, NULL},
    {"32 bytes, 2 streams", read32_two, NULL},
    {"32 bytes, 4 streams", read32_four, NULL},
    {"32 bytes, plain stores", NULL, copy32_plain},
    {"32 bytes, stores past the cache", NULL, copy32_past_cache},
};
const int ga_avx2_stream_count = sizeof ga_avx2_streams / sizeof ga_avx2_streams[0];

const ga_stream ga_avx512_streams[] = {
    {"64 bytes, 1 stream", read64_one, NULL},
    {"64 bytes, 2 streams", read64_two, NULL},
    {"64 bytes, 4 streams", read64_four, NULL},
    {"64 bytes, plain stores", NULL, copy64_plain},
    {"64 bytes, stores past the cache", NULL, copy64_past_cache},
};
const int ga_avx512_stream_count = sizeof ga_avx512_streams / sizeof ga_avx512_streams[0];
