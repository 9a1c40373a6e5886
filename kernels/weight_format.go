package kernels

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// WeightFormat is a format of quantized weights: codes of one type with scales. The zero value is unquantized
// elements of the activations' type.
//
// A requested format, "int4:128", has no Scale, and GroupN only if columns share scales, as in "fp8:128x128". Its
// GroupK is [WholeColumn] for scales of columns. [WeightFormat.For] completes it for the activations and K of a
// product.
type WeightFormat struct {
	Type   string `json:"type"` // one weight's type: "int4"
	Bits   int    `json:"bits"` // of one weight
	GroupK int    `json:"group_k,omitempty"`
	GroupN int    `json:"group_n,omitempty"` // weights per scale, along each axis
	Scale  DType  `json:"scale,omitempty"`   // type of the scales; empty without scales
	// ZeroPoint is the type of the zero points; empty without any.
	ZeroPoint string `json:"zero_point,omitempty"`
	// ZeroPointBits is the size of a zero point.
	ZeroPointBits int `json:"zero_point_bits,omitempty"`
}

// WholeColumn is the GroupK of a requested format whose groups are as long as K.
const WholeColumn = -1

// IntegerWeights requests integers of 4 or 8 bits with a scale for each group of weights along K, 0 for whole
// columns. Zero points, one per group, let weights be off center.
func IntegerWeights(bits, group int, zeroPoints bool) WeightFormat {
	return WeightType{Name: fmt.Sprintf("int%d", bits), Bits: bits}.Format(group).WithZeroPoints(zeroPoints)
}

// WithZeroPoints returns the format with or without zero points of the weights' type.
func (f WeightFormat) WithZeroPoints(on bool) WeightFormat {
	f.ZeroPoint, f.ZeroPointBits = "", 0
	if on {
		f.ZeroPoint, f.ZeroPointBits = f.Type, f.Bits
	}
	return f
}

const weightsExpected = " with the length of a group, or column, and possibly zero, as in int4:128, int8:column, int4:64:zero, " +
	"fp8:128x128 or mxfp8"

// ParseWeights reads a requested format: "int4:128", "int8:column", "int4:64:zero"; "fp8:128x128" with scales of
// blocks; "mxfp8", which has one group length. "plain" is the zero value.
func ParseWeights(s string) (WeightFormat, error) {
	bad := func(reason string) (WeightFormat, error) {
		return WeightFormat{}, fmt.Errorf("%q: %s: expected plain, or %s", s, reason, typeNames(" or ")+weightsExpected)
	}
	fields := strings.Split(strings.ToLower(strings.TrimSpace(s)), ":")
	at := slices.IndexFunc(weightTypes, func(t WeightType) bool { return t.Name == fields[0] })
	switch {
	case fields[0] == "plain" && len(fields) > 1:
		return bad("plain weights have no groups")
	case fields[0] == "plain":
		return WeightFormat{}, nil
	case at < 0:
		return bad(fmt.Sprintf("%q is no type of weights", fields[0]))
	case weightTypes[at].Group > 0 && len(fields) > 1:
		return bad(fields[0] + " has groups of one length")
	case weightTypes[at].Group > 0:
		return weightTypes[at].Format(0), nil
	case len(fields) < 2:
		return bad("the group is missing")
	}
	group, columns, err := parseGroup(fields[1])
	scaled := weightTypes[at].Activations != ""
	switch {
	case err != nil:
		return bad(err.Error())
	case columns > 1 && !scaled:
		return bad(fmt.Sprintf("%q: columns of %s share no scales", fields[1], fields[0]))
	case scaled && len(fields) > 2:
		return bad(fields[0] + " has no zero points")
	case len(fields) > 3:
		return bad("there are too many colons")
	case len(fields) == 3 && fields[2] != "zero":
		return bad(fmt.Sprintf("%q is not zero", fields[2]))
	}
	f := weightTypes[at].Format(group).WithZeroPoints(len(fields) == 3)
	if columns > 1 {
		f.GroupN = columns
	}
	return f, nil
}

// parseGroup reads "128", "128x128" (K first) or "column", which is 0.
func parseGroup(s string) (group, columns int, err error) {
	if s == "column" {
		return 0, 1, nil
	}
	k, n, block := strings.Cut(s, "x")
	group, err = strconv.Atoi(k)
	if columns = 1; err == nil && block {
		columns, err = strconv.Atoi(n)
	}
	if err != nil || group < 1 || columns < 1 {
		return 0, 0, fmt.Errorf("%q is no length of a group", s)
	}
	return group, columns, nil
}

// requested reports whether f is a requested format. Imported formats may have neither groups nor scales.
func (f WeightFormat) requested() bool { return f.Scale == "" && f.GroupN != 1 && f.GroupK != 0 }

// String returns the form of a requested format that [ParseWeights] reads, "int4:128", otherwise the one that
// [ParseWeightFormat] reads, "int4 g128x1 fp16".
func (f WeightFormat) String() string {
	if f == (WeightFormat{}) {
		return "plain"
	}
	if f.requested() {
		s := f.Type + ":column"
		switch t, _ := f.weightType(); {
		case t.Group > 0 && t.Group == f.GroupK && f.GroupN == 0:
			s = f.Type
		case f.GroupN > 0:
			s = fmt.Sprintf("%s:%dx%d", f.Type, f.GroupK, f.GroupN)
		case f.GroupK > 0:
			s = fmt.Sprintf("%s:%d", f.Type, f.GroupK)
		}
		if f.ZeroPoint != "" {
			s += ":zero"
		}
		return s
	}
	s := f.Type
	if f.GroupK > 0 {
		s += fmt.Sprintf(" g%dx%d", f.GroupK, f.GroupN)
	}
	if f.Scale != "" {
		s += " " + string(f.Scale)
	}
	if f.ZeroPoint != "" {
		s += " z" + f.ZeroPoint
	}
	return s
}

// ParseWeightFormat reads [WeightFormat.String]'s output for quantized weights, "int4 g128x1 fp16 zint4", and
// "plain".
func ParseWeightFormat(s string) (WeightFormat, error) {
	var f WeightFormat
	if s == f.String() {
		return f, nil
	}
	for _, of := range weightTypes {
		for _, zeros := range []bool{false, true} {
			for _, scale := range []DType{FP16, BF16, of.Scale} {
				var group, columns int
				if n, err := fmt.Sscanf(s, of.Name+" g%dx%d "+string(scale), &group, &columns); err != nil || n != 2 || group < 1 {
					continue
				}
				if f = of.Format(group).WithZeroPoints(zeros).with(scale, group); of.Activations != "" && columns > 1 {
					f.GroupN = columns
				}
				if f.String() == s {
					return f, nil
				}
			}
		}
	}
	return WeightFormat{}, fmt.Errorf("weights of format %q are not known to this program", s)
}

// For completes a requested format for weights [N,K] with scales of type d. The error says why it is
// impossible.
func (f WeightFormat) For(d DType, k int) (WeightFormat, error) {
	if f == (WeightFormat{}) {
		return f, nil
	}
	f = f.with(d, k)
	switch a := f.Activations(); {
	case a != "" && a != d:
		return f, fmt.Errorf("activations of %s, expected %s", d, a)
	case a == "" && d != FP16 && d != BF16:
		return f, fmt.Errorf("activations of %s, expected fp16 or bf16", d)
	}
	return f, f.check(k)
}

// GroupOf returns the length of a requested format's groups in weights with k rows.
func (f WeightFormat) GroupOf(k int) int {
	if f.GroupK > 0 {
		return f.GroupK
	}
	return k
}

func (f WeightFormat) with(scale DType, k int) WeightFormat {
	f.GroupK, f.GroupN, f.Scale = f.GroupOf(k), max(1, f.GroupN), scale
	if t, _ := f.weightType(); t.Scale != "" {
		f.Scale = t.Scale
	}
	return f
}

// Requested returns the request that gives the format to weights with k rows; ok is false if there is none.
func (f WeightFormat) Requested(k int) (request WeightFormat, ok bool) {
	if f == (WeightFormat{}) {
		return f, true
	}
	request = WeightType{Name: f.Type, Bits: f.Bits}.Format(f.GroupK).WithZeroPoints(f.ZeroPoint != "")
	t, _ := f.weightType()
	if f.GroupN > 1 {
		request.GroupN = f.GroupN
	} else if request.GroupK == k && t.Group == 0 {
		request.GroupK = WholeColumn
	}
	again, err := request.For(cmp.Or(t.Activations, f.Scale), k)
	return request, err == nil && again == f
}

// bits returns the size of k·n weights with scales and zero points.
func (f WeightFormat) bits(k, n float64) float64 {
	all := k * n * float64(f.Bits)
	if f.GroupK > 0 && f.GroupN > 0 {
		groups := math.Ceil(k/float64(f.GroupK)) * math.Ceil(n/float64(f.GroupN))
		all += groups * float64(f.Scale.Bits()+f.ZeroPointBits)
	}
	return all
}

// check returns why weights with k rows can't have the format, or why the program does not know it.
func (f WeightFormat) check(k int) error {
	switch of, known := f.weightType(); {
	case !known:
		return fmt.Errorf("weights %v are neither %s", f, typeNames(" nor "))
	case of.Levels != nil && f.ZeroPoint != "":
		return fmt.Errorf("weights %v have no zero points", f)
	case of.Activations != "":
		return f.checkScaled(of, k)
	case f.GroupN != 1:
		return fmt.Errorf("weights %v have scales that columns share, expected groups along k only", f)
	case f.GroupK < 1 || k%f.GroupK != 0:
		return fmt.Errorf("a group of %d does not divide k %d", f.GroupK, k)
	case k*f.Bits%8 != 0:
		return fmt.Errorf("k %d of %d bits is no whole number of bytes", k, f.Bits)
	case f.Scale != FP16 && f.Scale != BF16:
		return fmt.Errorf("scales of type %q, expected fp16 or bf16", f.Scale)
	case f.ZeroPoint == "" && f.ZeroPointBits == 0:
		return nil
	case f.ZeroPoint != f.Type || f.ZeroPointBits != f.Bits:
		return fmt.Errorf("zero points of type %q with %d bits, expected those of the weights, %s", f.ZeroPoint, f.ZeroPointBits, f.Type)
	}
	return nil
}
