#include "onednn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dl.h"

// The parts of dnnl_types.h in use, the same in 2.6 and 3.x.
typedef int status; // 0 is success, 3 unimplemented
typedef int64_t dims[12];
typedef const void *memory_desc; // dnnl_memory_desc_t: an address in 2.x, a handle in 3.x
typedef struct { int arg; void *memory; } exec_arg;

enum { UNIMPLEMENTED = 3 };
enum { TYPE_F16 = 1, TYPE_BF16 = 2, TYPE_F32 = 3, TYPE_S32 = 4, TYPE_S8 = 5 };
enum { ENGINE_CPU = 1, STREAM_DEFAULT = 1, TAG_ANY = 1, SCRATCHPAD_USER = 1, FPMATH_STRICT = 0 };
enum { ARG_SRC = 1, ARG_DST = 17, ARG_WEIGHTS = 33, ARG_SCRATCHPAD = 80, ARG_FROM = 1, ARG_TO = 17 };
enum { QUERY_IMPL_INFO = 8, QUERY_WEIGHTS = 131, QUERY_SCRATCHPAD = 136 };

// 2.x fills structs that the caller provides; the real sizes are 696 and 2800 bytes.
enum { V2_MEMORY_DESC_BYTES = 4096, V2_MATMUL_DESC_BYTES = 16384 };

// Name, return type and arguments of functions in both versions ...
#define COMMON(F) \
  F(engine_create, status, (void **engine, int kind, size_t index)) \
  F(stream_create, status, (void **stream, void *engine, unsigned flags)) \
  F(stream_wait, status, (void *stream)) \
  F(memory_create, status, (void **memory, memory_desc md, void *engine, void *handle)) \
  F(memory_destroy, status, (void *memory)) \
  F(memory_get_memory_desc, status, (void *memory, memory_desc *md)) \
  F(memory_desc_get_size, size_t, (memory_desc md)) \
  F(memory_desc_equal, int, (memory_desc a, memory_desc b)) \
  F(primitive_attr_create, status, (void **attr)) \
  F(primitive_attr_set_scratchpad_mode, status, (void *attr, int mode)) \
  F(primitive_attr_set_fpmath_mode, status, (void *attr, int mode)) \
  F(primitive_desc_query, status, (const void *pd, int what, int index, void *result)) \
  F(primitive_desc_query_md, memory_desc, (const void *pd, int what, int index)) \
  F(primitive_desc_destroy, status, (void *pd)) \
  F(primitive_create, status, (void **primitive, const void *pd)) \
  F(primitive_execute, status, (const void *primitive, void *stream, int nargs, const exec_arg *args)) \
  F(primitive_destroy, status, (void *primitive)) \
  F(reorder_primitive_desc_create, status, (void **pd, memory_desc from, void *from_engine, memory_desc to, void *to_engine, const void *attr))
// ... and in one version.
#define ONLY_V2(F) \
  F(memory_desc_init_by_strides, status, (void *md, int ndims, const int64_t *dims, int type, const int64_t *strides)) \
  F(memory_desc_init_by_tag, status, (void *md, int ndims, const int64_t *dims, int type, int tag)) \
  F(matmul_desc_init, status, (void *desc, memory_desc src, memory_desc weights, memory_desc bias, memory_desc dst)) \
  F(primitive_desc_create, status, (void **pd, const void *desc, const void *attr, void *engine, const void *hint))
#define ONLY_V3(F) \
  F(memory_desc_create_with_strides, status, (void **md, int ndims, const int64_t *dims, int type, const int64_t *strides)) \
  F(memory_desc_create_with_tag, status, (void **md, int ndims, const int64_t *dims, int type, int tag)) \
  F(memory_desc_destroy, status, (void *md)) \
  F(matmul_primitive_desc_create, status, (void **pd, void *engine, memory_desc src, memory_desc weights, memory_desc bias, memory_desc dst, const void *attr))

struct ga_dnn {
  int major, minor, patch;
#define MEMBER(name, result, args) result (*name) args;
  COMMON(MEMBER) ONLY_V2(MEMBER) ONLY_V3(MEMBER)
#undef MEMBER
  void (*set_threads)(int); // OpenMP's
  int (*effective_isa)(void);
  const char *(*isa_name)(int); // both NULL without run-time dispatch
  void *engine, *stream, *attr;
};

struct ga_dnn_plan {
  ga_dnn *lib;
  void *pd;
  void *src, *dst;
  int threads;
};

struct ga_dnn_form {
  ga_dnn *lib;
  void *memory;
};

struct ga_dnn_matmul {
  ga_dnn *lib;
  void *primitive;
  exec_arg args[4];
  int threads;
};

static void fail(char *err, const char *what, status s) {
  static const char *const words[] = {"success", "out of memory", "invalid arguments", "unimplemented",
                                      "last implementation reached", "runtime error", "not required"};
  if (s >= 0 && s < (int)(sizeof words / sizeof *words)) snprintf(err, GA_DNN_ERROR, "%s: %s", what, words[s]);
  else snprintf(err, GA_DNN_ERROR, "%s: status %d", what, s);
}

ga_dnn *ga_dnn_open(void *handle, char *err) {
  // dnnl_version_t: three ints, then a hash and the runtimes.
  typedef struct { int major, minor, patch; const char *hash; unsigned cpu_runtime, gpu_runtime; } version;
  const version *(*get_version)(void) = (const version *(*)(void))ga_dl_sym(handle, "dnnl_version");
  if (get_version == NULL) {
    snprintf(err, GA_DNN_ERROR, "it has no dnnl_version, so it is not oneDNN");
    return NULL;
  }
  const version *v = get_version();
  if (v->major != 2 && v->major != 3) {
    snprintf(err, GA_DNN_ERROR, "it is version %d.%d.%d: expected 2.x or 3.x", v->major, v->minor, v->patch);
    return NULL;
  }
  ga_dnn *lib = calloc(1, sizeof *lib);
  lib->major = v->major;
  lib->minor = v->minor;
  lib->patch = v->patch;
#define FIND(name, result, args) \
  if ((lib->name = (result (*) args)ga_dl_sym(handle, "dnnl_" #name)) == NULL) { \
    snprintf(err, GA_DNN_ERROR, "version %d.%d.%d has no dnnl_" #name, v->major, v->minor, v->patch); \
    free(lib); \
    return NULL; \
  }
  COMMON(FIND)
  if (v->major == 2) {
    ONLY_V2(FIND)
  } else {
    ONLY_V3(FIND)
  }
#undef FIND
  lib->set_threads = (void (*)(int))ga_dl_sym(handle, "omp_set_num_threads");
  if (lib->set_threads == NULL) {
    snprintf(err, GA_DNN_ERROR, "it was not built with OpenMP, so its threads can't be chosen");
    free(lib);
    return NULL;
  }
  lib->effective_isa = (int (*)(void))ga_dl_sym(handle, "dnnl_get_effective_cpu_isa");
  lib->isa_name = (const char *(*)(int))ga_dl_sym(handle, "dnnl_cpu_isa2str");
  status s = lib->engine_create(&lib->engine, ENGINE_CPU, 0);
  if (s == 0) s = lib->stream_create(&lib->stream, lib->engine, STREAM_DEFAULT);
  if (s == 0) s = lib->primitive_attr_create(&lib->attr);
  // oneDNN's scratchpad belongs to a thread, ours to the device.
  if (s == 0) s = lib->primitive_attr_set_scratchpad_mode(lib->attr, SCRATCHPAD_USER);
  // Keeps fp32 exact, regardless of ONEDNN_DEFAULT_FPMATH_MODE.
  if (s == 0) s = lib->primitive_attr_set_fpmath_mode(lib->attr, FPMATH_STRICT);
  if (s != 0) {
    fail(err, "create engine and stream", s);
    free(lib);
    return NULL;
  }
  return lib;
}

void ga_dnn_version(const ga_dnn *lib, char *text, size_t len) {
  snprintf(text, len, "%d.%d.%d", lib->major, lib->minor, lib->patch);
}

const char *ga_dnn_isa(const ga_dnn *lib) {
  static const char prefix[] = "cpu_isa_";
  if (lib->effective_isa == NULL || lib->isa_name == NULL) return "";
  const char *name = lib->isa_name(lib->effective_isa());
  return strncmp(name, prefix, sizeof prefix - 1) == 0 ? name + sizeof prefix - 1 : name;
}

int ga_dnn_major(const ga_dnn *lib) { return lib->major; }

static void free_desc(ga_dnn *lib, void *md) {
  if (md == NULL) return;
  if (lib->major == 2) free(md);
  else lib->memory_desc_destroy(md);
}

// describe creates the descriptor of a rows×cols matrix with the given strides. If row and column strides are
// 0, oneDNN chooses the layout. With products > 0 it describes a batch of matrices, stride elements apart.
static status describe(ga_dnn *lib, void **md, int64_t products, int64_t stride, int64_t rows, int64_t cols, int type, int64_t row_stride,
                       int64_t col_stride) {
  dims size = {products, rows, cols}, strides = {stride, row_stride, col_stride};
  int any = row_stride == 0 && col_stride == 0, from = products == 0, n = 3 - from;
  *md = NULL;
  if (lib->major == 2) {
    void *mem = calloc(1, V2_MEMORY_DESC_BYTES);
    status s = any ? lib->memory_desc_init_by_tag(mem, n, size + from, type, TAG_ANY)
                   : lib->memory_desc_init_by_strides(mem, n, size + from, type, strides + from);
    if (s == 0) *md = mem;
    else free(mem);
    return s;
  }
  return any ? lib->memory_desc_create_with_tag(md, n, size + from, type, TAG_ANY)
             : lib->memory_desc_create_with_strides(md, n, size + from, type, strides + from);
}

static int type_of(ga_dtype d) {
  static const int types[] = {[GA_FP32] = TYPE_F32, [GA_FP16] = TYPE_F16, [GA_BF16] = TYPE_BF16, [GA_INT8] = TYPE_S8};
  return types[d];
}

static status describe_raw_b(ga_dnn *lib, const ga_gemm *g, void **md) {
  int64_t row = g->b_transposed ? 1 : g->ldb, col = g->b_transposed ? g->ldb : 1;
  return describe(lib, md, g->products, g->stride_b, g->k, g->n, type_of(g->dtype), row, col);
}

ga_dnn_plan *ga_dnn_plan_create(ga_dnn *lib, const ga_gemm *g, int threads, int plain, int *refused, char *err) {
  *refused = 0;
  ga_dnn_plan *plan = calloc(1, sizeof *plan);
  plan->lib = lib;
  plan->threads = threads;
  // oneDNN splits the work by OpenMP's current number of threads.
  lib->set_threads(threads);
  int type = type_of(g->dtype), out = g->dtype == GA_INT8 ? TYPE_S32 : type;
  void *weights = NULL;
  status s = describe(lib, &plan->src, g->products, g->stride_a, g->m, g->k, type, g->lda, 1);
  if (s == 0) s = describe(lib, &plan->dst, g->products, g->stride_c, g->m, g->n, out, g->ldc, 1);
  if (s == 0) s = plain ? describe_raw_b(lib, g, &weights) : describe(lib, &weights, g->products, 0, g->k, g->n, type, 0, 0);
  if (s != 0) {
    fail(err, "describe the operands", s);
  } else if (lib->major == 2) {
    void *desc = calloc(1, V2_MATMUL_DESC_BYTES);
    s = lib->matmul_desc_init(desc, plan->src, weights, NULL, plan->dst);
    if (s == 0) s = lib->primitive_desc_create(&plan->pd, desc, lib->attr, lib->engine, NULL);
    free(desc);
    if (s != 0) fail(err, "dnnl_primitive_desc_create for matmul", s);
  } else {
    s = lib->matmul_primitive_desc_create(&plan->pd, lib->engine, plan->src, weights, NULL, plan->dst, lib->attr);
    if (s != 0) fail(err, "dnnl_matmul_primitive_desc_create", s);
  }
  free_desc(lib, weights);
  if (s != 0) {
    *refused = s == UNIMPLEMENTED;
    ga_dnn_plan_free(plan);
    return NULL;
  }
  return plan;
}

const char *ga_dnn_plan_label(const ga_dnn_plan *plan) {
  const char *text = NULL;
  if (plan->lib->primitive_desc_query(plan->pd, QUERY_IMPL_INFO, 0, &text) != 0 || text == NULL) return "";
  return text;
}

static memory_desc plan_md(const ga_dnn_plan *plan, int what) {
  return plan->lib->primitive_desc_query_md(plan->pd, what, 0);
}

size_t ga_dnn_plan_weight_bytes(const ga_dnn_plan *plan) {
  return plan->lib->memory_desc_get_size(plan_md(plan, QUERY_WEIGHTS));
}

size_t ga_dnn_plan_scratch_bytes(const ga_dnn_plan *plan) {
  return plan->lib->memory_desc_get_size(plan_md(plan, QUERY_SCRATCHPAD));
}

void ga_dnn_plan_free(ga_dnn_plan *plan) {
  if (plan == NULL) return;
  if (plan->pd != NULL) plan->lib->primitive_desc_destroy(plan->pd);
  free_desc(plan->lib, plan->src);
  free_desc(plan->lib, plan->dst);
  free(plan);
}

static status reorder(ga_dnn *lib, const ga_gemm *g, const void *b, void *packed, memory_desc want) {
  void *raw_md = NULL, *raw = NULL, *pd = NULL, *primitive = NULL;
  status s = describe_raw_b(lib, g, &raw_md);
  if (s == 0) s = lib->memory_create(&raw, raw_md, lib->engine, (void *)b);
  if (s == 0) s = lib->reorder_primitive_desc_create(&pd, raw_md, lib->engine, want, lib->engine, NULL);
  if (s == 0) s = lib->primitive_create(&primitive, pd);
  if (s == 0) {
    exec_arg args[] = {{ARG_FROM, raw}, {ARG_TO, packed}};
    s = lib->primitive_execute(primitive, lib->stream, 2, args);
    if (s == 0) s = lib->stream_wait(lib->stream);
  }
  if (primitive != NULL) lib->primitive_destroy(primitive);
  if (pd != NULL) lib->primitive_desc_destroy(pd);
  if (raw != NULL) lib->memory_destroy(raw);
  free_desc(lib, raw_md);
  return s;
}

// tight_copy returns B as k×n without gaps and updates g. The caller frees the copy.
static void *tight_copy(ga_gemm *g) {
  size_t size = g->dtype == GA_INT8 ? 1 : g->dtype == GA_FP32 ? 4 : 2;
  int64_t row = g->b_transposed ? 1 : g->ldb, col = g->b_transposed ? g->ldb : 1;
  char *to = malloc((size_t)g->k * (size_t)g->n * size), *at = to;
  if (to == NULL) return NULL;
  const char *from = g->b_raw;
  for (int64_t i = 0; i < g->k; i++)
    for (int64_t j = 0; j < g->n; j++, at += size) memcpy(at, from + (size_t)(i * row + j * col) * size, size);
  g->ldb = g->n;
  g->b_transposed = 0;
  return to;
}

ga_dnn_form *ga_dnn_form_create(ga_dnn *lib, const ga_gemm *g, const ga_dnn_plan *plan, void *memory, char *err) {
  memory_desc want = plan_md(plan, QUERY_WEIGHTS);
  void *packed = NULL;
  lib->set_threads(plan->threads);
  status s = lib->memory_create(&packed, want, lib->engine, memory);
  if (s == 0) s = reorder(lib, g, g->b_raw, packed, want);
  if (s == UNIMPLEMENTED && g->products == 0) {
    // int8 reorders that sum columns need B without gaps between rows.
    ga_gemm tight = *g;
    void *copy = tight_copy(&tight);
    if (copy != NULL) s = reorder(lib, &tight, copy, packed, want);
    free(copy);
  }
  if (s != 0) {
    if (packed != NULL) lib->memory_destroy(packed);
    fail(err, "reorder the weights", s);
    return NULL;
  }
  ga_dnn_form *form = calloc(1, sizeof *form);
  form->lib = lib;
  form->memory = packed;
  return form;
}

int ga_dnn_form_fits(const ga_dnn_form *form, const ga_dnn_plan *plan) {
  memory_desc md = NULL;
  return form->lib->memory_get_memory_desc(form->memory, &md) == 0 &&
         form->lib->memory_desc_equal(md, plan_md(plan, QUERY_WEIGHTS));
}

void ga_dnn_form_free(ga_dnn_form *form) {
  if (form == NULL) return;
  form->lib->memory_destroy(form->memory);
  free(form);
}

ga_dnn_matmul *ga_dnn_matmul_create(const ga_dnn_plan *plan, const ga_gemm *g, void *weights, void *scratch, char *err) {
  ga_dnn *lib = plan->lib;
  ga_dnn_matmul *mm = calloc(1, sizeof *mm);
  mm->lib = lib;
  mm->threads = plan->threads;
  mm->args[0].arg = ARG_SRC;
  mm->args[1].arg = ARG_WEIGHTS;
  mm->args[2].arg = ARG_DST;
  mm->args[3].arg = ARG_SCRATCHPAD;
  lib->set_threads(plan->threads);
  status s = lib->memory_create(&mm->args[0].memory, plan->src, lib->engine, (void *)g->a);
  if (s == 0) s = lib->memory_create(&mm->args[1].memory, plan_md(plan, QUERY_WEIGHTS), lib->engine, weights);
  if (s == 0) s = lib->memory_create(&mm->args[2].memory, plan->dst, lib->engine, g->c);
  if (s == 0) s = lib->memory_create(&mm->args[3].memory, plan_md(plan, QUERY_SCRATCHPAD), lib->engine, scratch);
  if (s == 0) s = lib->primitive_create(&mm->primitive, plan->pd);
  if (s != 0) {
    fail(err, "create the matmul primitive", s);
    ga_dnn_matmul_free(mm);
    return NULL;
  }
  return mm;
}

int ga_dnn_matmul_run(void *arg) {
  ga_dnn_matmul *mm = arg;
  // A thread-local setting: the team size of the primitive.
  mm->lib->set_threads(mm->threads);
  status s = mm->lib->primitive_execute(mm->primitive, mm->lib->stream, 4, mm->args);
  return s != 0 ? s : mm->lib->stream_wait(mm->lib->stream);
}

void ga_dnn_matmul_free(ga_dnn_matmul *mm) {
  if (mm == NULL) return;
  if (mm->primitive != NULL) mm->lib->primitive_destroy(mm->primitive);
  for (int i = 0; i < 4; i++)
    if (mm->args[i].memory != NULL) mm->lib->memory_destroy(mm->args[i].memory);
  free(mm);
}
