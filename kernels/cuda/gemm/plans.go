//go:build cuda

package gemm

import (
	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/driver"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
)

// chooser is the kernel of a family that chooses among plans; each of them is a kernel, too.
type chooser struct {
	*Kernel
	family planning.Chooser[Problem, Addresses]
}

var _ kernels.Planned = chooser{}

func newFamilyKernel(d *driver.Device, f Family) kernels.Kernel {
	k := NewKernel(d, f.Name(), f.Describe(d.Arch()), f)
	if choosing, ok := f.(planning.Chooser[Problem, Addresses]); ok {
		return chooser{k, choosing}
	}
	return k
}

// Plan implements [kernels.Planned].
func (c chooser) Plan(n int) kernels.Kernel {
	f := nth{planning.Nth[Problem, Addresses]{Chooser: c.family, N: n}}
	return NewKernel(c.dev, kernels.CandidateName(c.name, n), f.Describe(c.dev.Arch()), f)
}

type nth struct {
	planning.Nth[Problem, Addresses]
}

// Supports counts the plans for operands at the beginning of buffers.
func (f nth) Supports(a planning.Arch, p Problem) string {
	if why := f.Chooser.Supports(a, p); why != "" {
		return why
	}
	return f.Nth.Supports(a, InBuffers(p.Task))
}
