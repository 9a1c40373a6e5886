// Package brought runs kernels on a GPU that were brought as shared libraries (kernels/plugin).
package brought
