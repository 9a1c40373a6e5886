package kernels

import (
	"bytes"
	"context"
	"math/rand/v2"
)

// CheckQuantised is [CheckMargin] of a product with quantised weights. The reference multiplies
// the values that the kernel takes, rounding included: see [QuantisedMatrix.Values] and [SumScaler].
func CheckQuantised(ctx context.Context, d Device, g QuantisedGemm, q QuantisedProblem, seed uint64) (float64, error) {
	c, err := NewQuantisedCheck(q, seed)
	if err != nil {
		return 0, err
	}
	return c.Margin(ctx, d, g)
}

// quantisedGuard is how many bytes of ones, NaNs as scales, lie behind raw quantised weights.
const quantisedGuard = 256

// scaled is the check for kernels that scale sums: its references multiply weights that are not rounded.
func (c *GemmCheck) scaled() *GemmCheck {
	if c.sums == nil {
		sums := *c
		sums.kinds, sums.weights = map[CheckStep]*gemmKind{}, FP32 // which holds a code times a scale
		c.sums = &sums
	}
	return c.sums
}

// quantise puts codes and scales in the place of a check's B, whose values are [N,K], and returns the
// raw weights. Of whole numbers scales are 1, so that products stay exact, and zero points differ all
// the same.
func (c *GemmCheck) quantise(check CheckStep, o *checkOperands, values []float64) ([]byte, error) {
	n, k := c.p.N, c.p.K
	m, err := Quantise(c.format, n, k, values)
	if err != nil {
		return nil, err
	}
	if check == CheckIntegers {
		src := rand.New(rand.NewPCG(c.seed, uint64(n)<<32^uint64(k)))
		half := 1 << (c.format.Bits - 1)
		for g := range m.Scales {
			zero := half
			if m.Zeros != nil {
				zero = half - 4 + src.IntN(8)
				m.Zeros[g] = uint8(zero)
			}
			m.Scales[g] = 1
			for i := g * c.format.GroupK; i < (g+1)*c.format.GroupK; i++ {
				m.Codes[i] = uint8(int(values[i]) + zero)
			}
		}
	}
	o.b = transpose(m.Values(c.weights), n, k)
	return append(m.Raw(), bytes.Repeat([]byte{0xff}, quantisedGuard)...), nil
}

// QuantisedCheckProblems is the standing table of products with quantised weights and activations of
// type d: every format, tails of M, N and K around tiles, decode, groups shorter and longer than a
// step along K, loose leading dimensions of A and C, and products of several tiles. Types that
// have no scales have none.
func QuantisedCheckProblems(d DType) []QuantisedProblem {
	if d != FP16 && d != BF16 {
		return nil
	}
	var out []QuantisedProblem
	add := func(m, n, k int, weights Quantisation, longer int) {
		p := Problem{Shape: Shape{M: m, N: n, K: k}, DType: d, BLayout: Transposed}
		if longer > 0 {
			p.LDA, p.LDC = k+longer, n+longer
		}
		out = append(out, QuantisedProblem{p, weights.format(d, k)})
	}
	for _, bits := range []int{4, 8} {
		for _, zeros := range []bool{false, true} {
			weights := func(group int) Quantisation { return Quantisation{Bits: bits, Group: group, ZeroPoints: zeros} }
			for i, group := range []int{32, 64, 128, 256, 0} {
				add(1, 128, 512, weights(group), 0)
				add(7+i, 200, 768, weights(group), 3)
				add(33, 72, 256, weights(group), 8*i)
			}
			// Groups that the step along K does not divide, and K that ends inside of a step.
			add(1, 65, 32, weights(32), 0)
			add(5, 130, 96, weights(32), 1)
			add(9, 64, 192, weights(64), 0)
			add(3, 33, 100, weights(0), 5)
			add(2, 1, 2, weights(0), 0)
			add(17, 127, 1000, weights(0), 0)
			// Tails of M around tiles.
			for _, m := range []int{2, 8, 15, 16, 17, 31, 32, 34, 64, 65, 127, 128, 129} {
				add(m, 136, 384, weights(128), m%3)
			}
			// More tiles than one, in every direction.
			add(1, 1032, 2048, weights(128), 0)
			add(259, 264, 640, weights(64), 7)
			add(523, 392, 256, weights(128), 0)
		}
	}
	return out
}
