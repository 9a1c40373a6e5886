package kernels

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// promotedFrom is the least K whose operands of one sign show a kernel that never moves its sums to fp32 registers: sums in
// tensor cores lose bits that the bound does not allow.
const promotedFrom = 7168

// scaledOperands are the operands of a check with scales for activations.
type scaledOperands struct {
	a      []float64 // fp8 elements of A, M×K
	scales []byte    // of A, as they lie
	raw    []byte    // B
}

// scale quantizes a check's operands, and replaces them by the values that the elements and scales stand for. Of
// integers the elements are kept, and scales are powers of two, so sums stay exact.
func (c *GemmCheck) scale(check CheckStep, o *checkOperands, seed uint64) (s scaledOperands, err error) {
	p, f := c.p, c.p.Weights
	src := rand.New(rand.NewPCG(seed, 0x5ca1e))
	of, _ := p.ActivationScales()
	b := transpose(o.b, p.K, p.N)
	if check != CheckIntegers {
		// Blocks of unlike size, so that a scale of another block shows.
		spread(o.a, p.K, 1, of.Group, src)
		spread(b, p.K, f.GroupN, f.GroupK, src)
	}
	a := &QuantizedMatrix{Format: WeightFormat{Type: "fp8", Bits: 8, GroupK: of.Group, GroupN: 1, Scale: FP32}, N: p.M, K: p.K,
		Codes: make([]uint8, p.M*p.K), Scales: make([]float64, p.M*of.Groups)}
	m := NewQuantizedMatrix(f, p.N, p.K)
	for _, x := range []struct {
		to     *QuantizedMatrix
		values []float64
	}{{a, o.a}, {m, b}} {
		if err := x.to.QuantizeRows(0, x.values); err != nil {
			return s, err
		}
		if check != CheckIntegers {
			continue
		}
		for i, v := range x.values {
			x.to.Codes[i] = EncodeFP8(v)
		}
		for i := range x.to.Scales {
			x.to.Scales[i] = math.Ldexp(1, src.IntN(3)-1)
		}
	}
	o.a, o.b = a.Values(FP8), transpose(m.Values(FP8), p.N, p.K)
	s.raw = append(m.Raw(), nans(quantizedGuard)...)
	s.scales = nans(4 * of.Groups * of.LD)
	for i, v := range a.Scales {
		row, group := i/of.Groups, i%of.Groups
		binary.LittleEndian.PutUint32(s.scales[4*(group*of.LD+row):], math.Float32bits(float32(v)))
	}
	for _, code := range a.Codes {
		s.a = append(s.a, e4m3Values[code])
	}
	return s, nil
}

// spread multiplies the blocks of rows of k values by different factors from 1/4 to 4.
func spread(values []float64, k, rows, columns int, src *rand.Rand) {
	for i0 := 0; i0*k < len(values); i0 += rows {
		for k0 := 0; k0 < k; k0 += columns {
			factor := math.Exp2(4*src.Float64() - 2)
			for i := i0; i < min(len(values)/k, i0+rows); i++ {
				for j := k0; j < min(k, k0+columns); j++ {
					values[i*k+j] *= factor
				}
			}
		}
	}
}

// nans returns bytes that are NaN as fp32 and as fp8.
func nans(bytes int) []byte {
	out := make([]byte, bytes)
	for i := range out {
		out[i] = 0xff
	}
	return out
}

// drawScaled lays the operands of a check: the scales of A behind A and its guard.
func (c *GemmCheck) drawScaled(k *gemmKind, seed uint64) error {
	s, err := c.scale(k.check, &k.operands[0], seed)
	if err != nil {
		return err
	}
	if k.hostA, err = k.stackA.lay(c.p.DType, [][]float64{s.a}, c.p.K); err != nil {
		return err
	}
	at := k.stackA.first() + c.p.ScalesAt
	k.hostA = append(k.hostA, nans(at-len(k.hostA))...)
	k.hostA = append(append(k.hostA, s.scales...), nans(quantizedGuard)...)
	k.hostB = s.raw
	k.stackB = stack{products: 1, rows: 1, ld: len(k.hostB), pitch: 1}
	return nil
}

// behindGuard places the scales of a check's A behind A and its guard.
func behindGuard(p Task) Task {
	if p.Scaled() {
		a := newStack(1, p.M, p.LDA, p.M*p.LDA, guardRows(p.LDA))
		p.ScalesAt = ceilDiv(a.elements(), scaleAlignment)*scaleAlignment - a.first()
	}
	return p
}

// scaledCheckProblems are the standard problems with scales of activations: tails of blocks along N and K, K shorter than a
// block, every kind of M for the stride of scales, padded A and C, and K from which promotion shows.
func scaledCheckProblems(d DType) []Task {
	var out []Task
	for _, of := range weightTypes {
		if of.Activations != d || of.Scale != FP32 {
			continue
		}
		block := of.Format(128)
		block.GroupN = 128
		for i, weights := range []WeightFormat{block, of.Format(0), of.Format(128)} {
			add := func(m, n, k, longer int) {
				p := Task{Subject: Linear(d, n, k), M: m}.WithWeights(weights.with(FP32, k))
				if p.Weights.check(k) != nil {
					return
				}
				if longer > 0 {
					p.LDA, p.LDC = k+longer, n+longer
				}
				out = append(out, p)
			}
			add(1, 1, 1, 0)
			add(3, 33, 100, 5)
			add(5, 130, 200, 1)
			add(2, 64, 64, 0)
			for j, m := range []int{1, 2, 3, 4, 5, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129} {
				add(m, 144, 384, 16*((i+j)%3))
			}
			add(1, 1040, 2048, 0)
			add(4, 272, 1024, 0)
			add(7, 200, 768, 3)
			add(12, 528, 640, 16)
			add(260, 272, 512, 0)
			add(259, 264, 640, 7)
			add(4, 144, promotedFrom, 0)
			add(68, 128, 2*promotedFrom, 0)
		}
	}
	return out
}
