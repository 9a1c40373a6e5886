package results

import (
	"encoding/json"
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// A run file identifies what is measured by an operation, its named dimensions, the
// types of its operands and the layout of its weights. This version of the program
// knows one operation with one layout, and operands that follow from a data type; a
// file that holds anything else is refused by its name.
const (
	operationGEMM = "gemm" // C[m,n] = A[m,k] × B[k,n]
	layoutKN      = "kn"   // B is stored as [k,n], row by row
)

// operands are the types of what takes part in a product.
type operands struct {
	Activations operand      `json:"activations"`
	Weights     weightFormat `json:"weights"`
	Output      operand      `json:"output"`
	Accumulator operand      `json:"accumulator"`
}

// operand is the type of one element and its size.
type operand struct {
	Type kernels.DType `json:"type"`
	Bits int           `json:"bits"`
}

// weightFormat is the format of the weights. Scales and zero points belong to
// groups of weights; what plain weights don't have is null.
type weightFormat struct {
	operand
	Group     *weightGroup `json:"group"`
	Scale     *string      `json:"scale"`      // type of the scales
	ZeroPoint *string      `json:"zero_point"` // type of the zero points
}

// weightGroup is how many weights share a scale along each axis.
type weightGroup struct {
	K int `json:"k"`
	N int `json:"n"`
}

// operandsOf are the operands of a plain product of a data type.
func operandsOf(d kernels.DType) operands {
	of := func(d kernels.DType) operand { return operand{d, 8 * d.Size()} }
	return operands{
		Activations: of(d), Weights: weightFormat{operand: of(d)},
		Output: of(d.Output()), Accumulator: of(d.Accumulator()),
	}
}

// canonical is the one form in which a value is stored: equal values are equal text.
func canonical(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // of numbers and words, none of which can fail
	}
	return string(b)
}

// identity is a series key as the columns of its table hold it.
type identity struct {
	operation, dims, operands, layout string
}

// identityOf is how a series key is stored. A data type that no operand can have is
// an error, since no reader could tell what it is.
func identityOf(k SeriesKey) (identity, error) {
	if k.DType.Size() == 0 {
		return identity{}, fmt.Errorf("series %v has the data type %q, expected one of %v", k, k.DType, kernels.DTypes())
	}
	return identity{
		operation: operationGEMM,
		dims:      canonical(map[string]int{"k": k.K, "n": k.N}),
		operands:  canonical(operandsOf(k.DType)),
		layout:    layoutKN,
	}, nil
}

// fill sets the fields of a series key that the identity says. The error names what
// this version does not know.
func (id identity) fill(k *SeriesKey) error {
	if id.operation != operationGEMM {
		return unknown("operation", id.operation)
	}
	if id.layout != layoutKN {
		return unknown("layout", id.layout)
	}
	var dims map[string]int
	if err := json.Unmarshal([]byte(id.dims), &dims); err != nil {
		return fmt.Errorf("dimensions %.80q: %w", id.dims, err)
	}
	k.K, k.N = dims["k"], dims["n"]
	if id.dims != canonical(map[string]int{"k": k.K, "n": k.N}) {
		return unknown("set of dimensions", id.dims)
	}
	var types operands
	if err := json.Unmarshal([]byte(id.operands), &types); err != nil {
		return fmt.Errorf("operands %.80q: %w", id.operands, err)
	}
	k.DType = types.Activations.Type
	if k.DType.Size() == 0 || id.operands != canonical(operandsOf(k.DType)) {
		return unknown("set of operands", id.operands)
	}
	return nil
}

// unknownError is what a run holds that this version of the program does not know.
type unknownError struct{ what, name string }

func (e *unknownError) Error() string {
	return fmt.Sprintf("%s %s is not known to this program", e.what, e.name)
}

func unknown(what, name string) error { return &unknownError{what, name} }
