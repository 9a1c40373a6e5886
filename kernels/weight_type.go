package kernels

import (
	"slices"
	"strings"
)

// WeightType is a type of quantized weights. A weight is a level times its group's scale.
type WeightType struct {
	Name string // "int4"
	Bits int    // of a code: 4 or 8
	// Levels are the values of the codes in ascending order, and scales cover them without zero points. nil is
	// code − zero point.
	Levels []float64
	// Activations is the only type of activations; they have scales, too: see [Task.ActivationScales]. Empty is fp16
	// or bf16 without scales.
	Activations DType
	// Scale is the type of all scales; empty is the activations' type.
	Scale DType
	// Group is the only length of groups along K, and formats are named without it; 0 is any.
	Group int
}

// mxfp8 (OCP Microscaling) and nvfp4 need hardware that no kernel here is for.
var weightTypes = []WeightType{
	{Name: "int4", Bits: 4},
	{Name: "int8", Bits: 8},
	{Name: "fp8", Bits: 8, Activations: FP8, Scale: FP32},
	{Name: "mxfp8", Bits: 8, Activations: FP8, Scale: E8M0, Group: 32},
	{Name: "nvfp4", Bits: 4, Activations: FP4, Scale: FP8, Group: 16},
}

// DefineWeights adds a type of weights; undefine removes it, and all that were added later. Like [Define], call it
// before anything asks for weights.
func DefineWeights(t WeightType) (undefine func()) {
	n := len(weightTypes)
	weightTypes = append(weightTypes[:n:n], t)
	return func() { weightTypes = weightTypes[:n:n] }
}

// WeightTypes lists the types of quantized weights.
func WeightTypes() []WeightType { return slices.Clone(weightTypes) }

// Format requests the type with a scale for each group of weights along K, 0 for whole columns.
func (t WeightType) Format(group int) WeightFormat {
	if group == 0 {
		group = WholeColumn
	}
	if t.Group > 0 {
		group = t.Group
	}
	return WeightFormat{Type: t.Name, Bits: t.Bits, GroupK: group}
}

// weightType returns the type of a format; ok is false if the program does not know it.
func (f WeightFormat) weightType() (t WeightType, ok bool) {
	at := slices.IndexFunc(weightTypes, func(t WeightType) bool { return t.Name == f.Type && t.Bits == f.Bits })
	if at < 0 {
		return t, false
	}
	return weightTypes[at], true
}

// levels returns the values of a format's codes, nil for integers.
func (f WeightFormat) levels() []float64 {
	t, _ := f.weightType()
	return t.Levels
}

// Activations returns the type of the scaled activations that the weights are multiplied with; empty for weights of
// activations without scales.
func (f WeightFormat) Activations() DType {
	t, _ := f.weightType()
	return t.Activations
}

// typeNames joins the names of the types.
func typeNames(between string) string {
	var names []string
	for _, t := range weightTypes {
		names = append(names, t.Name)
	}
	return strings.Join(names, between)
}

// quantizeLevels is [QuantizedMatrix.QuantizeRows] for a group of a type with levels.
func (m *QuantizedMatrix) quantizeLevels(g int, weights, levels []float64) (bad int) {
	reach := 0.0
	for i, x := range weights {
		if x-x != 0 { // NaN, too
			return i
		}
		reach = max(reach, x/levels[len(levels)-1], x/levels[0])
	}
	if m.Scales[g] = roundTo(m.Format.Scale, reach); reach == 0 || m.Scales[g] == 0 {
		m.Scales[g] = 1
	}
	for i, x := range weights {
		at, _ := slices.BinarySearch(levels, x/m.Scales[g])
		if at = min(at, len(levels)-1); at > 0 && x/m.Scales[g]-levels[at-1] < levels[at]-x/m.Scales[g] {
			at--
		}
		m.Codes[g*m.Format.GroupK+i] = uint8(at)
	}
	return -1
}
