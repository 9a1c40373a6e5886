// arch: 90a ptx90
//
// softmax_cluster: a row in the registers of the blocks of a cluster. Compute capability 9.0
// and up.
//
// Threads   Up to 1024 a block, up to 16 blocks a cluster, each thread with up to `vectors` pieces of
//           16 bytes: rows of up to 1 MiB. A block has a stretch of the row. Clusters of 16, which not
//           every GPU has, let two blocks of the longest rows share a multiprocessor: one loads while
//           the other writes.
// Memory    Each element once in, once out.
// Meeting   Within a block as in softmax_block. Then each block stores its largest logit and its
//           sum into the shared memory of all, 8 bytes that count at a barrier there; that all blocks
//           have begun is found out while the row is on its way.

#include "softmax_block_tiles.cuh"
#include "softmax_row.cuh"

namespace ga_softmax_cluster {

constexpr int THREADS = 1024;

#define SOFTMAX_CLUSTER(name, T, suffix, form, vectors)                                        \
    extern "C" __global__ void __launch_bounds__(THREADS)                                    \
        ga_softmax_cluster_##name##suffix##_##vectors(const __grid_constant__ SoftmaxParams p) { \
        rowInRegisters<T, form, vectors, true>(p);                                       \
    }
#define SOFTMAX_CLUSTER_OF(name, T)                            \
    GA_SOFTMAX_BLOCK_TILES(SOFTMAX_CLUSTER, name, T, , Form::ANY)  \
    GA_SOFTMAX_BLOCK_TILES(SOFTMAX_CLUSTER, name, T, _whole, Form::WHOLE) \
    GA_SOFTMAX_BLOCK_TILES(SOFTMAX_CLUSTER, name, T, _ends, Form::ENDS)

SOFTMAX_TYPES(SOFTMAX_CLUSTER_OF)

}  // namespace ga_softmax_cluster
