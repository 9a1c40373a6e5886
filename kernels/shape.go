package kernels

import "fmt"

// Shape is the size of a product C[M,N] = A[M,K] · B[K,N]; M is the batch.
type Shape struct {
	M, N, K int
}

// Validate returns an error that names the first dimension below 1.
func (s Shape) Validate() error {
	for _, d := range []struct {
		name  string
		value int
	}{{"M", s.M}, {"N", s.N}, {"K", s.K}} {
		if d.value < 1 {
			return fmt.Errorf("shape %v: %s is %d, expected at least 1", s, d.name, d.value)
		}
	}
	return nil
}

// FLOPs returns 2·M·N·K: a multiply and an add for each term.
func (s Shape) FLOPs() float64 { return 2 * float64(s.M) * float64(s.N) * float64(s.K) }

// Bytes returns the minimum traffic in bytes: A and B read once in type d, C written once in d's output type.
func (s Shape) Bytes(d DType) float64 {
	m, n, k := float64(s.M), float64(s.N), float64(s.K)
	return (m*k+k*n)*float64(d.Size()) + m*n*float64(d.Output().Size())
}

// String returns the conventional form: "m4096 n14336 k4096".
func (s Shape) String() string { return fmt.Sprintf("m%d n%d k%d", s.M, s.N, s.K) }
