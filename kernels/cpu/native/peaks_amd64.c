// Arithmetic units of x86-64. Sixteen accumulators hide all latencies (at most 6 cycles at two instructions
// per cycle). With only 16 registers there are twelve, and thirteen for SSE2's separate multiply and add.
#include "amx_tile.h"
#include "peaks.h"

enum { FEW = 12, BASE = 13, MANY = 16 };
#define FEW_ACCUMULATORS "2,3,4,5,6,7,8,9,10,11,12,13"
#define MANY_ACCUMULATORS FEW_ACCUMULATORS ",14,15,16,17"
#define BASE_ACCUMULATORS FEW_ACCUMULATORS ",14"

#define SSE_CLOBBERS                                                                                   \
  "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
      "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"

// Assembly, because compilers move constant products out of the loop and accumulators to memory. Registers 0
// and 1 are the operands; \r is each accumulator in turn. AVX-512 loops also change registers 16 to 18, which
// compilers do not use in functions without AVX-512.
#define VECTOR_LOOP(name, vector, accumulators, bytes, step)                                                    \
  static __attribute__((target("avx"))) void name(int64_t turns, const void *data, void *sink) {                \
    __asm__ volatile(                                                                                           \
        "vmovups (%1), %%" vector "0\n\tvmovups " bytes "(%1), %%" vector "1\n\t"                               \
        ".irp r," accumulators "\n\tvmovups 2*" bytes "(%1), %%" vector "\\r\n\t.endr\n"                        \
        "1:\n\t.irp r," accumulators "\n\t" step "\n\t.endr\n\t"                                                \
        "dec %0\n\tjnz 1b\n\t"                                                                                  \
        "vmovups %%" vector "2, (%2)\n\tvzeroupper"                                                             \
        : "+r"(turns)                                                                                           \
        : "r"(data), "r"(sink)                                                                                  \
        : SSE_CLOBBERS);                                                                                        \
  }

// Two-operand instructions multiply in place.
static void fma_sse2(int64_t turns, const void *data, void *sink) {
  __asm__ volatile(
      "movups (%1), %%xmm0\n\tmovups 16(%1), %%xmm1\n\t"
      ".irp r," BASE_ACCUMULATORS "\n\tmovups 32(%1), %%xmm\\r\n\t.endr\n"
      "1:\n\t.irp r," BASE_ACCUMULATORS "\n\tmulps %%xmm0, %%xmm\\r\n\taddps %%xmm1, %%xmm\\r\n\t.endr\n\t"
      "dec %0\n\tjnz 1b\n\tmovups %%xmm2, (%2)"
      : "+r"(turns)
      : "r"(data), "r"(sink)
      : SSE_CLOBBERS);
}

static void madd_sse2(int64_t turns, const void *data, void *sink) {
  __asm__ volatile(
      "movups (%1), %%xmm0\n\tmovups 16(%1), %%xmm1\n\t"
      ".irp r," FEW_ACCUMULATORS "\n\tmovups 32(%1), %%xmm\\r\n\t.endr\n"
      "1:\n\t.irp r," FEW_ACCUMULATORS "\n\tmovdqa %%xmm0, %%xmm14\n\tpmaddwd %%xmm1, %%xmm14\n\t"
      "paddd %%xmm14, %%xmm\\r\n\t.endr\n\t"
      "dec %0\n\tjnz 1b\n\tmovups %%xmm2, (%2)"
      : "+r"(turns)
      : "r"(data), "r"(sink)
      : SSE_CLOBBERS);
}

VECTOR_LOOP(fma_avx2, "ymm", FEW_ACCUMULATORS, "32", "vfmadd231ps %%ymm0, %%ymm1, %%ymm\\r")
VECTOR_LOOP(madd_avx2, "ymm", FEW_ACCUMULATORS, "32",
            "vpmaddwd %%ymm0, %%ymm1, %%ymm14\n\tvpaddd %%ymm14, %%ymm\\r, %%ymm\\r")
VECTOR_LOOP(dot_int8_avx, "ymm", FEW_ACCUMULATORS, "32", "%{vex%} vpdpbusd %%ymm0, %%ymm1, %%ymm\\r")
VECTOR_LOOP(fma_avx512, "zmm", MANY_ACCUMULATORS, "64", "vfmadd231ps %%zmm0, %%zmm1, %%zmm\\r")
VECTOR_LOOP(madd_avx512, "zmm", MANY_ACCUMULATORS, "64",
            "vpmaddwd %%zmm0, %%zmm1, %%zmm18\n\tvpaddd %%zmm18, %%zmm\\r, %%zmm\\r")
VECTOR_LOOP(dot_bf16_avx512, "zmm", MANY_ACCUMULATORS, "64", "vdpbf16ps %%zmm0, %%zmm1, %%zmm\\r")
VECTOR_LOOP(dot_int8_avx512, "zmm", MANY_ACCUMULATORS, "64", "vpdpbusd %%zmm0, %%zmm1, %%zmm\\r")

// Four accumulator tiles: a dot product takes 16 cycles, its result 52.
#define AMX_LOOP(name, DOT)                                                                                     \
  static GA_TILE_CODE void name(int64_t turns, const void *data, void *sink) {                                  \
    const char *x = data;                                                                                       \
    ga_tile_config config = ga_tiles(GA_TILE_ROWS, 0xff);                                                       \
    TILE_FENCE();                                                                                               \
    TILE_CONFIG(&config);                                                                                       \
    TILE_LOAD(0, x, 64);                                                                                        \
    TILE_LOAD(1, x + 1024, 64);                                                                                 \
    TILE_LOAD(2, x + 2048, 64);                                                                                 \
    TILE_LOAD(3, x + 3072, 64);                                                                                 \
    TILE_LOAD(4, x + 4096, 64);                                                                                 \
    TILE_LOAD(5, x + 5120, 64);                                                                                 \
    TILE_LOAD(6, x + 6144, 64);                                                                                 \
    TILE_LOAD(7, x + 7168, 64);                                                                                 \
    for (int64_t t = 0; t < turns; t++) {                                                                       \
      DOT(0, 4, 6);                                                                                             \
      DOT(1, 4, 7);                                                                                             \
      DOT(2, 5, 6);                                                                                             \
      DOT(3, 5, 7);                                                                                             \
    }                                                                                                           \
    TILE_STORE(0, sink, 64);                                                                                    \
    TILE_RELEASE();                                                                                             \
  }

AMX_LOOP(dot_bf16_amx, TILE_DOT_BF16)
AMX_LOOP(dot_int8_amx, TILE_DOT_INT8)

const ga_unit ga_amd64_units[GA_UNITS] = {
    [GA_FMA_PORTABLE] = {"SSE2 multiply and add", BASE * 8, fma_sse2},
    [GA_MADD_PORTABLE] = {"SSE2 PMADDWD", FEW * 16, madd_sse2},
    [GA_FMA_AVX2] = {"AVX2 FMA", FEW * 16, fma_avx2},
    [GA_MADD_AVX2] = {"AVX2 VPMADDWD", FEW * 32, madd_avx2},
    [GA_DOT_INT8_AVX] = {"AVX-VNNI VPDPBUSD", FEW * 64, dot_int8_avx},
    [GA_FMA_AVX512] = {"AVX-512 FMA", MANY * 32, fma_avx512},
    [GA_MADD_AVX512] = {"AVX-512 VPMADDWD", MANY * 64, madd_avx512},
    [GA_DOT_BF16_AVX512] = {"AVX-512 VDPBF16PS", MANY * 64, dot_bf16_avx512},
    [GA_DOT_INT8_AVX512] = {"AVX-512 VPDPBUSD", MANY * 128, dot_int8_avx512},
    [GA_DOT_BF16_AMX] = {"AMX TDPBF16PS", 4 * 16384, dot_bf16_amx},
    [GA_DOT_INT8_AMX] = {"AMX TDPBSSD", 4 * 32768, dot_int8_amx},
};
