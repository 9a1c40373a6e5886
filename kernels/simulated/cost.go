package simulated

import "github.com/gemmaudit/gemmaudit/kernels"

// Cost returns the true time of one launch in seconds.
type Cost func(t kernels.Task) float64

// Linear is a kernel at a constant rate of flops per second plus an overhead in seconds per launch: MFU is
// flat over M except for the overhead.
func Linear(flops, overhead float64) Cost {
	return func(t kernels.Task) float64 { return overhead + t.Shape().FLOPs()/flops }
}

// Roofline takes the slower of flops per second and bandwidth in bytes per second, plus overhead.
func Roofline(flops, bandwidth, overhead float64) Cost {
	return func(t kernels.Task) float64 {
		return overhead + max(t.Shape().FLOPs()/flops, t.Shape().Bytes(t.DType)/bandwidth)
	}
}

// Waves is a staircase: tiles of tileM×tileN run one at a time on each unit, at unitFLOPS per second.
func Waves(tileM, tileN, units int, unitFLOPS, overhead float64) Cost {
	return func(t kernels.Task) float64 {
		tiles := ceil(t.M, tileM) * ceil(t.N, tileN)
		one := 2 * float64(tileM) * float64(tileN) * float64(t.K) / unitFLOPS
		return overhead + float64(ceil(tiles, units))*one
	}
}

// Slow multiplies a cost by factor for M in [from, to].
func Slow(c Cost, from, to int, factor float64) Cost {
	return func(t kernels.Task) float64 {
		if t.M >= from && t.M <= to {
			return c(t) * factor
		}
		return c(t)
	}
}

// Misaligned multiplies a cost by factor where N is no multiple of modulus.
func Misaligned(c Cost, modulus int, factor float64) Cost {
	return func(t kernels.Task) float64 {
		if t.N%modulus != 0 {
			return c(t) * factor
		}
		return c(t)
	}
}

func ceil(a, b int) int { return (a + b - 1) / b }
