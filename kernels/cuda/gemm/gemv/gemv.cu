// arch: 75 80 86 89 90a ptx90 100 120
//
// gemv: C = A·Bᵀ for up to 8 rows of A, as fast as memory gives B. Compute capability
// 7.5 and up.
//
// Two operations a byte and token leave nothing to keep on the chip but A, so there are
// no tiles of K and no stages: each lane has eight 16-byte loads of weights in flight,
// or sixteen where AHEAD is 2, which is better for few blocks: it takes registers, so that
// two blocks instead of three share a multiprocessor. That makes 96 or 128 KiB in flight.
//
// gemv.cuh has the loop and how a block's threads share the work.
//
// Overlapped launches (9.0): the weights of the first step are fetched before the
// predecessor has ended, all else after it.
#include "gemv.cuh"

namespace gemv {

struct Params {
    const void *a;
    const void *b;
    void *c;
    int64_t lda, ldb, ldc; // in elements
    int m, n, k;
    int aligned; // rows of A are aligned to 16 bytes
};

// Tokens are the rows of A.
template <Type T>
struct Tokens {
    static constexpr int SIZE = Traits<T>::size;
    const char *a;
    int64_t lda;
    int bytes;
    bool aligned;

    __device__ __forceinline__ void begin() const { waitForPredecessor(); }
    __device__ __forceinline__ const char *row(int m) const { return a + m * lda * SIZE; }
    __device__ __forceinline__ uint4 load(const char *row, int at) const { return loadToken<SIZE>(row, at, bytes, aligned); }
};

template <Type T, int AHEAD, int TOKENS>
__device__ __forceinline__ void run(const Params &p) {
    constexpr int SIZE = Traits<T>::size;
    const int g = threadIdx.x % 32 / 4, n0 = blockIdx.x * ROWS, bytes = p.k * SIZE;
    dependentsMayStart();
    const Rows rows{static_cast<const char *>(p.b) + (n0 + g) * SIZE * p.ldb, 8 * SIZE * p.ldb, (p.n - n0 - g + 7) / 8};
    const Tokens<T> tokens{static_cast<const char *>(p.a), p.lda, bytes, p.aligned != 0};
    products<T, AHEAD, TOKENS>(rows, bytes, p.m, tokens, [&](int m, int row, typename Traits<T>::Value sum) {
        if (n0 + row < p.n) store<T>(p.c, m * p.ldc + n0 + row, sum);
    });
}

} // namespace gemv

// Turing has half of the threads of others, and all registers for them.
#define GA_GEMV(NAME, T, AHEAD, TOKENS)                                                       \
    extern "C" __global__ void __launch_bounds__(                                             \
        256, AHEAD == 1 && gemv::Type::T != gemv::Type::FP32 && __CUDA_ARCH__ >= 800 ? 3 : 2) \
        ga_gemv_##NAME(const __grid_constant__ gemv::Params p) {                              \
        gemv::run<gemv::Type::T, AHEAD, TOKENS>(p);                                           \
    }
#define GA_GEMV_BOTH(DTYPE, T)     \
    GA_GEMV(DTYPE##_1x8, T, 1, 8) \
    GA_GEMV(DTYPE##_2x8, T, 2, 8)

GA_GEMV(fp32_1x2, FP32, 1, 2)
GA_GEMV(fp32_1x4, FP32, 1, 4)
GA_GEMV(fp32_1x8, FP32, 1, 8)
GA_GEMV_BOTH(fp16, FP16)
GA_GEMV_BOTH(int8, S8)
#if __CUDA_ARCH__ >= 800
GA_GEMV_BOTH(bf16, BF16)
GA_GEMV_BOTH(tf32, TF32)
#endif
#if __CUDA_ARCH__ >= 890
GA_GEMV_BOTH(fp8, E4M3)
#endif
