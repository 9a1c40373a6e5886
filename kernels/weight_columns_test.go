package kernels

import (
	"slices"
	"testing"
)

func TestWeightColumns(t *testing.T) {
	const n, k = 11, 64
	columns := []int{0, 3, 10, 3}
	for _, d := range []DType{FP32, BF16, INT8} {
		for _, layout := range []Layout{RowMajor, Transposed} {
			s := Product(d, n, k)
			s.Layout = layout
			values := newCheckOperands(Task{Subject: Product(d, n, k), M: 1}, CheckAccuracy, false, 5).b // [K,N]
			stored := values
			if layout == Transposed {
				stored = transpose(values, k, n)
			}
			raw := &hostBuffer{make([]byte, s.Stored(1))}
			if err := Encode(d, stored, raw.mem); err != nil {
				t.Fatal(err)
			}
			got, err := WeightColumns(raw, s, columns)
			if err != nil {
				t.Fatal(err)
			}
			for i, j := range columns {
				for l := range k {
					if got[i][l] != values[l*n+j] {
						t.Fatalf("%v: element (%d,%d) is %g, expected %g", s, l, j, got[i][l], values[l*n+j])
					}
				}
			}
		}
	}
	for _, q := range []WeightFormat{IntegerWeights(4, 32, true), IntegerWeights(4, 0, false), IntegerWeights(8, 32, true),
		IntegerWeights(8, 64, false), IntegerWeights(4, 0, true)} {
		for _, d := range []DType{FP16, BF16} {
			s := Product(d, n, k)
			s.Layout, s.Weights = Transposed, q.with(d, k)
			m, err := drawQuantized(s.Weights, n, k, drawnWeights, Normal, 9)
			if err != nil {
				t.Fatal(err)
			}
			values := m.Values(d)
			got, err := WeightColumns(&hostBuffer{m.Raw()}, s, columns)
			if err != nil {
				t.Fatal(err)
			}
			for i, j := range columns {
				if !slices.Equal(got[i], values[j*k:(j+1)*k]) {
					t.Errorf("%v: column %d differs", s.Weights, j)
				}
			}
		}
	}
	if _, err := WeightColumns(&hostBuffer{make([]byte, 4*n*k)}, Product(FP32, n, k), []int{n}); err == nil {
		t.Error("a column past the last one was read")
	}
}
