// Package kerneltest simulates devices for tests: kernels whose time is a
// declared function of the shape, under seeded noise and drift, on a clock that
// advances without anybody waiting. What a rule or a sweep finds on such a device
// can be compared with what was put in. No device of this package is ever
// registered in the product.
package kerneltest

import (
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Cost is the true time of one launch of a problem, in seconds.
type Cost func(p kernels.Problem) float64

// Linear is a kernel at a constant rate of flops a second: MFU is flat over M
// but for the overhead in seconds that every launch pays.
func Linear(flops, overhead float64) Cost {
	return func(p kernels.Problem) float64 { return overhead + p.FLOPs()/flops }
}

// Roofline is bound by the slower of flops a second and bandwidth in bytes a second.
func Roofline(flops, bandwidth, overhead float64) Cost {
	return func(p kernels.Problem) float64 {
		return overhead + max(p.FLOPs()/flops, p.Bytes(p.DType)/bandwidth)
	}
}

// Waves is a staircase: tiles of tileM×tileN are dealt to units that each do
// one at a time, at unitFLOPS a second for whole tiles.
func Waves(tileM, tileN, units int, unitFLOPS, overhead float64) Cost {
	return func(p kernels.Problem) float64 {
		tiles := ceil(p.M, tileM) * ceil(p.N, tileN)
		one := 2 * float64(tileM) * float64(tileN) * float64(p.K) / unitFLOPS
		return overhead + float64(ceil(tiles, units))*one
	}
}

// Slow multiplies another cost by factor for M in [from, to].
func Slow(c Cost, from, to int, factor float64) Cost {
	return func(p kernels.Problem) float64 {
		if p.M >= from && p.M <= to {
			return c(p) * factor
		}
		return c(p)
	}
}

func ceil(a, b int) int { return (a + b - 1) / b }

// Noise is what the world does to a block: a log-normal factor of relative width
// Sigma, and with probability TailP a slowdown whose excess is exponential with
// mean TailScale. The zero value is silence.
type Noise struct {
	Sigma     float64
	TailP     float64
	TailScale float64
}

// HeavyTailed is noise as real machines show it: sigma of width, and one block in
// fifty slower by eight sigma on average.
func HeavyTailed(sigma float64) Noise { return Noise{Sigma: sigma, TailP: 0.02, TailScale: 8 * sigma} }

// random is the part of math/rand/v2 that noise needs.
type random interface {
	NormFloat64() float64
	ExpFloat64() float64
	Float64() float64
}

func (n Noise) factor(r random) float64 {
	f := math.Exp(n.Sigma * r.NormFloat64())
	if n.TailP > 0 && r.Float64() < n.TailP {
		f *= 1 + n.TailScale*r.ExpFloat64()
	}
	return f
}
