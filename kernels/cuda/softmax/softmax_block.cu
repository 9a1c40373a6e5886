// arch: 75 80 86 89 90a ptx90
//
// softmax_block: a row in the registers of a block. Compute capability 7.5 and up.
//
// Threads   As many as the row needs, up to 1024, each with up to `vectors` pieces of 16 bytes:
//           the block's threads read neighbouring pieces. A block is for one row.
// In flight All of a row. So many blocks run on a multiprocessor that some load while others
//           wait for their sums or write.
// Memory    Each element once in, once out.
// Meeting   One barrier: warps leave largest logit and sum of weights together in shared memory,
//           and each merges all of them. Weights are computed twice, which costs less than a
//           second barrier or the registers to keep them.

#include "softmax_block_tiles.cuh"
#include "softmax_row.cuh"

namespace ga_softmax_block {

constexpr int THREADS = 1024;

#define SOFTMAX_BLOCK(name, T, suffix, form, vectors)                                        \
    extern "C" __global__ void __launch_bounds__(THREADS, 1)                                  \
        ga_softmax_block_##name##suffix##_##vectors(const __grid_constant__ SoftmaxParams p) { \
        rowInRegisters<T, form, vectors, false>(p);                                       \
    }
#define SOFTMAX_BLOCK_OF(name, T)                            \
    GA_SOFTMAX_BLOCK_TILES(SOFTMAX_BLOCK, name, T, , Form::ANY)  \
    GA_SOFTMAX_BLOCK_TILES(SOFTMAX_BLOCK, name, T, _whole, Form::WHOLE) \
    GA_SOFTMAX_BLOCK_TILES(SOFTMAX_BLOCK, name, T, _ends, Form::ENDS)

SOFTMAX_TYPES(SOFTMAX_BLOCK_OF)

}  // namespace ga_softmax_block
