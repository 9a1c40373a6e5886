// arch: 90a
//
// hopper: C = A·Bᵀ by TMA and wgmma, for compute capability 9.0 and large M.
//
// Tile      BM × BN of C a block, 128 bytes of K a step. wgmma's rows come in 64s and its
//           columns in 8s: BM is 128, 192, 256 or 384, BN anything to 352, in as many sizes as
//           it takes for some tile to divide most matrices into whole rounds of all SMs.
//           Which side lies on the rows is a choice too: kernels whose name ends in t
//           compute the transpose, weights on the rows (N is a multiple of 128 in most
//           models), tokens on the columns (M is anything).
//           128×256 does 85 multiply-adds an element fetched, 128 where a cluster of two
//           fetches what both need only once; 128×96, for small matrices, does 55.
// Threads   3 warpgroups. 0: one thread feeds the ring by TMA, with few registers. 1 and
//           2: half of the tile each, its rows or, where they are 192 or columns more than 256, its columns;
//           sums in registers. Or, in kernels whose name ends in _turns, a tile each.
// Shared    STAGES × (A: BM rows of 128 bytes, then B: BN rows), 128-byte swizzle; then
//           two boxes of 16 rows × 128 bytes for each of eight warps, through which C
//           leaves (with one, TMA is waited for at every turn, which costs 2 %); then the
//           ring's barriers. Integers leave straight from registers: their boxes would take
//           a stage of the ring.
// Ring      full[s] completes with the stage's bytes, empty[s] when every consumer of
//           the cluster that reads the stage is done with it: a multicast writes into both blocks.
// Stagger   The second consumer starts `lead` steps after the first. Each then writes its
//           C while the other has the tensor cores for itself. That hides as much of a tile's
//           end as the ring is deep.
// Turns     Consumers that have a tile each take turns on the ring. One yields `lead` steps
//           before its last, so that the tensor cores never rest, and then has the time of
//           the other's whole tile to write its C. The yield is a named barrier of both
//           warpgroups: one arrives, the other waits. Each piece yields once, the last one
//           too, for which the other waits at its end. A stage is read by one consumer
//           only, whose arrival frees it. With 192 sums a thread the producer's registers go
//           to the consumers. It pays where C takes long or K is short: of the time that
//           shared tiles take at a K of 4096, it saves 10 % for int8, 6 % for fp8, 3 % for bf16.
// Grid      Persistent: every SM runs one block. Tiles are dealt out whole, in groups of
//           rows so that what runs at one time shares its operands in L2. Where whole
//           tiles would leave SMs idle in the last round, the first tiles are cut
//           along K into equal shares (stream-K): see Walk.
// Edges     The last tile along either side begins so early that it ends with the matrix, over
//           part of the one before it. Where TMA fills in zeros for rows beyond the end, all
//           blocks of a round are up to 1.7 times as slow, as measured, the more rows the slower:
//           they no longer keep pace with each other. Both tiles store the same bits. Tiles that
//           are cut unevenly would not, and keep their places.
// Repeats   Sums of a cut tile are added in the order of K from the last part to the
//           first, by whoever holds the last part, so results repeat bit for bit.

#include "hopper_wide.cuh"

// The tiles of each type. Consumers divide those of 192 rows by columns. 256×128 is as good as
// 128×256, and one of them is enough. A consumer that has a tile of its own holds up to 192 sums a thread.
GA_HOPPER_TILES_BY_16(GA_HOPPER_T, bf16, BF16, BfloatOut)
GA_HOPPER_TILES_TALL(GA_HOPPER_T, bf16, BF16, BfloatOut)
GA_HOPPER_TILES_BETWEEN(GA_HOPPER_T, bf16, BF16, BfloatOut)
GA_HOPPER_TILES_LARGE(GA_HOPPER_T, bf16, BF16, BfloatOut)
GA_HOPPER_TILES_COARSE(GA_HOPPER, bf16, BF16, BfloatOut)
GA_HOPPER_TILES_COARSE_BETWEEN(GA_HOPPER, bf16, BF16, BfloatOut)
GA_HOPPER_TILES_TURNS(GA_HOPPER_TURNS_T, bf16, BF16, BfloatOut)
GA_HOPPER_TILES_TURNS_BETWEEN(GA_HOPPER_TURNS_T, bf16, BF16, BfloatOut)
GA_HOPPER_TILES_BY_16(GA_HOPPER, tf32, TF32, FloatOut)
GA_HOPPER_TILES_WORDS(GA_HOPPER, tf32, TF32, FloatOut)
GA_HOPPER_TILES_BY_16(GA_HOPPER, int8, S8, IntOut)
GA_HOPPER_TILES_WORDS(GA_HOPPER, int8, S8, IntOut)
GA_HOPPER_TILES_TURNS(GA_HOPPER_TURNS, int8, S8, IntOut)
