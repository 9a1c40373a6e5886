// Package cuda audits NVIDIA GPUs: it combines the packages below it into devices. Device code is CUDA C++,
// built ahead of time and embedded. Plans (the choice of kernel, tile and schedule) are Go and need no GPU.
// Code that calls the driver needs the build tag cuda; without it the package offers no devices and gives the
// reason.
//
// Packages import only those above them:
//
//	calibration constants of the planning models, for each card
//	planning    elements of plans, kernel families and the choice among them
//	artefacts   the compiled device code
//	datasheet   data-sheet figures of cards
//	management  cards by NVML
//	support     launches around products: fill, pack, copy, stamp
//	driver      context, memory, code, launches, blocks, graphs
//	gemm        common parts of product families; below it hopper, mma, gemv, cores, quantized
//	attention   attention kernels, for one row and for many
//	softmax     softmax over rows: by warp, block, cluster, or two reads; and baselines
//	decoder     operations between products, and fused ones; uses attention and gemv
//	cublas      the vendor's libraries
//
// Device code lies next to the Go code that plans it. Headers shared by several packages are in include;
// sources include every header by its bare name.
package cuda

//go:generate go run ../../scripts/tilegen
