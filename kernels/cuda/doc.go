// Package cuda audits NVIDIA GPUs: it puts the rooms below it together into devices. Device
// code is CUDA C++, built ahead of time and embedded; plans, which kernel and how, are Go
// and need no GPU. What reaches the driver stands behind the build tag cuda; without it the
// package offers no devices and says why.
//
// The rooms import each other in one direction, from the bottom to the top:
//
//	calibration the constants of the models by which plans are chosen, for each card
//	planning    what plans are made of, families of kernels and the choice among them
//	artefacts   the compiled device code
//	datasheet   cards by their data sheets
//	management  cards by NVML
//	support     launches around products: fill, pack, copy, stamp
//	driver      context, memory, code, launches, blocks, graphs
//	gemm        what families of products share; below it hopper, mma, gemv, cores, quantised
//	attention   its ladder, for one row and for many
//	softmax     that of rows: by a warp, a block, a cluster, or read twice; and baselines
//	decoder     operations between products, and fused ones; stands on attention and gemv
//	cublas      the vendor's libraries
//	candidates  what is measured to calibrate a card, to which fit, a program, fits the constants
//
// Device code lies beside the Go that plans it, headers of several rooms in include. A
// source includes headers by name alone, wherever they lie.
package cuda

//go:generate go run ./tilegen
