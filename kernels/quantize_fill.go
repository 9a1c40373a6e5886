package kernels

import (
	"fmt"
	"math/rand/v2"
)

// FillWeights writes the stored operand for [Subject.Extent](m) into raw, [Subject.Stored] bytes: elements of
// the subject's type, or quantized weights. The same seed gives the same content on every device.
func FillWeights(raw Buffer, s Subject, m int, dist Distribution, seed uint64) error {
	if s.Weights == (WeightFormat{}) {
		return raw.Fill(dist, s.DType, s.Stored(m)/int64(s.DType.Size()), seed)
	}
	groups, bytes := max(1, s.Groups), s.oneGroup().Stored(m)
	for group := range groups {
		q, err := drawQuantized(s.Weights, s.N, s.K, drawnWeights/groups, dist, seed+uint64(group)*0x9e3779b97f4a7c15)
		if err != nil {
			return err
		}
		if err := raw.Upload(int64(group)*bytes, q.Raw()); err != nil {
			return err
		}
	}
	return nil
}

// drawnWeights is the least number of weights drawn before rows repeat, in all groups: enough for the power of fully
// random weights.
const drawnWeights = 1 << 20

// drawQuantized draws and quantizes whole rows until there are least weights; the remaining rows repeat them.
func drawQuantized(f WeightFormat, n, k, least int, dist Distribution, seed uint64) (*QuantizedMatrix, error) {
	src := rand.New(rand.NewPCG(seed, uint64(n)<<32^uint64(k)))
	rows := min(n, ceilDiv(ceilDiv(least, k), f.GroupN)*f.GroupN)
	values := make([]float64, rows*k)
	switch dist {
	case Normal:
		for i := range values {
			values[i] = src.NormFloat64()
		}
	case Integers:
		for i := range values {
			values[i] = float64(src.IntN(9) - 4)
		}
	case Zeros:
	default:
		return nil, fmt.Errorf("fill weights: unknown distribution %q: expected normal, integers or zeros", dist)
	}
	drawn, err := Quantize(f, rows, k, values)
	if err != nil {
		return nil, err
	}
	out := &QuantizedMatrix{Format: f, N: n, K: k, Codes: drawn.Codes, Scales: drawn.Scales, Zeros: drawn.Zeros}
	groups := ceilDiv(k, f.GroupK)
	for have := rows; have < n; have += f.GroupN { // whole rows of groups
		block, more := src.IntN(rows/f.GroupN), min(f.GroupN, n-have)
		row := block * f.GroupN
		out.Codes = append(out.Codes, out.Codes[row*k:(row+more)*k]...)
		out.Scales = append(out.Scales, out.Scales[block*groups:(block+1)*groups]...)
		if out.Zeros != nil {
			out.Zeros = append(out.Zeros, out.Zeros[block*groups:(block+1)*groups]...)
		}
	}
	return out, nil
}
