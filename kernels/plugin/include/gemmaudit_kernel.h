// gemmaudit's interface for kernels that are brought from outside: plain C, no dependencies.
//
// A shared library exports one function, gemmaudit_kernel_get, which returns the
// description of one kernel: a matrix product C[M,N] = A[M,K] · B on the CPU or on an NVIDIA
// GPU. `gemmaudit selftest --kernel ./mine.so` holds its results against a float64 reference,
// `gemmaudit sweep --kernel ./mine.so,auto` times it beside the others.
//
// The library is loaded into gemmaudit's process: a fault in it ends the program, and it can
// do whatever the user who runs gemmaudit can do.
//
// Matrices are row-major. A is M×K with lda ≥ K. C is M×N with ldc ≥ N; the elements
// between N and ldc belong to others and must not be written. B is as b_transposed says.
// Elements are of type dtype, but C of an int8 product is int32. Sums are kept in fp32 or
// better (int8: int32, exact), rounded once. The same operands give the same bits every time.
#ifndef GEMMAUDIT_KERNEL_H
#define GEMMAUDIT_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// The version of this interface. A library built for another one is refused.
#define GEMMAUDIT_KERNEL_ABI 1

// Element types.
enum {
  GEMMAUDIT_FP32 = 0,
  GEMMAUDIT_TF32 = 1, // fp32 in memory
  GEMMAUDIT_FP16 = 2,
  GEMMAUDIT_BF16 = 3,
  GEMMAUDIT_FP8 = 4,  // e4m3; C is bf16
  GEMMAUDIT_INT8 = 5, // C is int32
};

// Where a kernel runs.
enum { GEMMAUDIT_CPU = 1, GEMMAUDIT_CUDA = 2 };

// One product. Leading dimensions are in elements.
typedef struct gemmaudit_problem {
  int64_t m, n, k;
  int64_t lda, ldb, ldc;
  int32_t dtype;
  int32_t b_transposed; // 0: B is [K,N], ldb ≥ N; 1: B is [N,K], ldb ≥ K, as a linear layer stores it
  int32_t threads;      // CPU: how many threads compute it; 0 on a GPU
  int32_t ordinal;      // CUDA: the device's ordinal; 0 on a CPU
} gemmaudit_problem;

// A product with its operands: addresses on the host, or CUdeviceptr of a GPU.
typedef struct gemmaudit_launch {
  gemmaudit_problem problem;
  const void *a;
  const void *b;   // B as it was given, or what prepare has made of it
  void *c;
  void *workspace; // workspace_bytes of memory with any content, aligned to 256 bytes; or NULL
} gemmaudit_launch;

// The threads that run one launch together, as run_team sees them. The fields belong to the
// calling thread.
typedef struct gemmaudit_team {
  int32_t thread;  // 0 to threads-1
  int32_t threads;
  // barrier waits until all threads of the team have called it.
  void (*barrier)(const struct gemmaudit_team *team);
  void *host; // gemmaudit's own
} gemmaudit_team;

// The size of the buffers for error texts.
#define GEMMAUDIT_ERROR_BYTES 256

// How many kernels one call of enqueue or prepare may launch on a GPU.
#define GEMMAUDIT_MAX_LAUNCHES 8

// The description of a kernel. It and its strings stay valid as long as the library is loaded.
// Functions return 0 for success; else they write the reason, one line of text, to error, which
// has room for GEMMAUDIT_ERROR_BYTES.
typedef struct gemmaudit_kernel {
  uint32_t abi;    // GEMMAUDIT_KERNEL_ABI
  uint32_t device; // GEMMAUDIT_CPU or GEMMAUDIT_CUDA

  // The name under which the kernel is selected and stored: a lower-case letter, then up to 31
  // lower-case letters, digits, - and _. It must not be one that gemmaudit has for another.
  const char *name;
  // One line for people, of at most 200 bytes of UTF-8: instruction set, tile, version.
  const char *description;

  // supports returns 0 when the kernel computes p, and else the reason. NULL: it computes
  // whatever is asked.
  int (*supports)(const gemmaudit_problem *p, char *error);

  // workspace_bytes is the memory that a launch needs beside its operands. NULL: none.
  int64_t (*workspace_bytes)(const gemmaudit_problem *p);

  // A kernel that packs B ahead of time sets both of these. packed_bytes is the size of what
  // prepare writes to packed, which is aligned to 256 bytes. Neither may depend on p->m,
  // p->lda, p->ldc or p->threads, since one packed B serves every M. It is not timed, unless
  // --pack-inside asks for it. On a GPU prepare enqueues onto stream, a CUstream.
  int64_t (*packed_bytes)(const gemmaudit_problem *p);
  int (*prepare)(const gemmaudit_problem *p, const void *b, void *packed, void *stream, char *error);

  // One of these three is set, and does what is timed.
  //
  // run computes a product on the CPU. It is called on one thread, always the same one, which
  // may run on any CPU; it starts p.threads threads of its own or uses OpenMP.
  int (*run)(const gemmaudit_launch *l, char *error);
  // run_team computes a product on the CPU on threads of gemmaudit, each pinned to a core: it
  // is called on problem.threads threads at once. It can't fail: what it does not compute,
  // supports refuses. Such a kernel can't pack inside the timing.
  void (*run_team)(const gemmaudit_launch *l, const gemmaudit_team *team);
  // enqueue puts a product onto stream, a CUstream of the current context, and returns without
  // waiting for it. It must neither synchronise nor allocate, and every call with the same launch
  // enqueues the same work: at most GEMMAUDIT_MAX_LAUNCHES kernels.
  int (*enqueue)(const gemmaudit_launch *l, void *stream, char *error);
} gemmaudit_kernel;

// gemmaudit_kernel_get is what the library exports.
const gemmaudit_kernel *gemmaudit_kernel_get(void);
typedef const gemmaudit_kernel *(*gemmaudit_kernel_get_fn)(void);

// Softmax. A library with a softmax exports gemmaudit_softmax_get in place of
// gemmaudit_kernel_get: the softmax of each row of a matrix, or its logarithm. With
// z = scale·x, out is e^(z-max z) ÷ Σe^(z-max z), or z - max z - log Σe^(z-max z). Both matrices are
// row-major, tight, of type dtype (fp32, fp16 or bf16), and apart from each other. Sums are kept
// in fp32 or better, rounded once. A row that sees NaN, +Inf or nothing but -Inf is NaN.

// The version of this part of the interface. A library built for another one is refused.
#define GEMMAUDIT_SOFTMAX_ABI 1

typedef struct gemmaudit_softmax_problem {
  int64_t rows, columns;
  // With a causal mask row r sees the columns up to r mod queries + columns - queries; the others
  // take no part, and are 0 in out, or -Inf of the logarithm. 0: there is no mask.
  int64_t queries;
  float scale;
  int32_t dtype;
  int32_t log;     // 1: the logarithm
  int32_t threads; // CPU: how many threads compute it; 0 on a GPU
  int32_t ordinal; // CUDA: the device's ordinal; 0 on a CPU
} gemmaudit_softmax_problem;

// A softmax with its operands: addresses on the host, or CUdeviceptr of a GPU.
typedef struct gemmaudit_softmax_launch {
  gemmaudit_softmax_problem problem;
  const void *in;
  void *out;
} gemmaudit_softmax_launch;

// The description of a softmax. What is said of gemmaudit_kernel's functions and strings holds here.
typedef struct gemmaudit_softmax {
  uint32_t abi;    // GEMMAUDIT_SOFTMAX_ABI
  uint32_t device; // GEMMAUDIT_CPU or GEMMAUDIT_CUDA
  const char *name;
  const char *description;
  int (*supports)(const gemmaudit_softmax_problem *p, char *error); // or NULL
  // One of these is set: run on the CPU, enqueue on a GPU.
  int (*run)(const gemmaudit_softmax_launch *l, char *error);
  int (*enqueue)(const gemmaudit_softmax_launch *l, void *stream, char *error);
} gemmaudit_softmax;

// gemmaudit_softmax_get is what the library exports.
const gemmaudit_softmax *gemmaudit_softmax_get(void);
typedef const gemmaudit_softmax *(*gemmaudit_softmax_get_fn)(void);

#ifdef __cplusplus
}
#endif

#endif
