// Package simulated is a device whose truth is known. Its kernels compute nothing:
// a block takes the time that the [Machine] says, disturbed as real machines disturb
// it, on a clock that advances without anybody waiting. Everything follows from seeds.
//
// A [Machine] is what stays the same from run to run: the true time of every product
// on every kernel, how far it follows the clock, what power it draws. A [Device] is
// one session on it, with noise and a temperature of its own; two audits of one
// machine are two sessions.
//
// # Truth
//
// The time of a row (one M of a kernel) is overhead + max(arithmetic, memory), the
// maximum rounded off, with a roughness of a few tenths of a per cent. Slow intervals are
// planted: their rate is (1 − depth) × the best of smaller M, at [NominalClockMHz].
// Staircases round the tiles up to whole waves; kernel switches are a library's
// heuristic that takes another algorithm from some M on and errs at others. A library with
// families has kernels of several tiles, and tells which it takes; isolated rows are slow for
// no reason that could be told.
//
// A batch of products is one launch: one overhead, the arithmetic and the memory of all, and
// the tiles of all in the same waves. It so takes less time than its products one by one.
//
// A machine of softmax has rows instead of products. Memory binds them at every M, and a kernel's efficiency is the
// share of the bandwidth that it reaches.
//
// # Clock
//
// Under a power limit the clock heads for the frequency at which the product that runs
// draws the limit, static + dynamic·(clock ÷ nominal)², and reaches it with a time
// constant of 3.2 ms: of two blocks of 1 ms the second keeps 0.86 of the first one's
// deviation. A hot device leaks, which lowers the clock. Time follows the clock by the
// row's elasticity: t = t₀·(nominal ÷ clock)^β, β near 1 where arithmetic binds and near
// 0.1 where memory does.
//
// No device of this package is registered among those of a host.
package simulated
