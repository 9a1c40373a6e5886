package kernels

import (
	"strconv"
	"strings"
)

// AlongScale names a curve along which M and all sizes of a product grow in proportion.
const AlongScale = "scale"

// Along says which dimension a curve runs along. The zero value is M.
type Along struct {
	// Dimension is the name of a [Dim] of [Operation.Along], or [AlongScale]. The subject's own value of it
	// is 0; along a scale the subject has the sizes at scale 1.
	Dimension string `json:"dimension"`
	// M is the constant M of the curve's rows, or their M at scale 1.
	M int `json:"m"`
}

// Along lists the whole-number dimensions, besides M, that a curve of the operation may run along. Plans take
// a range of each, and rules compare rows that differ in nothing else.
func (o Operation) Along() []Dim { return o.definition().Along }

// Scaled lists the dimensions that grow with M along a scale; nil if the operation has no scale.
func (o Operation) Scaled() []Dim { return o.definition().Scaled }

// At returns the subject and the M of the row at coordinate x of a curve: the subject itself and x, unless it
// runs along another dimension.
func (s Subject) At(x int) (Subject, int) {
	along := s.Along
	if along == (Along{}) {
		return s, x
	}
	s.Along = Along{}
	if along.Dimension == AlongScale {
		for _, d := range s.Operation.Scaled() {
			*d.In(&s.Dims) *= x
		}
		return s, along.M * x
	}
	for _, d := range s.Operation.Along() {
		if d.Name == along.Dimension {
			*d.In(&s.Dims) = x
		}
	}
	return s, along.M
}

// OverM reports whether the curve runs along M.
func (s Subject) OverM() bool { return s.Along == Along{} }

// Axis returns the letter of the dimension that the curve runs along, "m", "n" or "q", or [AlongScale].
func (s Subject) Axis() string {
	for _, d := range s.Operation.Along() {
		if d.Name == s.Along.Dimension {
			return d.Short
		}
	}
	if s.OverM() {
		return "m"
	}
	return s.Along.Dimension
}

// Coordinate names the row at coordinate x: "m4096", "n50257", "scale 2056".
func (s Subject) Coordinate(x int) string {
	axis := s.Axis()
	if axis == AlongScale {
		axis += " "
	}
	return axis + strconv.Itoa(x)
}

// Curve returns the dimensions of all rows of the curve, "n14336 k4096" or "m64 k4096 along n".
func (s Subject) Curve() string { return s.Size() + s.alongText() }

func (s Subject) alongText() string {
	if s.OverM() {
		return ""
	}
	return " along " + s.Along.Dimension
}

// Words names the row at coordinate x in a sentence: "M 4096", "N 50257", "scale 2056".
func (s Subject) Words(x int) string { return s.AxisWord() + " " + strconv.Itoa(x) }

// AxisWord names the dimension that the curve runs along in a sentence: "M", "N", [AlongScale].
func (s Subject) AxisWord() string {
	if axis := s.Axis(); axis != AlongScale {
		return strings.ToUpper(axis)
	}
	return AlongScale
}
