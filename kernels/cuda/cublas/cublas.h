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

// ga_blas_gemm is a product as the libraries take it, column-major: the m×n matrix
// c = op(b)·a, where op transposes if b_transposed. b is m×k, or k×m when
// transposed, and a is k×n. Of a batch there are so many products, their operands strides
// of elements apart; products is 0 where it is none.
typedef struct {
  int b_transposed;
  int64_t m, n, k;
  int64_t ldb, lda, ldc;
  int64_t products, stride_b, stride_a, stride_c;
  int in, out, compute, scale; // types
} ga_blas_gemm;

// ga_blas_about is the version of an opened library, and the file that it is.
typedef struct {
  int version[3];
  char path[GA_BLAS_ERROR];
  void *handle;
  // The file of the cuBLASLt that the library is linked with, empty where that is not known.
  char lt_path[GA_BLAS_ERROR];
} ga_blas_about;

// One opened library of either kind.
typedef struct ga_cublas ga_cublas;
typedef struct ga_cublaslt ga_cublaslt;

// ga_cublas_open and ga_cublaslt_open open a library by path or name. They return
// NULL and write the reason to err, of GA_BLAS_ERROR bytes, when it can't be had
// or lacks a function. Libraries stay open until the process ends.
ga_cublas *ga_cublas_open(const char *name, char *err);
ga_cublaslt *ga_cublaslt_open(const char *name, char *err);

const ga_blas_about *ga_cublas_about(const ga_cublas *lib);
const ga_blas_about *ga_cublaslt_about(const ga_cublaslt *lib);

// ga_cublas_session is a handle for the context that was current when it was made.
// Products run on one stream at a time, with a workspace that the caller owns.
typedef struct ga_cublas_session ga_cublas_session;
ga_cublas_session *ga_cublas_session_new(ga_cublas *lib, CUdeviceptr workspace, size_t bytes, int math_mode, int *status);
void ga_cublas_session_free(ga_cublas_session *session);

// ga_cublas_call is a product with its operands' addresses on the device.
typedef struct {
  ga_cublas_session *on;
  ga_blas_gemm gemm;
  CUdeviceptr b, a, c;
} ga_cublas_call;

// ga_cublas_enqueue puts a ga_cublas_call on a stream by cublasGemmEx, a batch by
// cublasGemmStridedBatchedEx, and returns the library's status.
int ga_cublas_enqueue(void *call, CUstream stream);

typedef struct ga_cublaslt_session ga_cublaslt_session;
// ga_cublaslt_session_new has partial sums of fp8 stay in the tensor core where fast is not 0.
ga_cublaslt_session *ga_cublaslt_session_new(ga_cublaslt *lib, CUdeviceptr workspace, size_t bytes, int reductions, int fast, int *status);
void ga_cublaslt_session_free(ga_cublaslt_session *session);

// ga_cublaslt_config is what the library tells of one algorithm.
typedef struct {
  int32_t id, tile, stages, split_k, reduction, swizzle, custom_option, inner_shape, cluster_shape;
  double waves;
  size_t workspace;
} ga_cublaslt_config;

// ga_cublaslt_plan is a product described to the library, with the algorithms that
// its heuristic offers, best first.
typedef struct ga_cublaslt_plan ga_cublaslt_plan;

// ga_cublaslt_plan_new asks for up to most algorithms for operands whose addresses are
// multiples of align_b, align_a and align_c. It returns NULL and the library's
// status when there is none.
ga_cublaslt_plan *ga_cublaslt_plan_new(ga_cublaslt_session *session, const ga_blas_gemm *g, unsigned align_b, unsigned align_a,
                                       unsigned align_c, int most, int *status);

// ga_cublaslt_plan_describe describes a product for questions about up to most algorithms,
// without asking any. It returns NULL and the library's status when it can't be described.
ga_cublaslt_plan *ga_cublaslt_plan_describe(ga_cublaslt_session *session, const ga_blas_gemm *g, int most, int *status);
// ga_cublaslt_plan_ask has the product n columns, which are our M, and asks anew, in place of
// what was offered before. It returns the library's status. Calls must not use the plan.
int ga_cublaslt_plan_ask(ga_cublaslt_plan *plan, int64_t n, unsigned align_b, unsigned align_a, unsigned align_c);

// ga_cublaslt_plan_with makes a plan of the one algorithm that a configuration names, whose waves
// and workspace are ignored. It returns NULL and the library's status when the library does not
// take it for the product, or not with the session's workspace.
ga_cublaslt_plan *ga_cublaslt_plan_with(ga_cublaslt_session *session, const ga_blas_gemm *g, const ga_cublaslt_config *config, int *status);

int ga_cublaslt_plan_count(const ga_cublaslt_plan *plan);
void ga_cublaslt_plan_config(const ga_cublaslt_plan *plan, int algorithm, ga_cublaslt_config *config);
void ga_cublaslt_plan_free(ga_cublaslt_plan *plan);

// ga_cublaslt_call is a planned product with one of its algorithms and its operands'
// addresses on the device.
typedef struct {
  const ga_cublaslt_plan *plan;
  int algorithm;
  CUdeviceptr b, a, c;
} ga_cublaslt_call;

// ga_cublaslt_enqueue puts a ga_cublaslt_call on a stream and returns the library's
// status.
int ga_cublaslt_enqueue(void *call, CUstream stream);

#endif
