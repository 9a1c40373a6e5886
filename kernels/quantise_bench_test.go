package kernels

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkQuantise rounds weights to integers, a row of 4096 at a time: a model of 7 billion has
// 1.7 million such rows.
func BenchmarkQuantise(b *testing.B) {
	const k = 4096
	values := make([]float64, k)
	for i := range values {
		values[i] = rand.NormFloat64()
	}
	for _, weights := range []string{"int4:128", "int4:128:zero", "int8:column"} {
		b.Run(weights, func(b *testing.B) {
			q, err := ParseQuantisation(weights)
			if err != nil {
				b.Fatal(err)
			}
			f, err := q.Format(BF16, k)
			if err != nil {
				b.Fatal(err)
			}
			m := NewQuantisedMatrix(f, 1, k)
			b.SetBytes(k)
			for b.Loop() {
				if err := m.QuantiseRows(0, values); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
