package kernels

import (
	"math/rand/v2"
	"testing"
)

// A model of 7 billion weights has 1.7 million rows of 4096.
func BenchmarkQuantize(b *testing.B) {
	const k = 4096
	values := make([]float64, k)
	for i := range values {
		values[i] = rand.NormFloat64()
	}
	for _, weights := range []string{"int4:128", "int4:128:zero", "int8:column"} {
		b.Run(weights, func(b *testing.B) {
			q, err := ParseWeights(weights)
			if err != nil {
				b.Fatal(err)
			}
			f, err := q.For(BF16, k)
			if err != nil {
				b.Fatal(err)
			}
			m := NewQuantizedMatrix(f, 1, k)
			b.SetBytes(k)
			for b.Loop() {
				if err := m.QuantizeRows(0, values); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
