package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
)

type smallFloat struct {
	exponent, mantissa int
	finite             bool // e4m3fn: no infinities, one NaN per sign
}

var (
	binary16 = smallFloat{exponent: 5, mantissa: 10}
	bfloat16 = smallFloat{exponent: 8, mantissa: 7}
	e4m3     = smallFloat{exponent: 4, mantissa: 3, finite: true}
)

// encode rounds x to nearest, ties to even, directly from binary64: rounding via fp32 would round twice. The
// result has at most 1+exponent+mantissa bits.
func (f smallFloat) encode(x float64) uint16 {
	bits := math.Float64bits(x)
	sign := uint16(bits>>63) << (f.exponent + f.mantissa)
	bits &^= 1 << 63
	top := uint64(1)<<f.exponent - 1
	infinity := top << f.mantissa
	nan := infinity | 1<<(f.mantissa-1)
	if f.finite {
		nan = infinity | (1<<f.mantissa - 1)
		infinity = nan
	}
	if math.IsNaN(x) {
		return sign | uint16(nan)
	}
	if math.IsInf(x, 0) {
		return sign | uint16(infinity)
	}
	e := int(bits>>52) - 1023
	if e == -1023 {
		return sign // zero or a binary64 subnormal, far below every small format
	}
	significand := bits&(1<<52-1) | 1<<52
	bias := 1<<(f.exponent-1) - 1
	shift := 52 - f.mantissa
	field := e + bias - 1
	if least := 1 - bias; e < least {
		shift += least - e
		field = 0
		if shift > 53 {
			return sign
		}
	}
	q := significand >> shift
	rest, half := significand&(1<<shift-1), uint64(1)<<(shift-1)
	if rest > half || rest == half && q&1 == 1 {
		q++
	}
	// A carry out of q increments the exponent, as rounding up should.
	if field > 1<<f.exponent {
		return sign | uint16(infinity)
	}
	return sign | uint16(min(uint64(field)<<f.mantissa+q, infinity))
}

// round is decode(encode(x)) with a fast path for normal results.
func (f smallFloat) round(x float64) float64 {
	bits := math.Float64bits(x)
	bias := 1<<(f.exponent-1) - 1
	if e := int(bits>>52&(1<<11-1)) - 1023; e < 1-bias || e >= bias {
		return f.decode(f.encode(x))
	}
	shift := 52 - f.mantissa
	// To nearest, ties to even; a carry increments the exponent.
	bits += uint64(1)<<(shift-1) - 1 + bits>>shift&1
	return math.Float64frombits(bits &^ (1<<shift - 1))
}

// decode is exact: every small format is a subset of binary64.
func (f smallFloat) decode(h uint16) float64 {
	top := 1<<f.exponent - 1
	e := int(h>>f.mantissa) & top
	m := int(h) & (1<<f.mantissa - 1)
	bias := 1<<(f.exponent-1) - 1
	negative := h >> (f.exponent + f.mantissa) & 1
	if e != 0 && e != top { // the common case: normal numbers
		return math.Float64frombits(uint64(negative)<<63 | uint64(e-bias+1023)<<52 | uint64(m)<<(52-f.mantissa))
	}
	sign := 1 - 2*float64(negative)
	switch {
	case f.finite && e == top && m == 1<<f.mantissa-1:
		return math.NaN()
	case !f.finite && e == top && m != 0:
		return math.NaN()
	case !f.finite && e == top:
		return math.Inf(int(sign))
	case e == 0:
		return sign * math.Ldexp(float64(m), 1-bias-f.mantissa)
	}
	return sign * math.Ldexp(float64(m|1<<f.mantissa), e-bias-f.mantissa)
}

// EncodeFP16 rounds x to IEEE binary16, to nearest, ties to even. Values that round beyond 65504 become
// infinities.
func EncodeFP16(x float64) uint16 { return binary16.encode(x) }

// DecodeFP16 returns the exact value of an IEEE binary16.
func DecodeFP16(h uint16) float64 { return binary16.decode(h) }

// EncodeBF16 rounds x to bfloat16, to nearest, ties to even, subnormals included.
func EncodeBF16(x float64) uint16 { return bfloat16.encode(x) }

// DecodeBF16 returns the exact value of a bfloat16.
func DecodeBF16(h uint16) float64 { return bfloat16.decode(h) }

// EncodeFP8 rounds x to e4m3 as on compute capability 8.9 and 9.0, to nearest, ties to even. The format has
// no infinities: beyond 464 the result is NaN.
func EncodeFP8(x float64) uint8 { return uint8(e4m3.encode(x)) }

// DecodeFP8 returns the exact value of an e4m3.
func DecodeFP8(h uint8) float64 { return e4m3.decode(uint16(h)) }

// RoundTF32 rounds x to the 10 mantissa bits that a tensor core keeps, to nearest, ties to even.
func RoundTF32(x float64) float64 {
	bits := math.Float32bits(float32(x))
	if bits&0x7f800000 == 0x7f800000 {
		return float64(math.Float32frombits(bits))
	}
	bits += 0xfff + bits>>13&1
	return float64(math.Float32frombits(bits &^ 0x1fff))
}

// Encode writes src as little-endian elements of type d into dst, which must hold len(src)·d.Size() bytes.
// Floats round to nearest even, tf32 to its 10 bits. Integers round to nearest even and clamp to ±127 (int8)
// or the type's range (int32).
func Encode(d DType, src []float64, dst []byte) error {
	if err := checkBytes(d, len(src), len(dst)); err != nil {
		return err
	}
	le := binary.LittleEndian
	for i, x := range src {
		switch d {
		case FP32:
			le.PutUint32(dst[4*i:], math.Float32bits(float32(x)))
		case TF32:
			le.PutUint32(dst[4*i:], math.Float32bits(float32(RoundTF32(x))))
		case FP16:
			le.PutUint16(dst[2*i:], EncodeFP16(x))
		case BF16:
			le.PutUint16(dst[2*i:], EncodeBF16(x))
		case FP8:
			dst[i] = EncodeFP8(x)
		case INT8:
			dst[i] = byte(int8(max(-127, min(127, math.RoundToEven(x)))))
		case INT32:
			le.PutUint32(dst[4*i:], uint32(int32(max(math.MinInt32, min(math.MaxInt32, math.RoundToEven(x))))))
		}
	}
	return nil
}

// Decode reads len(dst) little-endian elements of type d from src. Every value is
// exact.
func Decode(d DType, src []byte, dst []float64) error {
	if err := checkBytes(d, len(dst), len(src)); err != nil {
		return err
	}
	le := binary.LittleEndian
	for i := range dst {
		switch d {
		case FP32, TF32:
			dst[i] = float64(math.Float32frombits(le.Uint32(src[4*i:])))
		case FP16:
			dst[i] = DecodeFP16(le.Uint16(src[2*i:]))
		case BF16:
			dst[i] = DecodeBF16(le.Uint16(src[2*i:]))
		case FP8:
			dst[i] = DecodeFP8(src[i])
		case INT8:
			dst[i] = float64(int8(src[i]))
		case INT32:
			dst[i] = float64(int32(le.Uint32(src[4*i:])))
		}
	}
	return nil
}

func checkBytes(d DType, elements, bytes int) error {
	if d.Size() == 0 {
		return fmt.Errorf("convert: unknown dtype %q", d)
	}
	if need := elements * d.Size(); bytes < need {
		return fmt.Errorf("convert: %d elements of %s need %d bytes, got %d", elements, d, need, bytes)
	}
	return nil
}
