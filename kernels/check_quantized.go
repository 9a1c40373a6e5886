package kernels

import (
	"bytes"
	"math/rand/v2"
)

// quantizedGuard is the number of 0xFF bytes (NaN as scales) after raw quantized weights.
const quantizedGuard = 256

// scaled returns the check for kernels that scale sums: its references multiply unrounded weights.
func (c *GemmCheck) scaled() *GemmCheck {
	if c.sums == nil {
		c.sums = c.variant()
		c.sums.weights = FP32 // holds a code times a scale exactly
	}
	return c.sums
}

// quantize replaces a check's B, values [N,K], by codes and scales and returns the raw weights. For integers
// all scales are 1 so that products stay exact; zero points still vary.
func (c *GemmCheck) quantize(check CheckStep, o *checkOperands, values []float64) ([]byte, error) {
	n, k := c.p.N, c.p.K
	m, err := Quantize(c.p.Weights, n, k, values)
	if err != nil {
		return nil, err
	}
	if check == CheckIntegers {
		src := rand.New(rand.NewPCG(c.seed, uint64(n)<<32^uint64(k)))
		half := 1 << (c.p.Weights.Bits - 1)
		for g := range m.Scales {
			zero := half
			if m.Zeros != nil {
				zero = half - 4 + src.IntN(8)
				m.Zeros[g] = uint8(zero)
			}
			m.Scales[g] = 1
			for i := g * c.p.Weights.GroupK; i < (g+1)*c.p.Weights.GroupK; i++ {
				m.Codes[i] = uint8(int(values[i]) + zero)
			}
		}
	}
	o.b = transpose(m.Values(c.weights), n, k)
	return append(m.Raw(), bytes.Repeat([]byte{0xff}, quantizedGuard)...), nil
}

// QuantizedCheckProblems returns the standard problems with quantized weights and activations of type d:
// every format, tails, decode, groups shorter and longer than a K step, padded A and C, and several tiles.
// Types without scales have none.
func QuantizedCheckProblems(d DType) []Task {
	if d == FP8 {
		return scaledCheckProblems(d)
	}
	if d != FP16 && d != BF16 {
		return nil
	}
	var out []Task
	add := func(m, n, k int, weights WeightFormat, longer int) {
		p := Task{Subject: Linear(d, n, k), M: m}.WithWeights(weights.with(d, k))
		if longer > 0 {
			p.LDA, p.LDC = k+longer, n+longer
		}
		out = append(out, p)
	}
	for _, of := range weightTypes {
		if of.Activations != "" {
			continue
		}
		for _, zeros := range []bool{false, true} {
			if zeros && of.Levels != nil {
				continue
			}
			weights := func(group int) WeightFormat { return of.Format(group).WithZeroPoints(zeros) }
			for i, group := range []int{32, 64, 128, 256, 0} {
				add(1, 128, 512, weights(group), 0)
				add(7+i, 200, 768, weights(group), 3)
				add(33, 72, 256, weights(group), 8*i)
			}
			// Groups that the K step does not divide, and K that ends inside a step.
			add(1, 65, 32, weights(32), 0)
			add(5, 130, 96, weights(32), 1)
			add(9, 64, 192, weights(64), 0)
			add(3, 33, 100, weights(0), 5)
			add(2, 1, 2, weights(0), 0)
			add(17, 127, 1000, weights(0), 0)
			for _, m := range []int{2, 8, 15, 16, 17, 31, 32, 34, 64, 65, 127, 128, 129} {
				add(m, 136, 384, weights(128), m%3)
			}
			add(1, 1032, 2048, weights(128), 0)
			add(259, 264, 640, weights(64), 7)
			add(523, 392, 256, weights(128), 0)
		}
	}
	return out
}
