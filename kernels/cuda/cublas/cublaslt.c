//go:build cuda

#include "cublas.h"

#include <stdlib.h>
#include <string.h>

#include "cublas_library.h"

// cublasLtMatmulAlgo_t and cublasLtMatmulHeuristicResult_t.
typedef struct { uint64_t data[8]; } algorithm;
typedef struct {
  algorithm algo;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} heuristic;
_Static_assert(sizeof(heuristic) == 96, "the layout of a heuristic's result");

// The used functions of cublasLt.h.
#define CUBLASLT_FUNCTIONS(F) \
  F(Create, (void **handle)) \
  F(Destroy, (void *handle)) \
  F(GetProperty, (int which, int *value)) \
  F(MatmulDescCreate, (void **desc, int compute, int scale)) \
  F(MatmulDescDestroy, (void *desc)) \
  F(MatmulDescSetAttribute, (void *desc, int attribute, const void *value, size_t bytes)) \
  F(MatrixLayoutCreate, (void **layout, int type, uint64_t rows, uint64_t cols, int64_t ld)) \
  F(MatrixLayoutDestroy, (void *layout)) \
  F(MatrixLayoutSetAttribute, (void *layout, int attribute, const void *value, size_t bytes)) \
  F(MatmulPreferenceCreate, (void **preference)) \
  F(MatmulPreferenceDestroy, (void *preference)) \
  F(MatmulPreferenceSetAttribute, (void *preference, int attribute, const void *value, size_t bytes)) \
  F(MatmulAlgoGetHeuristic, (void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference, int requested, \
                             heuristic *results, int *returned)) \
  F(MatmulAlgoConfigGetAttribute, (const algorithm *algo, int attribute, void *value, size_t bytes, size_t *written)) \
  F(MatmulAlgoInit, (void *handle, int compute, int scale, int a, int b, int c, int d, int id, algorithm *algo)) \
  F(MatmulAlgoConfigSetAttribute, (algorithm *algo, int attribute, const void *value, size_t bytes)) \
  F(MatmulAlgoCheck, (void *handle, void *desc, void *a, void *b, void *c, void *d, const algorithm *algo, heuristic *result)) \
  F(Matmul, (void *handle, void *desc, const void *alpha, const void *a, void *a_layout, const void *b, void *b_layout, \
             const void *beta, const void *c, void *c_layout, void *d, void *d_layout, const algorithm *algo, void *workspace, \
             size_t bytes, void *stream))

struct ga_cublaslt {
  ga_blas_about about;
#define MEMBER(name, parameters) int(*name) parameters;
  CUBLASLT_FUNCTIONS(MEMBER)
#undef MEMBER
};

struct ga_cublaslt_session {
  const ga_cublaslt *lib;
  void *handle, *workspace;
  uint64_t bytes;
  uint32_t reductions;
  int8_t fast;
};

struct ga_cublaslt_plan {
  const ga_cublaslt *lib; // must outlive the session
  const ga_cublaslt_session *on;
  void *desc, *b, *a, *c;
  int scale, count, most;
  heuristic *offered; // room for most
};

// cublasLtMatmulDescAttributes_t, cublasLtMatrixLayoutAttribute_t,
// cublasLtMatmulPreferenceAttributes_t and cublasLtMatmulAlgoConfigAttributes_t.
enum { LAYOUT_COLS = 3, LAYOUT_BATCH_COUNT = 5, LAYOUT_BATCH_STRIDE = 6 };
enum { DESC_TRANSA = 3, DESC_EPILOGUE = 7, DESC_BIAS = 8, DESC_A_SCALES = 17, DESC_B_SCALES = 18, DESC_FAST_ACCUM = 25, DESC_A_SCALE_MODE = 31, DESC_B_SCALE_MODE = 32 };
enum { EPILOGUE_BIAS = 4 }; // a bit of cublasLtEpilogue_t
enum { PREF_MAX_WORKSPACE = 1, PREF_REDUCTIONS = 3, PREF_ALIGN_A = 5, PREF_ALIGN_B, PREF_ALIGN_C, PREF_ALIGN_D };
enum { CONFIG_ID, CONFIG_TILE, CONFIG_SPLIT_K, CONFIG_REDUCTION, CONFIG_SWIZZLE, CONFIG_CUSTOM_OPTION, CONFIG_STAGES, CONFIG_INNER_SHAPE, CONFIG_CLUSTER_SHAPE };

ga_cublaslt *ga_cublaslt_open(const char *name, char *err) {
  ga_cublaslt *lib = calloc(1, sizeof *lib);
#define ENTRY(function, parameters) {"cublasLt" #function, &lib->function},
  const ga_blas_function functions[] = {CUBLASLT_FUNCTIONS(ENTRY){NULL, NULL}};
#undef ENTRY
  if (ga_blas_open(name, functions, &lib->GetProperty, &lib->about, err) == 0) return lib;
  free(lib);
  return NULL;
}

const ga_blas_about *ga_cublaslt_about(const ga_cublaslt *lib) { return &lib->about; }

ga_cublaslt_session *ga_cublaslt_session_new(ga_cublaslt *lib, CUdeviceptr workspace, size_t bytes, int reductions, int fast, int *status) {
  ga_cublaslt_session *s = calloc(1, sizeof *s);
  *s = (ga_cublaslt_session){.lib = lib, .workspace = (void *)workspace, .bytes = bytes, .reductions = (uint32_t)reductions, .fast = fast != 0};
  *status = lib->Create(&s->handle);
  if (*status != 0) {
    free(s);
    return NULL;
  }
  return s;
}

void ga_cublaslt_session_free(ga_cublaslt_session *s) {
  if (s == NULL) return;
  s->lib->Destroy(s->handle);
  free(s);
}

// ask fills plan->offered from the heuristic.
static int ask(ga_cublaslt_plan *plan, unsigned align_b, unsigned align_a, unsigned align_c) {
  const ga_cublaslt_session *on = plan->on;
  const ga_cublaslt *lib = plan->lib;
  void *preference = NULL;
  int status = lib->MatmulPreferenceCreate(&preference);
  if (status != 0) return status;
  const struct { int attribute; const void *value; size_t bytes; } wants[] = {
    {PREF_MAX_WORKSPACE, &on->bytes, sizeof on->bytes},
    {PREF_REDUCTIONS, &on->reductions, sizeof on->reductions},
    {PREF_ALIGN_A, &align_b, sizeof align_b}, // the library's A is our B
    {PREF_ALIGN_B, &align_a, sizeof align_a},
    {PREF_ALIGN_C, &align_c, sizeof align_c},
    {PREF_ALIGN_D, &align_c, sizeof align_c},
  };
  for (size_t i = 0; i < sizeof wants / sizeof *wants && status == 0; i++)
    status = lib->MatmulPreferenceSetAttribute(preference, wants[i].attribute, wants[i].value, wants[i].bytes);
  int returned = 0;
  if (status == 0)
    status = lib->MatmulAlgoGetHeuristic(on->handle, plan->desc, plan->b, plan->a, plan->c, plan->c, preference, plan->most, plan->offered, &returned);
  // Algorithms that can't run are marked, not removed.
  plan->count = 0;
  for (int i = 0; i < returned && status == 0; i++)
    if (plan->offered[i].state == 0) plan->offered[plan->count++] = plan->offered[i];
  lib->MatmulPreferenceDestroy(preference);
  return status == 0 && plan->count == 0 ? GA_BLAS_NOT_SUPPORTED : status;
}

// batch sets a layout to count matrices, stride elements apart; 0 leaves it unchanged.
static int batch(const ga_cublaslt *lib, void *layout, int64_t count, int64_t stride) {
  if (count == 0) return 0;
  int32_t matrices = (int32_t)count;
  int status = lib->MatrixLayoutSetAttribute(layout, LAYOUT_BATCH_COUNT, &matrices, sizeof matrices);
  return status != 0 ? status : lib->MatrixLayoutSetAttribute(layout, LAYOUT_BATCH_STRIDE, &stride, sizeof stride);
}

// scales sets the addresses of scales. The library's A is our B.
static int scales(const ga_cublaslt *lib, void *desc, const void *b, const void *a) {
  int status = lib->MatmulDescSetAttribute(desc, DESC_A_SCALES, &b, sizeof b);
  return status != 0 ? status : lib->MatmulDescSetAttribute(desc, DESC_B_SCALES, &a, sizeof a);
}

// scaled sets how fp8 is scaled. Addresses are those of each call; the heuristic only needs some.
static int scaled(const ga_cublaslt_session *session, void *desc, const ga_blas_gemm *g) {
  const ga_cublaslt *lib = session->lib;
  int32_t b = g->b_scales, a = g->a_scales;
  if (b == 0) return 0;
  int status = lib->MatmulDescSetAttribute(desc, DESC_A_SCALE_MODE, &b, sizeof b);
  if (status == 0) status = lib->MatmulDescSetAttribute(desc, DESC_B_SCALE_MODE, &a, sizeof a);
  return status != 0 ? status : scales(lib, desc, session->workspace, session->workspace);
}

// finished sets the epilogue. The address of a bias is that of each call; the heuristic only needs some.
static int finished(const ga_cublaslt_session *session, void *desc, const ga_blas_gemm *g) {
  const ga_cublaslt *lib = session->lib;
  if (g->epilogue == 0) return 0;
  uint32_t epilogue = (uint32_t)g->epilogue;
  int status = lib->MatmulDescSetAttribute(desc, DESC_EPILOGUE, &epilogue, sizeof epilogue);
  if (status != 0 || (epilogue & EPILOGUE_BIAS) == 0) return status;
  return lib->MatmulDescSetAttribute(desc, DESC_BIAS, &session->workspace, sizeof session->workspace);
}

ga_cublaslt_plan *ga_cublaslt_plan_describe(ga_cublaslt_session *session, const ga_blas_gemm *g, int most, int *status) {
  const ga_cublaslt *lib = session->lib;
  ga_cublaslt_plan *plan = calloc(1, sizeof *plan);
  plan->lib = lib;
  plan->on = session;
  plan->scale = g->scale;
  plan->most = most;
  plan->offered = calloc((size_t)most, sizeof *plan->offered);
  uint64_t m = (uint64_t)g->m, n = (uint64_t)g->n, k = (uint64_t)g->k;
  *status = lib->MatmulDescCreate(&plan->desc, g->compute, g->scale);
  int32_t transposed = g->b_transposed;
  if (*status == 0) *status = lib->MatmulDescSetAttribute(plan->desc, DESC_TRANSA, &transposed, sizeof transposed);
  if (*status == 0 && g->in == R_8F_E4M3) {
    // Unless it is fast, partial sums are promoted to fp32 registers periodically, as in PyTorch's default
    // for scaled products.
    *status = lib->MatmulDescSetAttribute(plan->desc, DESC_FAST_ACCUM, &session->fast, sizeof session->fast);
  }
  if (*status == 0) *status = scaled(session, plan->desc, g);
  if (*status == 0) *status = finished(session, plan->desc, g);
  if (*status == 0) *status = lib->MatrixLayoutCreate(&plan->b, g->in, transposed ? k : m, transposed ? m : k, g->ldb);
  if (*status == 0) *status = lib->MatrixLayoutCreate(&plan->a, g->in, k, n, g->lda);
  if (*status == 0) *status = lib->MatrixLayoutCreate(&plan->c, g->out, m, n, g->ldc);
  if (*status == 0) *status = batch(lib, plan->b, g->products, g->stride_b);
  if (*status == 0) *status = batch(lib, plan->a, g->products, g->stride_a);
  if (*status == 0) *status = batch(lib, plan->c, g->products, g->stride_c);
  if (*status != 0) {
    ga_cublaslt_plan_free(plan);
    return NULL;
  }
  return plan;
}

ga_cublaslt_plan *ga_cublaslt_plan_new(ga_cublaslt_session *session, const ga_blas_gemm *g, unsigned align_b, unsigned align_a,
                                       unsigned align_c, int most, int *status) {
  ga_cublaslt_plan *plan = ga_cublaslt_plan_describe(session, g, most, status);
  if (plan == NULL || (*status = ask(plan, align_b, align_a, align_c)) == 0) return plan;
  ga_cublaslt_plan_free(plan);
  return NULL;
}

// configure sets one attribute of an algorithm. A version that lacks the attribute behaves as with 0.
static int configure(const ga_cublaslt *lib, algorithm *algo, int which, int32_t value, size_t bytes) {
  uint16_t narrow = (uint16_t)value;
  int status = lib->MatmulAlgoConfigSetAttribute(algo, which, bytes == sizeof narrow ? (const void *)&narrow : &value, bytes);
  return value == 0 ? 0 : status;
}

// rebuild makes a configuration's algorithm the plan's only one.
static int rebuild(ga_cublaslt_plan *plan, const ga_blas_gemm *g, const ga_cublaslt_config *config) {
  const ga_cublaslt_session *on = plan->on;
  const ga_cublaslt *lib = plan->lib;
  algorithm *algo = &plan->offered[0].algo;
  int status = lib->MatmulAlgoInit(on->handle, g->compute, g->scale, g->in, g->in, g->out, g->out, config->id, algo);
  const struct { int attribute; int32_t value; size_t bytes; } wants[] = {
    {CONFIG_TILE, config->tile, 4},
    {CONFIG_STAGES, config->stages, 4},
    {CONFIG_SPLIT_K, config->split_k, 4},
    {CONFIG_REDUCTION, config->reduction, 4},
    {CONFIG_SWIZZLE, config->swizzle, 4},
    {CONFIG_CUSTOM_OPTION, config->custom_option, 4},
    {CONFIG_INNER_SHAPE, config->inner_shape, 2},
    {CONFIG_CLUSTER_SHAPE, config->cluster_shape, 2},
  };
  for (size_t i = 0; i < sizeof wants / sizeof *wants && status == 0; i++)
    status = configure(lib, algo, wants[i].attribute, wants[i].value, wants[i].bytes);
  heuristic checked = {.state = 0};
  if (status == 0) status = lib->MatmulAlgoCheck(on->handle, plan->desc, plan->b, plan->a, plan->c, plan->c, algo, &checked);
  if (status != 0) return status;
  if (checked.state != 0) return checked.state;
  if (checked.workspace > on->bytes) return GA_BLAS_NOT_SUPPORTED;
  checked.algo = *algo;
  plan->offered[0] = checked;
  plan->count = 1;
  return 0;
}

ga_cublaslt_plan *ga_cublaslt_plan_with(ga_cublaslt_session *session, const ga_blas_gemm *g, const ga_cublaslt_config *config, int *status) {
  ga_cublaslt_plan *plan = ga_cublaslt_plan_describe(session, g, 1, status);
  if (plan == NULL || (*status = rebuild(plan, g, config)) == 0) return plan;
  ga_cublaslt_plan_free(plan);
  return NULL;
}

int ga_cublaslt_plan_ask(ga_cublaslt_plan *plan, int64_t n, unsigned align_b, unsigned align_a, unsigned align_c) {
  uint64_t cols = (uint64_t)n;
  int status = plan->lib->MatrixLayoutSetAttribute(plan->a, LAYOUT_COLS, &cols, sizeof cols);
  if (status == 0) status = plan->lib->MatrixLayoutSetAttribute(plan->c, LAYOUT_COLS, &cols, sizeof cols);
  return status != 0 ? status : ask(plan, align_b, align_a, align_c);
}

int ga_cublaslt_plan_count(const ga_cublaslt_plan *plan) { return plan->count; }

// attribute reads one number of 2 or 4 bytes, or 0 if this version lacks it.
static int32_t attribute(const ga_cublaslt_plan *plan, int at, int which, size_t bytes) {
  union { uint16_t narrow; int32_t wide; } value = {.wide = 0};
  size_t written = 0;
  if (plan->lib->MatmulAlgoConfigGetAttribute(&plan->offered[at].algo, which, &value, bytes, &written) != 0) return 0;
  return bytes == sizeof value.narrow ? value.narrow : value.wide;
}

void ga_cublaslt_plan_config(const ga_cublaslt_plan *plan, int at, ga_cublaslt_config *config) {
  *config = (ga_cublaslt_config){
    .id = attribute(plan, at, CONFIG_ID, 4),
    .tile = attribute(plan, at, CONFIG_TILE, 4),
    .stages = attribute(plan, at, CONFIG_STAGES, 4),
    .split_k = attribute(plan, at, CONFIG_SPLIT_K, 4),
    .reduction = attribute(plan, at, CONFIG_REDUCTION, 4),
    .swizzle = attribute(plan, at, CONFIG_SWIZZLE, 4),
    .custom_option = attribute(plan, at, CONFIG_CUSTOM_OPTION, 4),
    .inner_shape = attribute(plan, at, CONFIG_INNER_SHAPE, 2),
    .cluster_shape = attribute(plan, at, CONFIG_CLUSTER_SHAPE, 2),
    .waves = plan->offered[at].waves,
    .workspace = plan->offered[at].workspace,
  };
}

void ga_cublaslt_plan_free(ga_cublaslt_plan *plan) {
  if (plan == NULL) return;
  const ga_cublaslt *lib = plan->lib;
  if (plan->desc != NULL) lib->MatmulDescDestroy(plan->desc);
  void *layouts[] = {plan->b, plan->a, plan->c};
  for (int i = 0; i < 3; i++)
    if (layouts[i] != NULL) lib->MatrixLayoutDestroy(layouts[i]);
  free(plan->offered);
  free(plan);
}

int ga_cublaslt_enqueue(void *call, CUstream stream) {
  const ga_cublaslt_call *p = call;
  const ga_cublaslt_plan *plan = p->plan;
  const ga_cublaslt_session *on = plan->on;
  void *c = (void *)p->c;
  const void *beta = p->residual == 0 ? ga_blas_zero(plan->scale) : ga_blas_one(plan->scale);
  const void *added = p->residual == 0 ? c : (const void *)p->residual;
  int status = p->b_scales == 0 ? 0 : scales(on->lib, plan->desc, (const void *)p->b_scales, (const void *)p->a_scales);
  if (status == 0 && p->bias != 0) status = on->lib->MatmulDescSetAttribute(plan->desc, DESC_BIAS, &p->bias, sizeof p->bias);
  if (status != 0) return status;
  return on->lib->Matmul(on->handle, plan->desc, ga_blas_one(plan->scale), (const void *)p->b, plan->b, (const void *)p->a, plan->a,
                         beta, added, plan->c, c, plan->c, &plan->offered[p->algorithm].algo, on->workspace, on->bytes,
                         stream);
}
