package kerneltest

import "testing"

func TestCopies(t *testing.T) {
	CheckCopies(t, New(Config{Gemms: []GemmConfig{{Name: "exact", Cost: Linear(1e9, 0), Arithmetic: true}}}))
}
