package rules

import (
	"slices"
	"testing"

	"github.com/gemmaudit/gemmaudit/kernels"
	"github.com/gemmaudit/gemmaudit/results"
)

// The command of a finding has the epilogue in its own flag, once for each.
func TestEpilogueFlags(t *testing.T) {
	of := func(e kernels.Epilogue) kernels.Subject {
		s := kernels.Linear(kernels.BF16, 512, 256)
		if s.Epilogue = e; e != 0 {
			s.Operation = kernels.Projections.Operation().WithEpilogue()
		}
		return s
	}
	for _, c := range []struct {
		row, against kernels.Epilogue
		want         []string
	}{
		{0, 0, nil},
		{kernels.Bias + kernels.GELU, kernels.Bias + kernels.GELU, []string{"--epilogue", "bias+gelu"}},
		{kernels.ReLU, kernels.Bias, []string{"--epilogue", "relu,bias"}},
	} {
		against := results.Case{M: 8}
		against.Subject = of(c.against)
		if got := epilogueFlags(of(c.row), against); !slices.Equal(got, c.want) {
			t.Errorf("%v against %v: %q, expected %q", c.row, c.against, got, c.want)
		}
		if got := shapesOf([]kernels.Subject{of(c.row)}, []int{8}); !slices.Equal(got, []string{"--shape", "n512k256", "--batch", "8"}) {
			t.Errorf("%v: %q", c.row, got)
		}
	}
}
