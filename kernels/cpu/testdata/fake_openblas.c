// A stand-in for OpenBLAS with sbgemm, which distributions' builds lack: plain
// loops behind the same interface, for the tests of the code that calls it.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { TRANS = 112 };

#ifndef BIAS
#define BIAS 0
#endif
// bias is what sgemm gets wrong. It is found by name, as the functions of a real library are
// that call each other.
float fake_bias(void) { return BIAS; }

static int threads = 1;

void openblas_set_num_threads(int n) { threads = n; }
int fake_threads(void) { return threads; }
#ifndef CONFIG
#define CONFIG "OpenBLAS 9.9.9 DYNAMIC_ARCH MAX_THREADS=1"
#endif
const char *openblas_get_config(void) { return CONFIG; }

#ifdef CORE
// A build for many CPUs: by itself it chooses CORE, when told KNOWN, which is all it has, and else "Core2".
static const char *core;
void gotoblas_dynamic_quit(void) { core = NULL; }
__attribute__((constructor)) void gotoblas_dynamic_init(void) {
  const char *told = getenv("OPENBLAS_CORETYPE");
  if (core == NULL) core = told == NULL ? CORE : strcmp(told, KNOWN) == 0 ? KNOWN : "Core2";
}
const char *openblas_get_corename(void) { return core; }
#else
const char *openblas_get_corename(void) { return "Fake"; }
#endif

void cblas_sgemm(int order, int transa, int transb, int m, int n, int k, float alpha, const float *a, int lda,
                 const float *b, int ldb, float beta, float *c, int ldc) {
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      float sum = fake_bias();
      for (int p = 0; p < k; p++) sum += a[(size_t)i * lda + p] * (transb == TRANS ? b[(size_t)j * ldb + p] : b[(size_t)p * ldb + j]);
      c[(size_t)i * ldc + j] = sum;
    }
}

static float widen(uint16_t h) {
  uint32_t u = (uint32_t)h << 16;
  float f;
  memcpy(&f, &u, 4);
  return f;
}

void cblas_sbgemm(int order, int transa, int transb, int m, int n, int k, float alpha, const uint16_t *a, int lda,
                  const uint16_t *b, int ldb, float beta, float *c, int ldc) {
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      float sum = 0;
      for (int p = 0; p < k; p++)
        sum += widen(a[(size_t)i * lda + p]) * widen(transb == TRANS ? b[(size_t)j * ldb + p] : b[(size_t)p * ldb + j]);
      c[(size_t)i * ldc + j] = sum;
    }
}
