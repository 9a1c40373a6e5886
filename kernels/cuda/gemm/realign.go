package gemm

import (
	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/planning"
	"github.com/gemmaudit/gemmaudit/kernels/cuda/support"
)

// Realigned is A for a kernel whose rows must begin at multiples of 16 bytes: where it
// lies, or copied into scratch ahead of the kernel, which then reads the copy.
type Realigned struct {
	p      kernels.Problem
	ld     int   // of the copy, in elements
	Copied int64 // bytes of scratch, which come first in it; 0 where A is read in place
}

// Realign decides about A.
func Realign(p kernels.Problem, needed bool) Realigned {
	r := Realigned{p: p, ld: support.PackedLDB(p.DType, p.K)}
	if needed {
		r.Copied = (int64(p.M)*int64(r.ld*p.DType.Size()) + 255) / 256 * 256
	}
	return r
}

// Seconds is what the copy is expected to take.
func (r Realigned) Seconds(a planning.Arch) float64 {
	switch {
	case r.Copied == 0:
		return 0
	case a.Bandwidth > 0:
		return planning.LaunchSeconds(a) + float64(2*r.Copied)/a.Bandwidth
	}
	return planning.LaunchSeconds(a)
}

// Calls are the copy, if any. They leave at as the kernel is to see it, its own scratch
// behind the copy, and lda is A's leading dimension there.
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
