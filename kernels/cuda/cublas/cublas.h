// cuBLAS and cuBLASLt, opened at run time through their documented ABI, which
// versions 11, 12 and 13 share.
#ifndef GEMMAUDIT_CUBLAS_H
#define GEMMAUDIT_CUBLAS_H

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

enum { GA_BLAS_ERROR = 1024 }; // bytes of a message

// Values of the ABI: cublasStatus_t, cublasMath_t, cublasLtReductionScheme_t.
enum { GA_BLAS_NOT_SUPPORTED = 15 };
enum { GA_CUBLAS_MATH_DEFAULT = 0, GA_CUBLAS_MATH_FULL_REDUCTION = 16 };
enum { GA_CUBLASLT_REDUCE_FULL = 2, GA_CUBLASLT_REDUCE_ANY = 7 };

// ga_blas_status names a cublasStatus_t.
const char *ga_blas_status(int status);

// ga_blas_gemm is a column-major product: the m×n matrix c = op(b)·a, where op transposes if b_transposed. b
// is m×k, or k×m when transposed, and a is k×n. A batch has `products` products with operands strides of
// elements apart; 0 means a single product.
typedef struct {
  int b_transposed;
  int64_t m, n, k;
  int64_t ldb, lda, ldc;
  int64_t products, stride_b, stride_a, stride_c;
  int in, out, compute, scale; // types
  int b_scales, a_scales;      // cublasLtMatmulMatrixScale_t of fp8 with vectors or blocks of scales, else 0
  int epilogue;                // cublasLtEpilogue_t, 0 for none; a bias has the type of c
} ga_blas_gemm;

// ga_blas_about is the version and file of an opened library.
typedef struct {
  int version[3];
  char path[GA_BLAS_ERROR];
  void *handle;
  // The file of the cuBLASLt that the library is linked with, empty if unknown.
  char lt_path[GA_BLAS_ERROR];
} ga_blas_about;

// One opened library of either kind.
typedef struct ga_cublas ga_cublas;
typedef struct ga_cublaslt ga_cublaslt;

// ga_cublas_open and ga_cublaslt_open open a library by path or name. If it is unavailable or lacks a
// function, they return NULL and write the reason to err, of GA_BLAS_ERROR bytes. Libraries stay open until
// the process ends.
ga_cublas *ga_cublas_open(const char *name, char *err);
ga_cublaslt *ga_cublaslt_open(const char *name, char *err);

const ga_blas_about *ga_cublas_about(const ga_cublas *lib);
const ga_blas_about *ga_cublaslt_about(const ga_cublaslt *lib);

// ga_cublas_session is a handle for the current context at its creation. Products run on one stream at a
// time, with a workspace that the caller owns.
typedef struct ga_cublas_session ga_cublas_session;
ga_cublas_session *ga_cublas_session_new(ga_cublas *lib, CUdeviceptr workspace, size_t bytes, int math_mode, int *status);
void ga_cublas_session_free(ga_cublas_session *session);

// ga_cublas_call is a product with its operands' device addresses.
typedef struct {
  ga_cublas_session *on;
  ga_blas_gemm gemm;
  CUdeviceptr b, a, c;
} ga_cublas_call;

// ga_cublas_enqueue enqueues a ga_cublas_call by cublasGemmEx, a batch by cublasGemmStridedBatchedEx, and
// returns the library's status.
int ga_cublas_enqueue(void *call, CUstream stream);

// ga_cublas_grouped is products of equal n and k, and their operands' device addresses, for one call.
typedef struct ga_cublas_grouped ga_cublas_grouped;

// ga_cublas_has_grouped reports whether the library has cublasGemmGroupedBatchedEx.
int ga_cublas_has_grouped(const ga_cublas *lib);

// ga_cublas_grouped_new makes a call of groups products like gemm with that many rows of a and c, at least one. pointers is
// the device address of the addresses of all b, then of all a and of all c. It returns NULL without host memory; free frees
// it.
ga_cublas_grouped *ga_cublas_grouped_new(ga_cublas_session *on, const ga_blas_gemm *gemm, int groups, const int *rows, CUdeviceptr pointers);

// ga_cublas_grouped_enqueue enqueues a ga_cublas_grouped and returns the library's status.
int ga_cublas_grouped_enqueue(void *call, CUstream stream);

typedef struct ga_cublaslt_session ga_cublaslt_session;
// If fast is not 0, ga_cublaslt_session_new keeps partial sums of fp8 in the tensor core.
ga_cublaslt_session *ga_cublaslt_session_new(ga_cublaslt *lib, CUdeviceptr workspace, size_t bytes, int reductions, int fast, int *status);
void ga_cublaslt_session_free(ga_cublaslt_session *session);

// ga_cublaslt_config is the library's description of one algorithm.
typedef struct {
  int32_t id, tile, stages, split_k, reduction, swizzle, custom_option, inner_shape, cluster_shape;
  double waves;
  size_t workspace;
} ga_cublaslt_config;

// ga_cublaslt_plan is a product's descriptors and the heuristic's algorithms, best first.
typedef struct ga_cublaslt_plan ga_cublaslt_plan;

// ga_cublaslt_plan_new requests up to most algorithms for operands with addresses at multiples of align_b,
// align_a and align_c. It returns NULL and the library's status if there are none.
ga_cublaslt_plan *ga_cublaslt_plan_new(ga_cublaslt_session *session, const ga_blas_gemm *g, unsigned align_b, unsigned align_a,
                                       unsigned align_c, int most, int *status);

// ga_cublaslt_plan_describe describes a product for later requests of up to most algorithms. It returns NULL
// and the library's status on failure.
ga_cublaslt_plan *ga_cublaslt_plan_describe(ga_cublaslt_session *session, const ga_blas_gemm *g, int most, int *status);
// ga_cublaslt_plan_ask sets the product's columns, which are our M, and requests algorithms, which replace
// the previous ones. It returns the library's status. Calls must not use the plan.
int ga_cublaslt_plan_ask(ga_cublaslt_plan *plan, int64_t n, unsigned align_b, unsigned align_a, unsigned align_c);

// ga_cublaslt_plan_with makes a plan of one configuration, ignoring its waves and workspace. It returns NULL
// and the library's status if the library rejects it for the product, or for the session's workspace.
ga_cublaslt_plan *ga_cublaslt_plan_with(ga_cublaslt_session *session, const ga_blas_gemm *g, const ga_cublaslt_config *config, int *status);

int ga_cublaslt_plan_count(const ga_cublaslt_plan *plan);
void ga_cublaslt_plan_config(const ga_cublaslt_plan *plan, int algorithm, ga_cublaslt_config *config);
void ga_cublaslt_plan_free(ga_cublaslt_plan *plan);

// ga_cublaslt_call is a planned product with one of its algorithms and its operands' device addresses.
typedef struct {
  const ga_cublaslt_plan *plan;
  int algorithm;
  CUdeviceptr b, a, c;
  CUdeviceptr b_scales, a_scales; // 0 without
  CUdeviceptr bias;               // of each row of the library's c, 0 without
  CUdeviceptr residual;           // is added, in the layout of c; 0 without
} ga_cublaslt_call;

// ga_cublaslt_enqueue enqueues a ga_cublaslt_call and returns the library's status.
int ga_cublaslt_enqueue(void *call, CUstream stream);

#endif
