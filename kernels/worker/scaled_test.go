package worker_test

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// scaled returns a product of fp8 with scales.
func (f *fake) scaled(p fakeParams) func() {
	t, at := p.Task, *p.Task.Scales
	a, b := f.buffers[p.In.Buffer][p.In.Offset:], f.buffers[f.weights[p.Weights[0]]]
	c, columns := f.buffers[p.Out.Buffer][2*p.Out.Offset:], max(1, t.Weights.Columns)
	if f.how == "scaled by the rows of another stride" {
		at.LD = t.M
	}
	number := func(mem []byte, i int) float64 {
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(mem[4*i:])))
	}
	return func() {
		for i := range t.M {
			for j := range t.Dims.N {
				sum := 0.0
				for k := range t.Dims.K {
					group := k / at.Group
					product := kernels.DecodeFP8(a[i*t.LDA+k]) * kernels.DecodeFP8(b[j*t.LDB+k])
					sum += product * number(a[at.At:], group*at.LD+i) * number(b[t.Weights.ScalesAt:], j/columns*at.Groups+group)
				}
				binary.LittleEndian.PutUint16(c[2*(i*t.LDC+j):], kernels.EncodeBF16(sum))
			}
		}
	}
}

// The gate passes a worker's products with scales, and rejects other strides of scales.
func TestScaledGate(t *testing.T) {
	for how, right := range map[string]bool{"scaled": true, "scaled by the rows of another stride": false} {
		d, ks, _, err := open(t, how, 0)
		if err != nil {
			t.Fatal(err)
		}
		ran, failed := 0, error(nil)
		for _, q := range kernels.QuantizedCheckProblems(kernels.FP8) {
			if q.M*q.N*q.K > 1_000_000 || failed != nil {
				continue
			}
			failed = kernels.CheckGemm(t.Context(), d, ks[0], q, 1)
			ran++
		}
		var wrong *kernels.CheckError
		if ran == 0 || right != (failed == nil) || !right && !errors.As(failed, &wrong) {
			t.Errorf("%s: %d problems, %v", how, ran, failed)
		}
	}
}
