package kernels

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
)

// checkOperands are a check's operands as float64, tight: a is M×K, b is K×N in any layout. The problem's
// type represents every value exactly.
type checkOperands struct {
	a, b []float64
}

// newCheckOperands draws the operands of a check. They depend on shape, type, check, seed and quantized, not
// on layout or strides.
func newCheckOperands(p Task, check CheckStep, quantized bool, seed uint64) checkOperands {
	src := rand.New(rand.NewPCG(seed, uint64(p.M)<<42^uint64(p.N)<<21^uint64(p.K)))
	draw := func() float64 { return roundTo(p.DType, src.NormFloat64()) }
	switch {
	case check == CheckNonFinite, check == CheckOverflow, check == CheckSubnormals:
		return specialOperands(p, check, quantized, src)
	case check == CheckIntegers:
		draw = func() float64 { return float64(src.IntN(9) - 4) }
	case check == CheckExtremes:
		draw = func() float64 { return []float64{-128, -127, 127, 127}[src.IntN(4)] }
	case check == CheckOneSign && p.Scaled():
		draw = func() float64 { return math.Abs(src.NormFloat64()) }
	case p.Scaled():
		draw = src.NormFloat64
	case check == CheckOneSign:
		// Large enough that every sum exceeds 2^24.
		least := max(64, int(math.Ceil(math.Sqrt(float64(exactInFP32+1)/float64(p.K)))))
		draw = func() float64 { return float64(least + src.IntN(128-least)) }
	case p.DType == INT8:
		draw = func() float64 { return roundTo(INT8, src.NormFloat64()*32) }
	}
	o := checkOperands{a: make([]float64, p.M*p.K), b: make([]float64, p.K*p.N)}
	for _, v := range [][]float64{o.a, o.b} {
		for i := range v {
			v[i] = draw()
		}
	}
	if check == CheckOneSign { // alternates between columns of C
		for i := range o.b {
			if i%p.N%2 == 1 {
				o.b[i] = -o.b[i]
			}
		}
	}
	return o
}

func roundTo(d DType, x float64) float64 {
	switch d {
	case FP32:
		return float64(float32(x))
	case TF32:
		return RoundTF32(x)
	case FP16:
		return binary16.round(x)
	case BF16:
		return bfloat16.round(x)
	case FP8:
		return e4m3.round(x)
	case INT8:
		return max(-127, min(127, math.RoundToEven(x)))
	}
	return x
}

// product returns Σ a·b and, if magnitudes is set, Σ |a||b| of every output, M×N. Its own error, √K·2^-53
// relative to Σ|a||b|, is negligible; integers are exact.
func (o checkOperands) product(s Shape, magnitudes bool) (sum, magnitude []float64) {
	sum = make([]float64, s.M*s.N)
	if magnitudes {
		magnitude = make([]float64, s.M*s.N)
	}
	const block = 64 // rows of B that stay in cache
	workers := min(runtime.GOMAXPROCS(0), s.M)
	var wg sync.WaitGroup
	for w := range workers {
		first, end := s.M*w/workers, s.M*(w+1)/workers
		wg.Go(func() {
			for k0 := 0; k0 < s.K; k0 += block {
				for i := first; i < end; i++ {
					out := sum[i*s.N:][:s.N]
					for k := k0; k < min(k0+block, s.K); k++ {
						a := o.a[i*s.K+k]
						row := o.b[k*s.N:][:len(out)]
						for j, b := range row {
							out[j] += a * b
						}
						if magnitudes {
							abs := magnitude[i*s.N:][:len(row)]
							a := math.Abs(a)
							for j, b := range row {
								abs[j] += a * math.Abs(b)
							}
						}
					}
				}
			}
		})
	}
	wg.Wait()
	return sum, magnitude
}
