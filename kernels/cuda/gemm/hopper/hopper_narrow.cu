// arch: 90a
//
// The small-M variant of the hopper kernel, for few tokens: C = A·Bᵀ computed as its
// transpose, so that weights lie on the side of wgmma that comes in 64s and tokens on
// the side that comes in 8s. Compute capability 9.0a.
//
// Tile: ROWS rows of weights (64, 128 or 192) by TOKENS tokens (8 to 256) by 128 bytes
// of K, DEPTH of them a stage. With few tokens nothing but weights moves, ROWS·128
// bytes for 2·ROWS·TOKENS·(128 ÷ size) operations: TOKENS operations a byte at 16 bit,
// so memory decides until about 200 tokens, and what counts is bytes in flight. Rings of
// 220 KiB on 64 to 132 multiprocessors hold 13 MB and more, where memory needs about 5
// (4.3 TB/s for 1.2 us). They run empty between launches only.
//
// Threads: a consumer warpgroup for every 64 rows, then one producer warp of which one
// lane works. That lane issues every fetch and has some 100 ns for it, and a consumer as
// long for its products: their loops do nothing that could be done before.
//
// Shared memory: the ring of stages (weights, then tokens, as the TMA swizzles them,
// 128-byte rows), scratch of each consumer warp for turning fragments into rows of C, then
// the barriers of the ring.
//
// Work: tiles times steps of K. Tiles that fill whole waves are done whole; the rest are
// cut into equal runs of steps, one for each cluster (stream-K): see Walk. What a run holds
// of a tile that the next run finishes is handed over in `partials`. Sums are added in the
// order of the runs: the same bits every time. Blocks side by side share weights or, where those
// of a cluster do, tokens. The last tile along either side ends with the matrix, where
// that gives the same bits: see hopper.cu.
//
// Clusters: a cluster's tile is `clusterRows` by `clusterTokens` tiles. Blocks of the
// same weights each fetch a part and send it to all of them, and so do blocks of the
// same tokens: what a multiprocessor takes in is the same, what L2 has to give shrinks.
//
// Overlapped launches: weights are fetched before the predecessor has ended, all else
// after it; the successor may start once the last fetch is under way, so that its
// weights move while this kernel's last tiles are added up.
#include "hopper_narrow_kernel.cuh"

GA_SMALL_M_TILES(GA_SMALL_M, bf16, BF16)
GA_SMALL_M_TILES(GA_SMALL_M, tf32, TF32)
GA_SMALL_M_TILES(GA_SMALL_M, int8, S8)
GA_SMALL_M_TILES_BETWEEN(GA_SMALL_M, bf16, BF16)
