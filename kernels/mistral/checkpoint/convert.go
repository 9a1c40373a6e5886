package checkpoint

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/gemmaudit/gemmaudit/kernels"
)

const convertChunk = 1 << 18

// As returns the elements as fp32, fp16 or bf16, rounded to nearest, ties to even: Data itself if the type is
// the same, otherwise new memory. A finite element that becomes infinite is an [*Error] that names it. Uses
// all processors.
func (t Tensor) As(dtype kernels.DType) ([]byte, error) {
	if dtype == t.DType {
		return t.Data, nil
	}
	convert := converter(t.DType, dtype)
	if convert == nil {
		return nil, &Error{Path: t.path, Tensor: t.Name, Reason: fmt.Sprintf("no conversion from %s to %s", t.DType, dtype)}
	}
	from, to := t.DType.Size(), dtype.Size()
	if len(t.Data)%from != 0 {
		return nil, &Error{Path: t.path, Tensor: t.Name,
			Reason: fmt.Sprintf("%d bytes are no whole number of elements of %s", len(t.Data), t.DType)}
	}
	n := len(t.Data) / from
	out := make([]byte, n*to)
	var next atomic.Int64
	var overflow atomic.Int64 // the lowest element that became infinite
	overflow.Store(math.MaxInt64)
	var group sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n/convertChunk+1) {
		group.Go(func() {
			for {
				first := int(next.Add(convertChunk)) - convertChunk
				if first >= n {
					return
				}
				last := min(first+convertChunk, n)
				if convert(out[first*to:last*to], t.Data[first*from:last*from]) {
					lower(&overflow, int64(first+firstInfinity(dtype, t.DType, out[first*to:last*to], t.Data[first*from:last*from])))
				}
			}
		})
	}
	group.Wait()
	if i := overflow.Load(); i != math.MaxInt64 {
		var value [1]float64
		if err := kernels.Decode(t.DType, t.Data[int(i)*from:][:from], value[:]); err != nil {
			return nil, &Error{Path: t.path, Tensor: t.Name, Reason: "can't be converted", Err: err}
		}
		return nil, &Error{
			Path: t.path, Tensor: t.Name,
			Reason: fmt.Sprintf("element %d is %g, beyond %s", i, value[0], dtype),
			Hint:   fmt.Sprintf("run the model in %s or fp32", t.DType),
		}
	}
	return out, nil
}

func lower(a *atomic.Int64, x int64) {
	for {
		old := a.Load()
		if old <= x || a.CompareAndSwap(old, x) {
			return
		}
	}
}

// converter returns a function that fills dst from src and reports whether a finite element became infinite;
// nil for an unsupported pair of types.
func converter(from, to kernels.DType) func(dst, src []byte) bool {
	switch [2]kernels.DType{from, to} {
	case [2]kernels.DType{kernels.FP32, kernels.BF16}:
		return func(dst, src []byte) bool { return narrow(dst, src, roundBF16, 0x7f80) }
	case [2]kernels.DType{kernels.FP32, kernels.FP16}:
		return func(dst, src []byte) bool { return narrow(dst, src, roundFP16, 0x7c00) }
	case [2]kernels.DType{kernels.BF16, kernels.FP32}:
		return func(dst, src []byte) bool { return widen(dst, src, func(h uint16) uint32 { return uint32(h) << 16 }) }
	case [2]kernels.DType{kernels.FP16, kernels.FP32}:
		table := fp16ToFP32()
		return func(dst, src []byte) bool { return widen(dst, src, func(h uint16) uint32 { return table[h] }) }
	case [2]kernels.DType{kernels.BF16, kernels.FP16}:
		table := bf16ToFP16()
		return func(dst, src []byte) bool { return translate(dst, src, table, 0x7f80, 0x7c00) }
	case [2]kernels.DType{kernels.FP16, kernels.BF16}:
		table := fp16ToBF16()
		return func(dst, src []byte) bool { return translate(dst, src, table, 0x7c00, 0x7f80) }
	}
	return nil
}

// Conversions from 16 bits use tables. Weights have few exponents, so the used entries stay in the L1 cache.
var (
	bf16ToFP16 = sync.OnceValue(func() *[1 << 16]uint16 {
		return table16(func(h uint16) uint16 { return kernels.EncodeFP16(kernels.DecodeBF16(h)) })
	})
	fp16ToBF16 = sync.OnceValue(func() *[1 << 16]uint16 {
		return table16(func(h uint16) uint16 { return kernels.EncodeBF16(kernels.DecodeFP16(h)) })
	})
	fp16ToFP32 = sync.OnceValue(func() *[1 << 16]uint32 {
		table := new([1 << 16]uint32)
		for i := range table {
			table[i] = math.Float32bits(float32(kernels.DecodeFP16(uint16(i))))
		}
		return table
	})
)

func table16(f func(uint16) uint16) *[1 << 16]uint16 {
	table := new([1 << 16]uint16)
	for i := range table {
		table[i] = f(uint16(i))
	}
	return table
}

// narrow rounds fp32 to 16 bits. infinity is dst's.
func narrow(dst, src []byte, round func(uint32) uint16, infinity uint16) bool {
	le, overflow := binary.LittleEndian, false
	for len(src) >= 4 && len(dst) >= 2 {
		bits := le.Uint32(src)
		h := round(bits)
		le.PutUint16(dst, h)
		overflow = overflow || h&0x7fff == infinity && bits&0x7fffffff != 0x7f800000
		src, dst = src[4:], dst[2:]
	}
	return overflow
}

func widen(dst, src []byte, convert func(uint16) uint32) bool {
	le := binary.LittleEndian
	for len(src) >= 2 && len(dst) >= 4 {
		le.PutUint32(dst, convert(le.Uint16(src)))
		src, dst = src[2:], dst[4:]
	}
	return false
}

// translate converts between 16-bit formats, given their infinities.
func translate(dst, src []byte, table *[1 << 16]uint16, from, to uint16) bool {
	le, overflow := binary.LittleEndian, false
	for len(src) >= 2 && len(dst) >= 2 {
		in := le.Uint16(src)
		h := table[in]
		le.PutUint16(dst, h)
		overflow = overflow || h&0x7fff == to && in&0x7fff != from
		src, dst = src[2:], dst[2:]
	}
	return overflow
}

// roundBF16 rounds the bits of an fp32 to nearest, ties to even.
func roundBF16(bits uint32) uint16 {
	if bits&0x7fffffff > 0x7f800000 {
		return uint16(bits>>16) | 0x40 // keeps a NaN whose payload is in the lower half
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// roundFP16 rounds the bits of an fp32 to nearest, ties to even.
func roundFP16(bits uint32) uint16 {
	const least, beyond = 0x38800000, 0x47800000 // 2^-14, 2^16
	if magnitude := bits & 0x7fffffff; magnitude < least || magnitude >= beyond {
		return kernels.EncodeFP16(float64(math.Float32frombits(bits)))
	}
	// The exponent's bias decreases by 127-15. A mantissa carry increments the exponent, up to infinity.
	rounded := bits&0x7fffffff + 0xfff + bits>>13&1
	return uint16(bits>>16&0x8000) | uint16((rounded-(127-15)<<23)>>13)
}

// firstInfinity returns the index of the first element that is finite in src but not in dst.
func firstInfinity(to, from kernels.DType, dst, src []byte) int {
	var x, y [1]float64
	for i := range len(dst) / to.Size() {
		if kernels.Decode(from, src[i*from.Size():], x[:]) != nil || kernels.Decode(to, dst[i*to.Size():], y[:]) != nil {
			break
		}
		if math.IsInf(y[0], 0) && !math.IsInf(x[0], 0) {
			return i
		}
	}
	return 0
}
