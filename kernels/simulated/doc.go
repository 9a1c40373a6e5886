// Package simulated is one simulated machine: devices whose kernels take known times on a virtual clock, for tests and for
// `selftest --simulate`. The program never registers them. Everything follows from seeds.
//
// The times of a [Device] come from a declared [Cost] per kernel, see [New], or from a drawn [Machine], see [Machine.Open].
// Both run blocks alike: memory, copies, noise ([Disturbances]), blocks in flight ([Starter]), and failures on purpose. Kernels
// compute nothing, unless a declared one has Arithmetic.
//
// A [Machine] holds what stays the same between runs: each product's true time per kernel, its clock elasticity and its power.
// A [Card] is one session on it, with its own noise and temperature; two audits of a machine are two sessions.
//
//	# Truth
//
// The time of a row (one M of a kernel) is overhead + max(arithmetic, memory) with a rounded corner and a
// roughness of a few tenths of a percent. Slow intervals are planted: their rate is (1 − depth) × the best of
// smaller M, at [NominalClockMHz]. Staircases round tiles up to whole waves. Kernel switches are a library
// heuristic that changes the algorithm with M and errs at some M. A library with families has kernels of
// several tiles and reports its choice; isolated rows are slow for no visible reason.
//
// A batch of products is one launch: one overhead, all products' arithmetic and memory, and all tiles in
// common waves. It takes less time than its products one by one.
//
// A softmax machine has rows instead of products. They are memory-bound at every M, and a kernel's efficiency
// is its share of the bandwidth.
//
//	# Clock
//
// Under a power limit the clock approaches the frequency where the running product draws the limit, static +
// dynamic·(clock ÷ nominal)², with a time constant of 3.2 ms: of two 1 ms blocks the second keeps 0.86 of the
// first one's deviation. A hot device leaks, which lowers the clock. Time follows the clock by the row's
// elasticity: t = t₀·(nominal ÷ clock)^β, with β near 1 if compute-bound and near 0.1 if memory-bound.
package simulated
