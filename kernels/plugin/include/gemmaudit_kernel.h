// The C interface for user kernels. It has no dependencies.
//
// A shared library exports one function, gemmaudit_kernel_get, which returns the description of a GEMM
// kernel: C[M,N] = A[M,K] · B on the CPU or on an NVIDIA GPU. `gemmaudit selftest --kernel ./mine.so`
// compares its results with a float64 reference. `gemmaudit sweep --kernel ./mine.so,auto` times it next to
// the others.
//
// The library runs in gemmaudit's process and with its rights; a crash in it ends the program.
//
// Matrices are row-major. A is M×K with lda ≥ K. C is M×N with ldc ≥ N; the kernel must not write the
// elements between N and ldc. b_transposed gives the layout of B. Elements have type dtype, but C is bf16 for
// fp8 and int32 for int8. Sums are kept in fp32 or better (int8: exact int32) and rounded once. The same
// operands must give the same bits every time.
#ifndef GEMMAUDIT_KERNEL_H
#define GEMMAUDIT_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// The version of this interface. Libraries built for another version are rejected.
#define GEMMAUDIT_KERNEL_ABI 1

enum {
  GEMMAUDIT_FP32 = 0,
  GEMMAUDIT_TF32 = 1, // fp32 in memory
  GEMMAUDIT_FP16 = 2,
  GEMMAUDIT_BF16 = 3,
  GEMMAUDIT_FP8 = 4,  // e4m3; C is bf16
  GEMMAUDIT_INT8 = 5, // C is int32
};

// Device kinds.
enum { GEMMAUDIT_CPU = 1, GEMMAUDIT_CUDA = 2 };

// One product. Leading dimensions are in elements.
typedef struct gemmaudit_problem {
  int64_t m, n, k;
  int64_t lda, ldb, ldc;
  int32_t dtype;
  int32_t b_transposed; // 0: B is [K,N], ldb ≥ N; 1: B is [N,K], ldb ≥ K, as in a linear layer
  int32_t threads;      // CPU: number of threads; GPU: 0
  int32_t ordinal;      // GPU: CUDA device ordinal; CPU: 0
} gemmaudit_problem;

// A product with its operands: host addresses, or CUdeviceptr on a GPU.
typedef struct gemmaudit_launch {
  gemmaudit_problem problem;
  const void *a;
  const void *b;   // B as given, or the output of prepare
  void *c;
  void *workspace; // workspace_bytes bytes, uninitialized, aligned to 256 bytes; or NULL
} gemmaudit_launch;

// One thread's view of the threads that run a launch together.
typedef struct gemmaudit_team {
  int32_t thread;  // 0 to threads-1
  int32_t threads;
  // barrier waits until all threads of the team have called it.
  void (*barrier)(const struct gemmaudit_team *team);
  void *host; // gemmaudit's own
} gemmaudit_team;

// The size of error buffers in bytes.
#define GEMMAUDIT_ERROR_BYTES 256

// The maximum number of kernels that one call of enqueue or prepare launches on a GPU.
#define GEMMAUDIT_MAX_LAUNCHES 8

// The description of a kernel. It and its strings stay valid while the library is loaded. Functions that
// return int return 0 for success. Otherwise they write the reason, one line of text, to error, which has
// GEMMAUDIT_ERROR_BYTES bytes.
typedef struct gemmaudit_kernel {
  uint32_t abi;    // GEMMAUDIT_KERNEL_ABI
  uint32_t device; // GEMMAUDIT_CPU or GEMMAUDIT_CUDA

  // The kernel's unique name for --kernel and run files: a lower-case letter, then up to 31 lower-case
  // letters, digits, - and _.
  const char *name;
  // A one-line description of at most 200 bytes of UTF-8: instruction set, tile, version.
  const char *description;

  // supports returns 0 if the kernel can compute p. NULL: it can compute all problems.
  int (*supports)(const gemmaudit_problem *p, char *error);

  // workspace_bytes returns the size of the workspace in bytes. NULL: 0.
  int64_t (*workspace_bytes)(const gemmaudit_problem *p);

  // Kernels that pack B ahead of time set both functions. packed_bytes returns the size of packed, which
  // prepare writes; packed is aligned to 256 bytes. Neither may depend on p->m, p->lda, p->ldc or p->threads,
  // because one packed B serves all M. Packing is timed only with --pack-inside. On a GPU prepare enqueues on
  // stream, a CUstream.
  int64_t (*packed_bytes)(const gemmaudit_problem *p);
  int (*prepare)(const gemmaudit_problem *p, const void *b, void *packed, void *stream, char *error);

  // A kernel sets run, run_team or enqueue; only this function is timed.
  //
  // run computes a product on the CPU. gemmaudit always calls it on the same, unpinned thread. run starts
  // p.threads threads itself, for example with OpenMP.
  int (*run)(const gemmaudit_launch *l, char *error);
  // run_team computes a product on the CPU, called on problem.threads threads of gemmaudit at once, each
  // pinned to a core. It can't fail: supports must reject unsupported problems. Such a kernel can't pack
  // inside the timing.
  void (*run_team)(const gemmaudit_launch *l, const gemmaudit_team *team);
  // enqueue enqueues a product on stream, a CUstream of the current context, and returns without waiting. It
  // must not synchronize or allocate. Calls with the same launch must enqueue the same work, at most
  // GEMMAUDIT_MAX_LAUNCHES kernels.
  int (*enqueue)(const gemmaudit_launch *l, void *stream, char *error);
} gemmaudit_kernel;

// The function that the library exports.
const gemmaudit_kernel *gemmaudit_kernel_get(void);
typedef const gemmaudit_kernel *(*gemmaudit_kernel_get_fn)(void);

// Softmax. A library with a softmax exports gemmaudit_softmax_get instead of gemmaudit_kernel_get. It
// computes the softmax of each row of a matrix, or its logarithm. With z = scale·x, out is e^(z-max z) ÷
// Σe^(z-max z), or z - max z - log Σe^(z-max z). Both matrices are row-major and contiguous, have type dtype
// (fp32, fp16 or bf16) and do not overlap. Sums are kept in fp32 or better and rounded once. A row with NaN,
// +Inf or only -Inf gives NaN.

// The version of the softmax interface. Libraries built for another version are rejected.
#define GEMMAUDIT_SOFTMAX_ABI 1

typedef struct gemmaudit_softmax_problem {
  int64_t rows, columns;
  // 0: no mask. Otherwise the mask is causal: row r sees columns up to r mod queries + columns - queries.
  // Masked columns of out are 0, or -Inf for the logarithm.
  int64_t queries;
  float scale;
  int32_t dtype;
  int32_t log;     // 1: the logarithm
  int32_t threads; // CPU: number of threads; GPU: 0
  int32_t ordinal; // GPU: CUDA device ordinal; CPU: 0
} gemmaudit_softmax_problem;

// A softmax with its operands: host addresses, or CUdeviceptr on a GPU.
typedef struct gemmaudit_softmax_launch {
  gemmaudit_softmax_problem problem;
  const void *in;
  void *out;
} gemmaudit_softmax_launch;

// The description of a softmax. Functions and strings follow the rules of gemmaudit_kernel.
typedef struct gemmaudit_softmax {
  uint32_t abi;    // GEMMAUDIT_SOFTMAX_ABI
  uint32_t device; // GEMMAUDIT_CPU or GEMMAUDIT_CUDA
  const char *name;
  const char *description;
  int (*supports)(const gemmaudit_softmax_problem *p, char *error); // or NULL
  // Set run for the CPU, or enqueue for a GPU.
  int (*run)(const gemmaudit_softmax_launch *l, char *error);
  int (*enqueue)(const gemmaudit_softmax_launch *l, void *stream, char *error);
} gemmaudit_softmax;

// The function that the library exports.
const gemmaudit_softmax *gemmaudit_softmax_get(void);
typedef const gemmaudit_softmax *(*gemmaudit_softmax_get_fn)(void);

#ifdef __cplusplus
}
#endif

#endif
