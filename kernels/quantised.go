package kernels

import (
	"fmt"
)

// QuantisedProblem is a product with weights that are integers with scales. A and C are those of
// the [Problem], and so are the values of the weights: (code − zero point) · scale, rounded once to
// the type of A, or not at all by a [SumScaler]. Without zero points that is 2^(Bits−1).
//
// The raw weights that [QuantisedGemm] gets hold three parts, of which the second and the third
// begin at multiples of 16 bytes: see [QuantisedProblem.Raw].
//
//   - Codes [N,K], unsigned, each row a whole number of bytes. Of 4 bits, the weight of an even
//     k lies in the lower half of its byte.
//   - Scales [N, K ÷ GroupK].
//   - Zero points [N, K ÷ GroupK] if there are any, one stream of codes.
type QuantisedProblem struct {
	Problem
	Weights WeightFormat
}

// Normalized returns q with its zero fields replaced by the defaults they stand for, or an error
// that names what can't be used.
func (q QuantisedProblem) Normalized() (QuantisedProblem, error) {
	p, err := q.Problem.Normalized()
	if err != nil {
		return q, err
	}
	q.Problem = p
	if err := q.Weights.checkIntegers(q.K); err != nil {
		return q, fmt.Errorf("%v: %w", q.Shape, err)
	}
	switch {
	case q.BLayout != Transposed:
		return q, fmt.Errorf("%v: quantised weights are stored [N,K], layout %v, not %v", q.Shape, Transposed, q.BLayout)
	case q.LDB != q.K:
		return q, fmt.Errorf("%v: ldb is %d, expected %d: quantised weights have no gaps between rows", q.Shape, q.LDB, q.K)
	case q.PackInside:
		return q, fmt.Errorf("%v: quantised weights are packed ahead of launches, never inside", q.Shape)
	}
	return q, nil
}

// String prints the size with the format: "m1 n4096 k4096 int4 g128x1 fp16".
func (q QuantisedProblem) String() string { return q.Shape.String() + " " + q.Weights.String() }

// RawWeights says where the parts of raw quantised weights lie, in bytes.
type RawWeights struct {
	Scales int64 // where they begin; the codes begin at 0
	Zeros  int64 // where the zero points begin, 0 for none
	Bytes  int64 // of all
}

// rawAlignment is what the parts of raw weights are aligned to, in bytes.
const rawAlignment = 16

// rawWeights are those of a format that [WeightFormat.checkIntegers] accepts.
func (f WeightFormat) rawWeights(n, k int) RawWeights {
	up := func(bytes int64) int64 { return (bytes + rawAlignment - 1) / rawAlignment * rawAlignment }
	groups := int64(n) * int64(k/f.GroupK)
	r := RawWeights{Scales: up(int64(n) * int64(k*f.Bits/8))}
	r.Bytes = up(r.Scales + groups*int64(f.Scale.Size()))
	if f.ZeroPoint != "" {
		r.Zeros = r.Bytes
		r.Bytes = up(r.Zeros + (groups*int64(f.ZeroPointBits)+7)/8)
	}
	return r
}

// Raw says where the parts of a normalized problem's raw weights lie.
func (q QuantisedProblem) Raw() RawWeights { return q.Weights.rawWeights(q.N, q.K) }

// RawBytes is the size of raw weights [N,K] of a format that [Quantisation.Format] gave.
func (f WeightFormat) RawBytes(n, k int) int64 { return f.rawWeights(n, k).Bytes }

// quantised is the problem of a task whose weights have a format.
func (t Task) quantised() QuantisedProblem {
	return QuantisedProblem{Problem: t.problem(), Weights: t.Weights}
}
