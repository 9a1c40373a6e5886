package results

import (
	"encoding/json"
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// A run file identifies what is measured by an operation, its named dimensions, the
// types of its operands and the layout of its weights. A file that holds what this
// version of the program does not know is refused by its name.

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
	Type      string       `json:"type"`
	Bits      int          `json:"bits"`
	Group     *weightGroup `json:"group"`
	Scale     *string      `json:"scale"`      // type of the scales
	ZeroPoint *string      `json:"zero_point"` // type of the zero points
	// ZeroPointBits is the size of a zero point.
	ZeroPointBits int `json:"zero_point_bits,omitempty"`
}

// weightGroup is how many weights share a scale along each axis.
type weightGroup struct {
	K int `json:"k"`
	N int `json:"n"`
}

// operandsOf are the operands of a subject. What has no weights has the activations'
// type in their place.
func operandsOf(s kernels.Subject) operands {
	of := func(d kernels.DType) operand { return operand{d, d.Bits()} }
	out := operands{
		Activations: of(s.DType), Weights: weightFormat{Type: string(s.DType), Bits: s.DType.Bits()},
		Output: of(s.OutputType()), Accumulator: of(s.AccumulatorType()),
	}
	if f := s.Weights; f != (kernels.WeightFormat{}) {
		out.Weights = weightFormat{Type: f.Type, Bits: f.Bits, ZeroPointBits: f.ZeroPointBits}
		if f.GroupK != 0 || f.GroupN != 0 {
			out.Weights.Group = &weightGroup{f.GroupK, f.GroupN}
		}
		if f.Scale != "" {
			scale := string(f.Scale)
			out.Weights.Scale = &scale
		}
		if f.ZeroPoint != "" {
			out.Weights.ZeroPoint = &f.ZeroPoint
		}
	}
	return out
}

// fill sets the types of a subject, each empty where it follows from the activations'.
func (o operands) fill(s *kernels.Subject) {
	s.DType = o.Activations.Type
	if o.Output.Type != s.DType.Output() {
		s.Output = o.Output.Type
	}
	if o.Accumulator.Type != s.DType.Accumulator() {
		s.Accumulator = o.Accumulator.Type
	}
	w := o.Weights
	if w.Type == string(s.DType) && w.Bits == s.DType.Bits() {
		return
	}
	s.Weights = kernels.WeightFormat{Type: w.Type, Bits: w.Bits, ZeroPointBits: w.ZeroPointBits}
	if w.Group != nil {
		s.Weights.GroupK, s.Weights.GroupN = w.Group.K, w.Group.N
	}
	if w.Scale != nil {
		s.Weights.Scale = kernels.DType(*w.Scale)
	}
	if w.ZeroPoint != nil {
		s.Weights.ZeroPoint = *w.ZeroPoint
	}
}

// dimsOf are the dimensions of a subject by their names, those that do not apply left out.
func dimsOf(s kernels.Subject) map[string]int {
	out := map[string]int{}
	for _, d := range s.Operation.Dims() {
		if v := *d.In(&s.Dims); v != 0 || !d.Optional {
			out[d.Name] = v
		}
	}
	return out
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

// identityOf is how a series key is stored. A subject that can't be is an error, since
// no reader could tell what it is.
func identityOf(k SeriesKey) (identity, error) {
	if err := k.Subject.Validate(); err != nil {
		return identity{}, fmt.Errorf("series %v: %w", k, err)
	}
	return identity{
		operation: k.Operation.String(),
		dims:      canonical(dimsOf(k.Subject)),
		operands:  canonical(operandsOf(k.Subject)),
		layout:    k.Layout.String(),
	}, nil
}

// fill sets the subject of a series key that the identity says. The error names what
// this version does not know.
func (id identity) fill(k *SeriesKey) error {
	var err error
	if k.Operation, err = kernels.ParseOperation(id.operation); err != nil {
		return unknown("operation", id.operation)
	}
	if k.Layout, err = kernels.ParseLayout(id.layout); err != nil {
		return unknown("layout", id.layout)
	}
	var dims map[string]int
	if err := json.Unmarshal([]byte(id.dims), &dims); err != nil {
		return fmt.Errorf("dimensions %.80q: %w", id.dims, err)
	}
	for _, d := range k.Operation.Dims() {
		*d.In(&k.Dims) = dims[d.Name]
	}
	if id.dims != canonical(dimsOf(k.Subject)) {
		return unknown("set of dimensions", id.dims)
	}
	var types operands
	if err := json.Unmarshal([]byte(id.operands), &types); err != nil {
		return fmt.Errorf("operands %.80q: %w", id.operands, err)
	}
	types.fill(&k.Subject)
	if k.DType.Size() == 0 || id.operands != canonical(operandsOf(k.Subject)) {
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
