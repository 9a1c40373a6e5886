package cuda

import "github.com/gemmaudit/gemmaudit/kernels"

// realigned is A for a kernel whose rows must begin at multiples of 16 bytes: where it
// lies, or copied into scratch ahead of the kernel, which then reads the copy.
type realigned struct {
	p      kernels.Problem
	ld     int   // of the copy, in elements
	copied int64 // bytes of scratch, which come first in it; 0 where A is read in place
}

// realign decides about A.
func realign(p kernels.Problem, needed bool) realigned {
	r := realigned{p: p, ld: packedLDB(p.DType, p.K)}
	if needed {
		r.copied = (int64(p.M)*int64(r.ld*p.DType.Size()) + 255) / 256 * 256
	}
	return r
}

// seconds is what the copy is expected to take.
func (r realigned) seconds(a arch) float64 {
	switch {
	case r.copied == 0:
		return 0
	case a.bandwidth > 0:
		return launchSeconds + float64(2*r.copied)/a.bandwidth
	}
	return launchSeconds
}

// calls are the copy, if any. They leave at as the kernel is to see it, its own scratch
// behind the copy, and lda is A's leading dimension there.
func (r realigned) calls(a arch, at *addresses) (calls []call, lda int) {
	if r.copied == 0 {
		return nil, r.p.LDA
	}
	size := int64(r.p.DType.Size())
	calls = append(calls, realignCall(a, at.a, at.scratch, int64(r.p.M), int64(r.p.K)*size, int64(r.p.LDA)*size, int64(r.ld)*size))
	at.a = at.scratch
	at.scratch += uint64(r.copied)
	return calls, r.ld
}
