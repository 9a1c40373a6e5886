package kernels

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Epilogue is what a fused product does to the sums before it writes them: it may add a bias, then does one further step. Stored
// runs hold the number: twice the step's place in the list below, counted from 1, plus 1 with a bias.
type Epilogue int

// Bias adds one value per column of A·B. The others are steps; one may follow the bias.
const (
	Bias Epilogue = 1
	// ReLU is max(x, 0).
	ReLU Epilogue = 2
	// GELU is x·Φ(x), with the normal distribution's Φ.
	GELU Epilogue = 4
	// TanhGELU is the approximation ½x·(1 + tanh(√(2/π)·(x + 0.044715x³))).
	TanhGELU Epilogue = 6
	// SiLU is x ÷ (1 + e^-x).
	SiLU Epilogue = 8
	// Gated is SiLU(gate)·up: the first half of the columns of A·B are gates, the second half what they multiply, as in the
	// layers gate_up of models. N counts both, and C has N/2 columns.
	Gated Epilogue = 10
	// Residual adds a matrix [M,N] of the output's type: see [Task.ResidualAt].
	Residual Epilogue = 12
)

// steps have the places of the constants.
var steps = []struct {
	name string
	// of is the activation.
	of func(x float64) float64
	// slope is the largest absolute derivative.
	slope float64
}{
	{"", identity, 1},
	{"relu", func(x float64) float64 { return math.Max(x, 0) }, 1},
	{"gelu", func(x float64) float64 { return x / 2 * math.Erfc(-x/math.Sqrt2) }, 1.13},
	{"gelu-tanh", func(x float64) float64 {
		return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	}, 1.13},
	{"silu", silu, 1.1},
	{"gated", silu, 1.1},
	{"residual", identity, 1},
}

func identity(x float64) float64 { return x }

func silu(x float64) float64 { return x / (1 + math.Exp(-x)) }

const (
	biasWord     = "bias"
	epilogueName = "epilogue" // of the dimension
)

// EpilogueExpected describes how an epilogue is written.
const EpilogueExpected = "bias, relu, gelu, gelu-tanh, silu, gated or residual, or bias and one of the others, as in bias+gelu"

// Epilogues lists all epilogues.
func Epilogues() []Epilogue {
	var out []Epilogue
	for e := Bias; e.valid(); e++ {
		out = append(out, e)
	}
	return out
}

func (e Epilogue) valid() bool { return e > 0 && int(e/2) < len(steps) }

// HasBias reports whether the epilogue adds a bias.
func (e Epilogue) HasBias() bool { return e%2 == 1 }

// HasResidual reports whether the epilogue adds a residual.
func (e Epilogue) HasResidual() bool { return e.Step() == Residual }

// IsGated reports whether the epilogue multiplies halves of the columns: see [Gated].
func (e Epilogue) IsGated() bool { return e.Step() == Gated }

// Step is the epilogue without the bias, 0 for none.
func (e Epilogue) Step() Epilogue { return e / 2 * 2 }

// String returns "bias+gelu".
func (e Epilogue) String() string {
	if !e.valid() {
		return fmt.Sprintf("epilogue %d", int(e))
	}
	name := steps[e/2].name
	switch {
	case !e.HasBias():
		return name
	case name == "":
		return biasWord
	}
	return biasWord + "+" + name
}

// ParseEpilogue reads an epilogue by its String.
func ParseEpilogue(s string) (Epilogue, error) {
	word := strings.ToLower(strings.TrimSpace(s))
	for _, e := range Epilogues() {
		if e.String() == word {
			return e, nil
		}
	}
	return 0, fmt.Errorf("unknown epilogue %q: expected %s", s, EpilogueExpected)
}

// HasEpilogue reports whether the operation's products have an epilogue.
func (o Operation) HasEpilogue() bool {
	return slices.ContainsFunc(o.Dims(), func(d Dim) bool { return d.Name == epilogueName })
}

// WithEpilogue returns the operation of products with an epilogue for the matrix product, otherwise o.
func (o Operation) WithEpilogue() Operation {
	if o == GEMM {
		return FusedGEMM
	}
	return o
}

// Of returns the exact result for a sum with its bias. other is the residual, or what a gate multiplies, with its own bias;
// other epilogues ignore it.
func (e Epilogue) Of(sum, other float64) float64 { return e.join(steps[e/2].of(sum), other) }

func (e Epilogue) join(x, other float64) float64 {
	switch {
	case e.HasResidual():
		return x + other
	case e.IsGated():
		return x * other
	}
	return x
}

// separately is the variant of a kernel of fused products that runs the product and then the epilogue, in one launch.
const separately = "separate"

// SeparateKernel returns the name of the kernel that runs the parts of a kernel's fused products one after the other:
// "auto-separate" for "auto". It is empty for such a kernel, and for a library's further choices.
func SeparateKernel(kernel string) string {
	name, _ := SplitVersion(kernel)
	_, n := SplitCandidate(kernel)
	_, _, algorithm := SplitAlgorithm(kernel)
	if n > 0 || algorithm || strings.HasSuffix(name, "-"+separately) {
		return ""
	}
	return VariantName(kernel, separately)
}
