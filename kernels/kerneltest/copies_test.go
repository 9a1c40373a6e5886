package kerneltest

import (
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels/simulated"
)

func TestCopies(t *testing.T) {
	CheckCopies(t,
		simulated.New(simulated.Config{Gemms: []simulated.KernelConfig{{Name: "exact", Cost: simulated.Linear(1e9, 0), Arithmetic: true}}}))
}
