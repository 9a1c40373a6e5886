#include "quantised.h"

#include "convert.h"
#include "cpuinfo.h"
#include "strips.h"
#include "tiled.h"

const ga_form *ga_form_for(ga_dtype t, int bits, unsigned isa) {
#if defined(__x86_64__)
  // Strips need activations of at most 11 bits; with VDPBF16PS and tiles, bf16 is multiplied along K.
  if (bits == 4 && isa & GA_ISA_AVX2 && (t == GA_FP16 || (t == GA_BF16 && !(isa & GA_ISA_BF16)))) return ga_strips_for(isa);
  if (isa & GA_ISA_AVX512) return t == GA_BF16 && isa & GA_ISA_BF16 ? &ga_avx512_bf16_form : &ga_avx512_form;
  if (isa & GA_ISA_AVX2) return &ga_avx2_form;
#else
  (void)t;
  (void)bits;
  (void)isa;
#endif
  return &ga_portable_form;
}

const ga_few *ga_few_for(ga_dtype t, int bits, unsigned isa) {
#if defined(__x86_64__)
  if (isa & GA_ISA_AVX512 && isa & GA_ISA_BF16) {
    // On Intel, VDPBF16PS costs more than a look-up saves. On Sapphire Rapids, floats reach 8 4-bit weights
    // per cycle, bf16 pairs 4.6, and fp16 (two products per look-up) 4.9. On Zen 5 pairs are faster
    // (BenchmarkQuantisedInCache).
    int pairs = bits != 4 || !(ga_cpu_family() & GA_CPU_INTEL);
    if (t == GA_BF16 && pairs) return &ga_avx512_bf16_few;
    if (t == GA_FP16 && pairs && bits == 4) return &ga_avx512_split_few;
  }
  if (isa & GA_ISA_AVX512) return &ga_avx512_few;
  if (isa & GA_ISA_AVX2) return &ga_avx2_few;
#else
  (void)t;
  (void)bits;
  (void)isa;
#endif
  return &ga_portable_few;
}

int64_t ga_quantised_panel_bytes(const ga_gemm *g) {
  const ga_weights *w = &g->weights;
  int64_t strip = ((const ga_form *)w->form)->strip;
  return strip > 0 ? ga_strip_bytes(w, g->k) * (GA_PANEL / strip) : ga_quad_bytes(w, g->k) * (GA_PANEL / GA_QUAD);
}

int64_t ga_quantised_bytes(const ga_gemm *g) { return ga_panels(g->n) * ga_quantised_panel_bytes(g); }

static inline unsigned code(const uint8_t *codes, int bits, int64_t i) {
  return bits == 8 ? codes[i] : codes[i / 2] >> (i % 2 * 4) & 15;
}

typedef struct {
  const ga_gemm *g;
  const void *codes, *scales, *zeros;
  char *packed;
} pack_job;

// pack_codes packs one column's codes, padded with pad beyond K.
static void pack_codes(const ga_weights *w, const uint8_t *from, int64_t k, unsigned pad, uint8_t *to) {
  int64_t kp = ga_quantised_k(w, k), block = ga_block_k(w), bytes = block * w->bits / 8;
  if (w->bits == 8) {
    for (int64_t at = 0; at < kp; at += block, to += bytes * GA_QUAD)
      for (int64_t i = 0; i < block; i++) to[i] = (uint8_t)((at + i < k ? from[at + i] : pad) ^ 0x80);
    return;
  }
  // Each word or half word holds one code of each unit of consecutive k.
  int64_t size = ((const ga_form *)w->form)->piece, nibbles = size * 2, unit = block / nibbles;
  for (int64_t at = 0; at < kp; at += block, to += bytes * GA_QUAD)
    for (int64_t l = 0; l < unit; l++) {
      uint32_t word = 0;
      for (int64_t j = 0; j < nibbles; j++) {
        int64_t i = at + unit * j + l;
        word |= (uint32_t)(i < k ? code(from, 4, i) : pad) << (4 * j);
      }
      for (int64_t b = 0; b < size; b++) to[l * size + b] = (uint8_t)(word >> (8 * b));
    }
}

static void pack_quad(const pack_job *job, int64_t quad, char *out) {
  const ga_gemm *g = job->g;
  const ga_weights *w = &g->weights;
  int64_t groups = g->k / w->group, header = ga_quad_header(w, g->k), bytes = ga_block_k(w) * w->bits / 8;
  uint16_t *scales = (uint16_t *)out;
  uint8_t *zeros = (uint8_t *)out + groups * GA_QUAD * 2;
  memset(out, 0, (size_t)ga_quad_bytes(w, g->k));
  for (int64_t c = 0; c < GA_QUAD; c++) {
    int64_t column = quad * GA_QUAD + c;
    if (column >= g->n) continue; // scales of 0
    unsigned zero = 1u << (w->bits - 1);
    for (int64_t i = 0; i < groups; i++) {
      scales[i * GA_QUAD + c] = ((const uint16_t *)job->scales)[column * groups + i];
      if (!w->zeros) continue;
      zero = code(job->zeros, w->bits, column * groups + i);
      zeros[i * GA_QUAD + c] = (uint8_t)(w->bits == 8 ? zero ^ 0x80 : zero);
    }
    const uint8_t *from = (const uint8_t *)job->codes + column * g->k * w->bits / 8;
    pack_codes(w, from, g->k, zero, (uint8_t *)out + header + c * bytes);
  }
}

static void pack_task(void *arg, int tid, int nthreads, void *scratch, ga_team *team) {
  (void)scratch;
  (void)team;
  const pack_job *job = arg;
  int64_t strip = ((const ga_form *)job->g->weights.form)->strip;
  if (strip > 0) {
    int64_t from, to, each = ga_strip_bytes(&job->g->weights, job->g->k);
    ga_share(ga_panels(job->g->n) * (GA_PANEL / strip), nthreads, tid, &from, &to);
    for (int64_t s = from; s < to; s++) ga_strip_pack(job->g, job->codes, job->scales, job->zeros, s, job->packed + s * each);
    return;
  }
  int64_t from, to, each = ga_quad_bytes(&job->g->weights, job->g->k);
  ga_share(ga_panels(job->g->n) * (GA_PANEL / GA_QUAD), nthreads, tid, &from, &to);
  for (int64_t q = from; q < to; q++) pack_quad(job, q, job->packed + q * each);
}

void ga_quantised_pack(ga_pool *pool, const ga_gemm *g, const void *codes, const void *scales, const void *zeros, void *packed) {
  pack_job job = {g, codes, scales, zeros, packed};
  ga_pool_run(pool, ga_pool_threads(pool), pack_task, &job);
}
