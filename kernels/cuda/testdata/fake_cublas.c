// cuBLAS without a GPU, for tests on a fake driver, whose memory is the host's: plain loops behind the
// library's interface. With -DLT it is cuBLASLt. Environment variables:
//
//   FAKE_CUBLAS_VERSION  "major.minor.patch", default 12.4.5
//   FAKE_CUBLAS_FAIL     "function:n:status": the n-th call of a function returns status
//   FAKE_CUBLAS_ALGOS    number of algorithms in the heuristic, default 3
//   FAKE_CUBLAS_TRACE    if set, requests are written to stderr, and live objects
//                        when a handle is destroyed
//
// With -Dname=other it lacks the function of that name.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FP32 = 0, FP16 = 2, INT8 = 3, INT32 = 10, BF16 = 14, E4M3 = 28 };
enum { INVALID_VALUE = 7, NOT_SUPPORTED = 15 };

#define TRACE(...) \
  do { \
    if (getenv("FAKE_CUBLAS_TRACE")) fprintf(stderr, __VA_ARGS__); \
  } while (0)

// failing counts a call and returns its injected status.
static int failing(const char *name) {
  static struct { char name[64]; long calls; } kinds[32];
  int i = 0;
  while (i < 31 && kinds[i].name[0] && strcmp(kinds[i].name, name) != 0) i++;
  snprintf(kinds[i].name, sizeof kinds[i].name, "%s", name);
  long now = ++kinds[i].calls, n, status;
  char symbol[64];
  const char *fail = getenv("FAKE_CUBLAS_FAIL");
  if (!fail || sscanf(fail, "%63[^:]:%ld:%ld", symbol, &n, &status) != 3) return 0;
  return strcmp(symbol, name) == 0 && now == n ? (int)status : 0;
}

#define BEGIN \
  do { \
    int status = failing(__func__); \
    if (status != 0) return status; \
  } while (0)

static int property(int which, int *value) {
  int v[3] = {12, 4, 5};
  const char *text = getenv("FAKE_CUBLAS_VERSION");
  if (text) sscanf(text, "%d.%d.%d", &v[0], &v[1], &v[2]);
  if (which < 0 || which > 2) return INVALID_VALUE;
  *value = v[which];
  return 0;
}

static double load(const void *p, int64_t at, int type) {
  switch (type) {
    case FP16: return (double)((const _Float16 *)p)[at];
    case BF16: {
      uint32_t u = (uint32_t)((const uint16_t *)p)[at] << 16;
      float f;
      memcpy(&f, &u, 4);
      return f;
    }
    default: return ((const float *)p)[at];
  }
}

static void store(void *p, int64_t at, int type, double sum) {
  float f = (float)sum;
  uint32_t u;
  memcpy(&u, &f, 4);
  switch (type) {
    case FP16: ((_Float16 *)p)[at] = (_Float16)sum; break;
    case BF16: ((uint16_t *)p)[at] = (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16); break;
    default: ((float *)p)[at] = f;
  }
}

// captured reports whether the call is captured into a graph; it must then not access operands.
static int captured(void) {
  static int (*asks)(void *stream, int *status);
  if (asks == NULL) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *address = driver ? dlsym(driver, "cuStreamIsCapturing") : NULL;
    if (address == NULL) return 0;
    memcpy(&asks, &address, sizeof address);
  }
  int status = 0;
  return asks(NULL, &status) == 0 && status != 0;
}

// multiply is C = op(A)·B, column-major; it ignores 8-bit types.
static void multiply(int transposed, int64_t m, int64_t n, int64_t k, const void *a, int64_t lda, const void *b, int64_t ldb, int in, void *c,
                     int64_t ldc, int out) {
  if (in == INT8 || in == E4M3 || captured()) return;
  double *rows = malloc((size_t)(m * k) * sizeof *rows), *column = malloc((size_t)k * sizeof *column);
  for (int64_t i = 0; i < m; i++)
    for (int64_t l = 0; l < k; l++) rows[i * k + l] = load(a, transposed ? i * lda + l : l * lda + i, in);
  for (int64_t j = 0; j < n; j++) {
    for (int64_t l = 0; l < k; l++) column[l] = load(b, j * ldb + l, in);
    for (int64_t i = 0; i < m; i++) {
      double sum = 0;
      for (int64_t l = 0; l < k; l++) sum += rows[i * k + l] * column[l];
      store(c, j * ldc + i, out, sum);
    }
  }
  free(rows);
  free(column);
}

static int64_t element_bytes(int type) { return type == FP32 || type == INT32 ? 4 : type == FP16 || type == BF16 ? 2 : 1; }

// multiply_all is multiply for count products, strides of elements apart.
static void multiply_all(int64_t count, int transposed, int64_t m, int64_t n, int64_t k, const char *a, int64_t lda, int64_t stride_a, const char *b,
                         int64_t ldb, int64_t stride_b, int in, char *c, int64_t ldc, int64_t stride_c, int out) {
  for (int64_t i = 0; i < count; i++)
    multiply(transposed, m, n, k, a + i * stride_a * element_bytes(in), lda, b + i * stride_b * element_bytes(in), ldb, in,
             c + i * stride_c * element_bytes(out), ldc, out);
}

#ifndef LT

typedef struct { void *stream; int has_stream, workspace; } handle;

int cublasGetProperty(int which, int *value) { return property(which, value); }

int cublasCreate_v2(handle **h) {
  BEGIN;
  *h = calloc(1, sizeof **h);
  TRACE("create\n");
  return 0;
}

int cublasDestroy_v2(handle *h) {
  BEGIN;
  free(h);
  TRACE("destroy\n");
  return 0;
}

int cublasSetStream_v2(handle *h, void *stream) {
  BEGIN;
  h->stream = stream;
  h->has_stream = 1;
  h->workspace = 0; // as the library does
  TRACE("stream\n");
  return 0;
}

int cublasSetWorkspace_v2(handle *h, void *workspace, size_t bytes) {
  BEGIN;
  h->workspace = workspace != NULL;
  TRACE("workspace %zu\n", bytes);
  return (uintptr_t)workspace % 256 == 0 ? 0 : INVALID_VALUE;
}

int cublasSetMathMode(handle *h, int mode) {
  BEGIN;
  (void)h;
  TRACE("math %d\n", mode);
  return 0;
}

int cublasGemmEx(handle *h, int transa, int transb, int m, int n, int k, const void *alpha, const void *a, int a_type, int lda, const void *b,
                 int b_type, int ldb, const void *beta, void *c, int c_type, int ldc, int compute, int algorithm) {
  BEGIN;
  int integers = c_type == INT32;
  if (!h->has_stream || !h->workspace || transb != 0 || a_type != b_type) return INVALID_VALUE;
  if (integers ? *(const int32_t *)alpha != 1 || *(const int32_t *)beta != 0 : *(const float *)alpha != 1 || *(const float *)beta != 0) return INVALID_VALUE;
  if (lda < (transa ? k : m) || ldb < k || ldc < m) return INVALID_VALUE;
  TRACE("gemm %d m%d n%d k%d lda%d ldb%d ldc%d types %d %d %d algo %d\n", transa, m, n, k, lda, ldb, ldc, a_type, c_type, compute, algorithm);
  multiply_all(1, transa, m, n, k, a, lda, 0, b, ldb, 0, a_type, c, ldc, 0, c_type);
  return 0;
}

int cublasGemmStridedBatchedEx(handle *h, int transa, int transb, int m, int n, int k, const void *alpha, const void *a, int a_type, int lda,
                               long long stride_a, const void *b, int b_type, int ldb, long long stride_b, const void *beta, void *c, int c_type,
                               int ldc, long long stride_c, int count, int compute, int algorithm) {
  BEGIN;
  int integers = c_type == INT32;
  if (!h->has_stream || !h->workspace || transb != 0 || a_type != b_type || count < 1) return INVALID_VALUE;
  if (integers ? *(const int32_t *)alpha != 1 || *(const int32_t *)beta != 0 : *(const float *)alpha != 1 || *(const float *)beta != 0) return INVALID_VALUE;
  if (lda < (transa ? k : m) || ldb < k || ldc < m) return INVALID_VALUE;
  TRACE("batch %d of %d m%d n%d k%d lda%d+%lld ldb%d+%lld ldc%d+%lld types %d %d %d algo %d\n", count, transa, m, n, k, lda, stride_a, ldb, stride_b,
        ldc, stride_c, a_type, c_type, compute, algorithm);
  multiply_all(count, transa, m, n, k, a, lda, stride_a, b, ldb, stride_b, a_type, c, ldc, stride_c, c_type);
  return 0;
}

// The pointers are the device's, the sizes and factors the host's. No group has zero rows.
int cublasGemmGroupedBatchedEx(handle *h, const int *transa, const int *transb, const int *m, const int *n, const int *k, const float *alpha,
                               const void *const *a, int a_type, const int *lda, const void *const *b, int b_type, const int *ldb,
                               const float *beta, void *const *c, int c_type, const int *ldc, int groups, const int *group_size, int compute) {
  BEGIN;
  if (!h->has_stream || !h->workspace || a_type != b_type || a_type != c_type || groups < 1 || compute < 68) return INVALID_VALUE;
  for (int i = 0; i < groups; i++) {
    if (transb[i] != 0 || alpha[i] != 1 || beta[i] != 0 || group_size[i] != 1 || n[i] < 1) return INVALID_VALUE;
    if (lda[i] < (transa[i] ? k[i] : m[i]) || ldb[i] < k[i] || ldc[i] < m[i]) return INVALID_VALUE;
    TRACE("group %d m%d n%d k%d lda%d ldb%d ldc%d types %d %d\n", transa[i], m[i], n[i], k[i], lda[i], ldb[i], ldc[i], a_type, compute);
    multiply(transa[i], m[i], n[i], k[i], a[i], lda[i], b[i], ldb[i], a_type, c[i], ldc[i], c_type);
  }
  return 0;
}

#else

typedef struct { int compute, scale; int32_t transa; int8_t fast; uint32_t epilogue; const void *bias; } desc;
typedef struct { int type; uint64_t rows, cols; int64_t ld, stride; int32_t count; } layout;
typedef struct { uint64_t workspace; uint32_t reductions, align[4]; } preference;
typedef struct { uint64_t data[8]; } algorithm;
typedef struct { algorithm algo; size_t workspace; int state; float waves; int reserved[4]; } heuristic;

// cublasLtEpilogue_t.
enum { DEFAULT = 1, RELU = 2, BIAS = 4, GELU = 32 };

// finish applies an epilogue to D, column-major: C, a bias of its rows, then an activation.
static void finish(const desc *d, const layout *l, const void *added, void *c) {
  if ((d->epilogue == DEFAULT && added == c) || captured()) return;
  for (int64_t j = 0; j < (int64_t)l->cols; j++) {
    for (int64_t i = 0; i < (int64_t)l->rows; i++) {
      double x = load(c, j * l->ld + i, l->type);
      if (added != c) x += load(added, j * l->ld + i, l->type);
      if (d->epilogue & BIAS) x += load(d->bias, i, l->type);
      if (d->epilogue & RELU) x = x > 0 ? x : 0;
      if (d->epilogue & GELU) x = x / 2 * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
      store(c, j * l->ld + i, l->type, x);
    }
  }
}

static int live; // objects

int cublasLtGetProperty(int which, int *value) { return property(which, value); }

int cublasLtCreate(void **h) {
  BEGIN;
  *h = &live;
  TRACE("lt create\n");
  return 0;
}

int cublasLtDestroy(void *h) {
  BEGIN;
  (void)h;
  TRACE("lt destroy\n");
  return 0;
}

static int create(void **object, const void *from, size_t bytes) {
  *object = memcpy(malloc(bytes), from, bytes);
  live++;
  return 0;
}

static int destroy(void *object) {
  free(object);
  TRACE("lt live %d\n", --live);
  return 0;
}

int cublasLtMatmulDescCreate(void **d, int compute, int scale) {
  BEGIN;
  return create(d, &(desc){compute, scale, 0, 9, DEFAULT, NULL}, sizeof(desc));
}
int cublasLtMatmulDescDestroy(void *d) { return destroy(d); }
int cublasLtMatrixLayoutCreate(void **l, int type, uint64_t rows, uint64_t cols, int64_t ld) {
  BEGIN;
  if (ld < (int64_t)rows) return INVALID_VALUE;
  return create(l, &(layout){type, rows, cols, ld, 0, 1}, sizeof(layout));
}
int cublasLtMatrixLayoutDestroy(void *l) { return destroy(l); }
int cublasLtMatrixLayoutSetAttribute(layout *l, int attribute, const void *value, size_t bytes) {
  BEGIN;
  if (attribute == 3 && bytes == 8) memcpy(&l->cols, value, 8);
  else if (attribute == 5 && bytes == 4) memcpy(&l->count, value, 4);
  else if (attribute == 6 && bytes == 8) memcpy(&l->stride, value, 8);
  else return INVALID_VALUE;
  return 0;
}
int cublasLtMatmulPreferenceCreate(void **p) {
  BEGIN;
  return create(p, &(preference){0, 7, {256, 256, 256, 256}}, sizeof(preference));
}
int cublasLtMatmulPreferenceDestroy(void *p) { return destroy(p); }

int cublasLtMatmulDescSetAttribute(desc *d, int attribute, const void *value, size_t bytes) {
  BEGIN;
  if (attribute == 3 && bytes == 4) memcpy(&d->transa, value, 4);
  else if (attribute == 25 && bytes == 1) memcpy(&d->fast, value, 1);
  else if (attribute == 7 && bytes == 4) memcpy(&d->epilogue, value, 4);
  else if (attribute == 8 && bytes == sizeof d->bias) memcpy(&d->bias, value, sizeof d->bias);
  else return INVALID_VALUE;
  return 0;
}

int cublasLtMatmulPreferenceSetAttribute(preference *p, int attribute, const void *value, size_t bytes) {
  BEGIN;
  if (attribute == 1 && bytes == 8) memcpy(&p->workspace, value, 8);
  else if (attribute == 3 && bytes == 4) memcpy(&p->reductions, value, 4);
  else if (attribute >= 5 && attribute <= 8 && bytes == 4) memcpy(&p->align[attribute - 5], value, 4);
  else return INVALID_VALUE;
  return 0;
}

// The heuristic's algorithms are numbered 66, 67, …. In a longer list the first is second, after one that
// can't run.
int cublasLtMatmulAlgoGetHeuristic(void *h, desc *d, layout *a, layout *b, layout *c, layout *dd, preference *p, int requested,
                                   heuristic *results, int *returned) {
  BEGIN;
  (void)h;
  TRACE("lt ask %d: %d a %dx%d/%d b %dx%d/%d c %dx%d/%d types %d %d %d scale %d fast %d workspace %d reductions %d align %d %d %d %d\n", requested,
        d->transa, (int)a->rows, (int)a->cols, (int)a->ld, (int)b->rows, (int)b->cols, (int)b->ld, (int)c->rows, (int)c->cols, (int)c->ld,
        a->type, c->type, d->compute, d->scale, d->fast, (int)p->workspace, (int)p->reductions, (int)p->align[0], (int)p->align[1],
        (int)p->align[2], (int)p->align[3]);
  if (a->count > 1 || a->stride > 0) TRACE("lt batch %d: a+%d b+%d c+%d\n", (int)a->count, (int)a->stride, (int)b->stride, (int)c->stride);
  if (a->count != b->count || a->count != c->count) return INVALID_VALUE;
  if (d->epilogue & BIAS ? d->bias == NULL : d->bias != NULL) return INVALID_VALUE;
  if (a->type != b->type || c != dd || b->rows != (d->transa ? a->rows : a->cols)) return INVALID_VALUE;
  if ((a->type == INT8 || a->type == E4M3) && (!d->transa || b->ld % 4 || b->rows % 4 || p->align[1] < 4)) return NOT_SUPPORTED;
  const char *text = getenv("FAKE_CUBLAS_ALGOS");
  int have = text ? atoi(text) : 3, n = 0;
  if (requested > 1) results[n++] = (heuristic){.algo = {{99}}, .state = NOT_SUPPORTED};
  for (int i = 0; i < have && n < requested; i++) {
    int id = requested > 1 && i < 2 && have > 1 ? 67 - i : 66 + i;
    results[n++] = (heuristic){.algo = {{(uint64_t)id}}, .waves = (float)id / 100};
  }
  *returned = n;
  return have == 0 ? NOT_SUPPORTED : 0;
}

// The configuration of all algorithms: 128x256x64, 4 stages, clusters of 2x1.
static const int configured[] = {0, 23, 1, 0, 0, 0, 16, 0, 3};
enum { ATTRIBUTES = 9, LARGEST_ALGORITHM = 99, BUILT = 1 };

// A rebuilt algorithm keeps its attributes after its id, and is marked in its last word.
static int32_t attribute_of(const algorithm *algo, int which) {
  if (which == 0) return (int32_t)algo->data[0];
  return algo->data[7] == BUILT ? ((const uint16_t *)&algo->data[1])[which] : configured[which];
}

int cublasLtMatmulAlgoConfigGetAttribute(const algorithm *algo, int attribute, void *value, size_t bytes, size_t *written) {
  BEGIN;
  if (attribute < 0 || attribute >= ATTRIBUTES || bytes != (attribute > 6 ? 2 : 4)) return INVALID_VALUE;
  int32_t v = attribute_of(algo, attribute);
  memcpy(value, &v, bytes);
  *written = bytes;
  return 0;
}

int cublasLtMatmulAlgoInit(void *h, int compute, int scale, int a, int b, int c, int d, int id, algorithm *algo) {
  BEGIN;
  (void)h;
  TRACE("lt init algo %d types %d %d %d %d compute %d scale %d\n", id, a, b, c, d, compute, scale);
  if (id < 1 || id > LARGEST_ALGORITHM) return INVALID_VALUE;
  *algo = (algorithm){{(uint64_t)id}};
  algo->data[7] = BUILT;
  return 0;
}

int cublasLtMatmulAlgoConfigSetAttribute(algorithm *algo, int attribute, const void *value, size_t bytes) {
  BEGIN;
  if (attribute < 1 || attribute >= ATTRIBUTES || bytes != (attribute > 6 ? 2 : 4) || algo->data[7] != BUILT) return INVALID_VALUE;
  int32_t v = 0;
  memcpy(&v, value, bytes);
  ((uint16_t *)&algo->data[1])[attribute] = (uint16_t)v;
  return 0;
}

int cublasLtMatmulAlgoCheck(void *h, desc *d, layout *a, layout *b, layout *c, layout *dd, const algorithm *algo, heuristic *result) {
  BEGIN;
  (void)h;
  (void)d;
  TRACE("lt check algo %d m%d\n", (int)algo->data[0], (int)b->cols);
  if (a->type != b->type || c != dd) return INVALID_VALUE;
  for (int i = 1; i < ATTRIBUTES; i++)
    if (attribute_of(algo, i) != configured[i]) return NOT_SUPPORTED;
  const char *most = getenv("FAKE_CUBLAS_ALGORITHM_M");
  if (most != NULL && (int)b->cols > atoi(most)) return NOT_SUPPORTED;
  *result = (heuristic){.algo = *algo, .waves = (float)algo->data[0] / 100};
  return 0;
}

int cublasLtMatmul(void *h, desc *d, const void *alpha, const void *a, layout *la, const void *b, layout *lb, const void *beta, const void *c,
                   layout *lc, void *out, layout *ld, const algorithm *algo, void *workspace, size_t bytes, void *stream) {
  BEGIN;
  (void)h;
  if (lc != ld || workspace == NULL || stream == NULL) return INVALID_VALUE;
  int factor = c != out; // of C
  if (d->scale == INT32 ? *(const int32_t *)alpha != 1 || *(const int32_t *)beta != factor : *(const float *)alpha != 1 || *(const float *)beta != (float)factor)
    return INVALID_VALUE;
  TRACE("lt gemm algo %d workspace %zu\n", (int)algo->data[0], bytes);
  multiply_all(lc->count, d->transa, (int64_t)lc->rows, (int64_t)lc->cols, (int64_t)lb->rows, a, la->ld, la->stride, b, lb->ld, lb->stride, la->type,
               out, lc->ld, lc->stride, lc->type);
  finish(d, lc, c, out);
  return 0;
}

#endif
