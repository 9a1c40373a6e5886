// Package brought runs kernels from shared libraries (kernels/plugin) on a GPU.
package brought
