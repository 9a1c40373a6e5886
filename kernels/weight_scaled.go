package kernels

import "fmt"

// Activations of fp8, mxfp8 and nvfp4 weights have a scale for each row and each group of K, of the weights' length and
// type of scales. The sum of a group is multiplied with both scales.

// checkScaled is [WeightFormat.check] for a type with scaled activations. The last groups along K and N may be shorter.
func (f WeightFormat) checkScaled(t WeightType, k int) error {
	switch {
	case f.ZeroPoint != "" || f.ZeroPointBits != 0:
		return fmt.Errorf("weights %v have no zero points", f)
	case f.Scale != t.Scale:
		return fmt.Errorf("scales of type %q, expected %s", f.Scale, t.Scale)
	case f.GroupK < 1 || f.GroupK > k && t.Group == 0 && f.GroupN == 1:
		return fmt.Errorf("a group of %d is longer than k %d", f.GroupK, k)
	case f.GroupN < 1:
		return fmt.Errorf("a scale of %d columns, expected at least 1", f.GroupN)
	case t.Group > 0 && (f.GroupK != t.Group || f.GroupN != 1):
		return fmt.Errorf("groups of %d × %d weights, expected %d × 1", f.GroupK, f.GroupN, t.Group)
	case k*f.Bits%8 != 0:
		return fmt.Errorf("k %d of %d bits is no whole number of bytes", k, f.Bits)
	}
	return nil
}

// Scaled reports whether activations have scales: see [Task.ActivationScales].
func (s Subject) Scaled() bool {
	a := s.Weights.Activations()
	return a != "" && a == s.DType
}

// scaleGroups returns the number of groups along K, each of which has a scale for a row of activations.
func (s Subject) scaleGroups() int { return (s.K + s.Weights.GroupK - 1) / s.Weights.GroupK }

// InputBytes returns the bytes of [Subject.InputElements], of a residual, and of the scales of activations.
func (s Subject) InputBytes(m int) int64 {
	s, m = s.At(m)
	return ((s.InputElements(m)+s.ResidualElements(m))*int64(s.DType.Bits())+7)/8 + s.scaleBytes(m)
}

// scaleBytes returns the bytes of the scales of m rows of activations.
func (s Subject) scaleBytes(m int) int64 {
	if !s.Scaled() || s.Weights.GroupK < 1 {
		return 0
	}
	return int64(m) * int64(s.scaleGroups()) * int64(s.Weights.Scale.Size())
}

// ActivationScales describes the scales of activations. The scale of row i and group g of K is element g·LD + i: the rows
// of a group lie side by side.
type ActivationScales struct {
	// At is the start in bytes after the first element of A, in the same buffer. Its address is a multiple of Type's size.
	At     int
	LD     int // distance of groups in elements
	Groups int // along K
	Group  int // elements of K in a group; the last may be shorter
	Type   DType
}

// Extent returns the number of elements from the first to the last scale of m rows.
func (a ActivationScales) Extent(m int) int { return (a.Groups-1)*a.LD + m }

// end returns the elements of A's type from its first to the end of the scales.
func (a ActivationScales) end(t Task) int64 {
	return int64(a.At+a.Extent(t.M)*a.Type.Size()) / int64(max(1, t.DType.Size()))
}

// ActivationScales returns the scales of a normalized task's activations; ok is false if they have none.
func (t Task) ActivationScales() (a ActivationScales, ok bool) {
	if !t.Scaled() {
		return a, false
	}
	return ActivationScales{t.ScalesAt, t.LDScales, t.scaleGroups(), t.Weights.GroupK, t.Weights.Scale}, true
}

// ScalesOperand returns the scales of a normalized task's activations a as a matrix of groups × rows: see [Task.ActivationScales].
func (t Task) ScalesOperand(a Operand) (Operand, error) {
	of, _ := t.ActivationScales()
	begin, size := a.Offset*t.DType.Size()+of.At, max(1, of.Type.Size())
	if begin%size != 0 {
		return Operand{}, fmt.Errorf("scales of A begin at byte %d, expected a multiple of %d", begin, size)
	}
	return Operand{Buffer: a.Buffer, Offset: begin / size}, nil
}

// scaleAlignment is the alignment of scales in bytes, and of the distance of their groups: TMA reads it.
const scaleAlignment = 16

// placeScales fills in where a normalized product's scales of activations lie: by default behind A, with the rows of a group
// padded to a multiple of 16 bytes.
func (t *Task) placeScales() error {
	if !t.Scaled() {
		if t.ScalesAt != 0 || t.LDScales != 0 {
			return fmt.Errorf("%v: its activations have no scales, and so no place of them", *t)
		}
		return nil
	}
	up := func(n, to int) int { return (n + to - 1) / to * to }
	size := max(1, t.Weights.Scale.Size())
	end := ((t.M-1)*max(t.LDA, t.K) + t.K) * t.DType.Bits() / 8
	if t.LDScales == 0 {
		t.LDScales = up(t.M, max(1, scaleAlignment/size))
	}
	if t.ScalesAt == 0 {
		t.ScalesAt = up(end, scaleAlignment)
	}
	switch {
	case t.LDScales < t.M:
		return fmt.Errorf("%v: the distance of groups of scales is %d, expected at least %d", *t, t.LDScales, t.M)
	case t.ScalesAt < end:
		return fmt.Errorf("%v: scales at byte %d, expected behind A, from %d on", *t, t.ScalesAt, end)
	}
	return nil
}
