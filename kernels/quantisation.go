package kernels

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Quantisation says how weights become integers with scales: "int4:128". The zero value leaves
// them plain.
type Quantisation struct {
	Bits int // of a weight: 4 or 8; 0 for plain weights
	// Group is how many weights of a column, which lie along K, share a scale; 0 for all of it.
	Group int
	// ZeroPoints says that each group has a zero point too, so that weights need not lie around 0.
	ZeroPoints bool
}

const quantisationExpected = "int4 or int8 with the length of a group, or column, and possibly zero, as in int4:128, int8:column or int4:64:zero"

// ParseQuantisation reads "int4:128", "int8:column", "int4:64:zero"; "plain" is the zero value.
func ParseQuantisation(s string) (Quantisation, error) {
	var q Quantisation
	bad := func(reason string) (Quantisation, error) {
		return Quantisation{}, fmt.Errorf("%q: %s: expected plain, or %s", s, reason, quantisationExpected)
	}
	fields := strings.Split(strings.ToLower(strings.TrimSpace(s)), ":")
	switch fields[0] {
	case "plain":
		if len(fields) > 1 {
			return bad("plain weights have no groups")
		}
		return q, nil
	case "int4":
		q.Bits = 4
	case "int8":
		q.Bits = 8
	default:
		return bad(fmt.Sprintf("%q is no type of weights", fields[0]))
	}
	if len(fields) < 2 {
		return bad("the group is missing")
	}
	if fields[1] != "column" {
		n, err := strconv.Atoi(fields[1])
		if err != nil || n < 1 {
			return bad(fmt.Sprintf("%q is no length of a group", fields[1]))
		}
		q.Group = n
	}
	switch {
	case len(fields) > 3:
		return bad("there are too many colons")
	case len(fields) == 3 && fields[2] != "zero":
		return bad(fmt.Sprintf("%q is not zero", fields[2]))
	}
	q.ZeroPoints = len(fields) == 3
	return q, nil
}

// String is what [ParseQuantisation] reads.
func (q Quantisation) String() string {
	if q.Bits == 0 {
		return "plain"
	}
	s := fmt.Sprintf("int%d:column", q.Bits)
	if q.Group > 0 {
		s = fmt.Sprintf("int%d:%d", q.Bits, q.Group)
	}
	if q.ZeroPoints {
		s += ":zero"
	}
	return s
}

// Format is the format of weights [N,K] that are quantised so, with scales of type d. The error
// says why there can't be one.
func (q Quantisation) Format(d DType, k int) (WeightFormat, error) {
	if q.Bits == 0 {
		return WeightFormat{}, nil
	}
	f := q.format(d, k)
	if d != FP16 && d != BF16 {
		return f, fmt.Errorf("activations of %s, expected fp16 or bf16", d)
	}
	return f, f.checkIntegers(k)
}

// GroupOf is the length of a group of weights with k rows.
func (q Quantisation) GroupOf(k int) int { return cmp.Or(q.Group, k) }

// format is the format of a quantisation that there is, unchecked.
func (q Quantisation) format(d DType, k int) WeightFormat {
	f := WeightFormat{Type: fmt.Sprintf("int%d", q.Bits), Bits: q.Bits, GroupK: q.GroupOf(k), GroupN: 1, Scale: d}
	if q.ZeroPoints {
		f.ZeroPoint, f.ZeroPointBits = f.Type, f.Bits
	}
	return f
}

// QuantisationOf is the quantisation of weights with k rows that have a format; ok is false where
// there is none, since [Quantisation] has no word for it.
func QuantisationOf(f WeightFormat, k int) (q Quantisation, ok bool) {
	if f == (WeightFormat{}) {
		return q, true
	}
	q = Quantisation{Bits: f.Bits, Group: f.GroupK, ZeroPoints: f.ZeroPoint != ""}
	if q.Group == k {
		q.Group = 0
	}
	again, err := q.Format(f.Scale, k)
	return q, err == nil && again == f
}

// checkIntegers says why weights with k rows can't have the format, or why it is none of integers in
// groups along K.
func (f WeightFormat) checkIntegers(k int) error {
	switch {
	case f.Bits != 4 && f.Bits != 8 || f.Type != fmt.Sprintf("int%d", f.Bits):
		return fmt.Errorf("weights %v are none of int4 and int8", f)
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
