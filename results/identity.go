package results

import (
	"encoding/json"
	"fmt"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// A run file identifies measurements by operation, named dimensions, operand types and weight layout. A file
// with unknown values is refused, naming them.

type operands struct {
	Activations operand      `json:"activations"`
	Weights     weightFormat `json:"weights"`
	Output      operand      `json:"output"`
	Accumulator operand      `json:"accumulator"`
}

type operand struct {
	Type kernels.DType `json:"type"`
	Bits int           `json:"bits"`
	// Group and Scale are of activations with scales; absent for others.
	Group *rowGroup     `json:"group,omitempty"`
	Scale kernels.DType `json:"scale,omitempty"`
}

// rowGroup is the number of elements of activations that share a scale.
type rowGroup struct {
	M int `json:"m"`
	K int `json:"k"`
}

// weightFormat is the format of the weights. Scales and zero points belong to groups of weights; unquantized
// weights have null.
type weightFormat struct {
	Type      string       `json:"type"`
	Bits      int          `json:"bits"`
	Group     *weightGroup `json:"group"`
	Scale     *string      `json:"scale"`      // type of the scales
	ZeroPoint *string      `json:"zero_point"` // type of the zero points
	// ZeroPointBits is the size of a zero point.
	ZeroPointBits int `json:"zero_point_bits,omitempty"`
}

type weightGroup struct {
	K int `json:"k"`
	N int `json:"n"`
}

// operandsOf returns a subject's operands. Without weights, theirs is the activations' type.
func operandsOf(s kernels.Subject) operands {
	of := func(d kernels.DType) operand { return operand{Type: d, Bits: d.Bits()} }
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
		if s.Scaled() {
			out.Activations.Group, out.Activations.Scale = &rowGroup{1, f.GroupK}, f.Scale
		}
	}
	return out
}

// fill sets a subject's types, empty if they follow from the activations'.
func (o operands) fill(s *kernels.Subject) {
	s.DType = o.Activations.Type
	if o.Output.Type != s.DType.Output() {
		s.Output = o.Output.Type
	}
	if o.Accumulator.Type != s.DType.Accumulator() {
		s.Accumulator = o.Accumulator.Type
	}
	w := o.Weights
	if w.Type == string(s.DType) && w.Bits == s.DType.Bits() && o.Activations.Scale == "" {
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

// OperandsText returns the stored form of a subject's operands, a JSON object.
func OperandsText(s kernels.Subject) string { return canonical(operandsOf(s)) }

// ReadOperands sets a subject's types and weight format from their stored form.
func ReadOperands(text string, s *kernels.Subject) error {
	var types operands
	if err := DecodeJSON(text, &types); err != nil {
		return err
	}
	types.fill(s)
	return nil
}

func dimsOf(s kernels.Subject) map[string]int {
	out := map[string]int{}
	for _, d := range s.Operation.Dims() {
		if v := *d.In(&s.Dims); v != 0 || !d.Optional {
			out[d.Name] = v
		}
	}
	return out
}

// canonical returns the only stored form of a value: equal values are equal text.
func canonical(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // numbers and strings can't fail
	}
	return string(b)
}

// Identity is a series key as stored in its table.
type Identity struct {
	Operation, Dims, Operands, Layout string
}

// identityOf returns the stored form of a series key, or an error for a subject that no reader could
// interpret.
func identityOf(k SeriesKey) (Identity, error) {
	if err := k.Subject.Validate(); err != nil {
		return Identity{}, fmt.Errorf("series %v: %w", k, err)
	}
	id := Identity{
		Operation: k.Operation.String(),
		Dims:      canonical(dimsOf(k.Subject)),
		Operands:  OperandsText(k.Subject),
	}
	if k.Operation.HasWeights() {
		id.Layout = k.Layout.String()
	}
	return id, nil
}

// ExportedIdentity returns a series' identity as exported: values that follow from other columns are empty.
func ExportedIdentity(k SeriesKey) (Identity, error) {
	id, err := identityOf(k)
	if k.Dims == (kernels.Dims{N: k.N, K: k.K}) {
		id.Dims = ""
	}
	if id.Operands == OperandsText(kernels.Subject{DType: k.DType}) {
		id.Operands = ""
	}
	return id, err
}

// fill sets the subject of a series key. The error names an unknown value.
func (id Identity) fill(k *SeriesKey) error {
	var err error
	if k.Operation, err = kernels.ParseOperation(id.Operation); err != nil {
		return unknown("operation", id.Operation)
	}
	if k.Operation.HasWeights() {
		k.Layout, err = kernels.ParseLayout(id.Layout)
	} else if id.Layout != "" {
		err = unknown("layout", id.Layout)
	}
	if err != nil {
		return unknown("layout", id.Layout)
	}
	var dims map[string]int
	if err := json.Unmarshal([]byte(id.Dims), &dims); err != nil {
		return fmt.Errorf("dimensions %.80q: %w", id.Dims, err)
	}
	for _, d := range k.Operation.Dims() {
		*d.In(&k.Dims) = dims[d.Name]
	}
	if id.Dims != canonical(dimsOf(k.Subject)) {
		return unknown("set of dimensions", id.Dims)
	}
	if err := ReadOperands(id.Operands, &k.Subject); err != nil {
		return fmt.Errorf("operands %.80q: %w", id.Operands, err)
	}
	if k.DType.Bits() == 0 || id.Operands != OperandsText(k.Subject) {
		return unknown("set of operands", id.Operands)
	}
	return nil
}

type unknownError struct{ what, name string }

func (e *unknownError) Error() string {
	return fmt.Sprintf("%s %s is not known to this program", e.what, e.name)
}

func unknown(what, name string) error { return &unknownError{what, name} }
