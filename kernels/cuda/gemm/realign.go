package gemm

import (
	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// Realigned is A for a kernel that needs rows at multiples of 16 bytes: A in place, or a copy in scratch made
// before the kernel.
type Realigned struct {
	p      kernels.Task
	ld     int   // of the copy, in elements
	Copied int64 // bytes at the start of scratch; 0 if A is read in place
}

// Realign decides whether A needs a copy.
func Realign(p kernels.Task, needed bool) Realigned {
	r := Realigned{p: p, ld: support.PackedLDB(p.DType, p.K)}
	if needed {
		r.Copied = (int64(p.M)*int64(r.ld*p.DType.Size()) + 255) / 256 * 256
	}
	return r
}

// Seconds returns the expected time of the copy.
func (r Realigned) Seconds(a planning.Arch) float64 {
	switch {
	case r.Copied == 0:
		return 0
	case a.Bandwidth > 0:
		return planning.LaunchSeconds(a) + float64(2*r.Copied)/a.Bandwidth
	}
	return planning.LaunchSeconds(a)
}

// Calls returns the copy, if any. It sets at to the kernel's view, with the kernel's own scratch after the
// copy, and returns A's leading dimension there.
func (r Realigned) Calls(a planning.Arch, at *Addresses) (calls []planning.Call, lda int) {
	if r.Copied == 0 {
		return nil, r.p.LDA
	}
	size := int64(r.p.DType.Size())
	calls = append(calls, support.RealignCall(a, at.A, at.Scratch, int64(r.p.M), int64(r.p.K)*size, int64(r.p.LDA)*size, int64(r.ld)*size))
	at.A = at.Scratch
	at.Scratch += uint64(r.Copied)
	return calls, r.ld
}
