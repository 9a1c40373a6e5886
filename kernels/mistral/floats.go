package mistral

import (
	"encoding/binary"
	"math"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// read returns n elements of an activation buffer from an offset on.
func (s *Session) read(b kernels.Buffer, offset, n int) ([]float32, error) {
	dtype := s.m.dtype.Output()
	raw := make([]byte, n*dtype.Size())
	if err := b.Download(int64(offset*dtype.Size()), raw); err != nil {
		return nil, err
	}
	out := make([]float32, n)
	decodeFloats(dtype, raw, out)
	return out, nil
}

// decodeFloats reads len(out) elements.
func decodeFloats(dtype kernels.DType, raw []byte, out []float32) {
	switch dtype {
	case kernels.FP32:
		for i := range out {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
	case kernels.FP16:
		for i := range out {
			out[i] = float32(kernels.DecodeFP16(binary.LittleEndian.Uint16(raw[2*i:])))
		}
	case kernels.BF16:
		for i := range out {
			out[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(raw[2*i:])) << 16)
		}
	}
}

// encodeFloats writes values to raw, rounded to nearest.
func encodeFloats(dtype kernels.DType, values []float32, raw []byte) {
	switch dtype {
	case kernels.FP32:
		for i, v := range values {
			binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(v))
		}
	case kernels.FP16:
		for i, v := range values {
			binary.LittleEndian.PutUint16(raw[2*i:], kernels.EncodeFP16(float64(v)))
		}
	case kernels.BF16:
		for i, v := range values {
			binary.LittleEndian.PutUint16(raw[2*i:], kernels.EncodeBF16(float64(v)))
		}
	}
}
