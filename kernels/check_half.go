package kernels

import "math"

// halfSumShare is c of [HalfSumBound].
const halfSumShare = 24

// mostHalfSums is the largest number of parts that K may be split into.
const mostHalfSums = 32

// HalfSumBound returns the error that a product whose partial sums may be rounded to the 16 bits of its output adds
// to [ErrorBound], for an output with exact value ref and magnitude = Σ|a||b|:
//
//	u_out·(|ref| + min(1, c/√K)·magnitude) + 32·η_out
//
// K is split into S parts, and at most S partial sums and S running totals are rounded. S is at most 32, and a part has
// at least the 16 products of an instruction.
//
// One rounding of each part errs by at most u·Σ|part| ≤ u·magnitude. Running totals that are rounded S times, as in
// sums within the output, are larger than their parts: they grow with √K for products of random signs. The rounding
// errors are independent, so their standard deviation is u/√3·√(Σ total²) ≈ u/√3·√(S/2·Σ(ab)²), for S = 32
// 2.3·u·√Σ(ab)². Of normal operands √Σ(ab)² is π/2·magnitude/√K, of whole numbers in [-4,4] 1.35·magnitude/√K.
// At λ = 6, as in [ErrorConstant], this makes 22·u·magnitude/√K. With K ≥ 16·S it is below u·magnitude where
// c/√K exceeds 1. Measured errors are up to 0.8 of the bound.
//
// The first term is a second rounding of the whole sum. The last is for sums below the type's normal range.
func HalfSumBound(t Task, ref, magnitude float64) float64 {
	out := t.DType.Output()
	if out.Size() != 2 {
		return 0
	}
	share := min(1, halfSumShare/math.Sqrt(float64(t.K)))
	return out.UnitRoundoff()*(math.Abs(ref)+share*magnitude) + mostHalfSums*smallestStep(out)
}

// HalfSumsOf returns the type that a kernel may round a task's partial sums to, or "". See [HalfSummer].
func HalfSumsOf(k Kernel, t Task) DType {
	out := t.DType.Output()
	if h, ok := k.(HalfSummer); ok && t.Operation.IsProduct() && out.Size() == 2 && h.HalfSums(t) {
		return out
	}
	return ""
}

// halved returns the check for kernels with partial sums of 16 bits.
func (c *GemmCheck) halved() *GemmCheck {
	if c.halves == nil {
		c.halves = c.variant()
		c.halves.half = true
	}
	return c.halves
}

// widen adds what partial sums of 16 bits may add to the bound of an output. Those of fp16 may also overflow, which
// sums of both signs don't show.
func (k *gemmKind) widen(p Task, ref, magnitude, bound float64) float64 {
	if !k.half {
		return bound
	}
	if p.DType.Output() == FP16 && magnitude > 65504 && !math.IsInf(roundTo(FP16, ref), 0) {
		return math.Inf(1)
	}
	if k.check == CheckOverflow { // terms of one sign: the totals of all parts are that large
		return bound + HalfSumBound(p, ref, mostHalfSums*magnitude)
	}
	return bound + HalfSumBound(p, ref, magnitude)
}
