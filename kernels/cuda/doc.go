// Package cuda audits NVIDIA GPUs. Its kernels are CUDA C++, built ahead of time
// and embedded; its plans, which kernel and how, are Go and need no GPU. What
// reaches the driver stands behind the build tag cuda; without it the package
// offers no devices and says why.
package cuda
