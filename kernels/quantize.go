package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"
)

// QuantizedMatrix is weights [N,K] as codes with scales.
type QuantizedMatrix struct {
	Format WeightFormat
	N, K   int
	Codes  []uint8   // N·K, unsigned; of fp8 its elements
	Scales []float64 // (N ÷ GroupN) · (K ÷ GroupK) values, each representable in Format.Scale
	Zeros  []uint8   // one per scale, nil without zero points
}

// Quantize rounds weights [N,K] to a format's nearest codes. Each group's scale is the smallest, in the
// scales' type, whose codes cover the weights, symmetrically about 0 without zero points. The error names an
// invalid format or a non-finite weight.
func Quantize(f WeightFormat, n, k int, values []float64) (*QuantizedMatrix, error) {
	if err := f.check(k); err != nil {
		return nil, err
	}
	if len(values) != n*k {
		return nil, fmt.Errorf("quantize n%d k%d: got %d weights, expected %d", n, k, len(values), n*k)
	}
	m := NewQuantizedMatrix(f, n, k)
	if err := m.QuantizeRows(0, values); err != nil {
		return nil, err
	}
	return m, nil
}

// NewQuantizedMatrix returns weights [N,K] with unset codes and scales. f must come from
// [WeightFormat.For].
func NewQuantizedMatrix(f WeightFormat, n, k int) *QuantizedMatrix {
	groups := ceilDiv(n, f.GroupN) * ceilDiv(k, f.GroupK)
	m := &QuantizedMatrix{Format: f, N: n, K: k, Codes: make([]uint8, n*k), Scales: make([]float64, groups)}
	if f.ZeroPoint != "" {
		m.Zeros = make([]uint8, groups)
	}
	return m
}

// QuantizeRows is [Quantize] for whole rows starting at row. Different rows may be quantized concurrently. Rows that share
// scales must be quantized together.
func (m *QuantizedMatrix) QuantizeRows(row int, values []float64) error {
	n, k, f, levels := m.N, m.K, m.Format, m.Format.levels()
	if len(values)%k != 0 || row < 0 || row+len(values)/k > n {
		return fmt.Errorf("quantize n%d k%d: got %d weights from row %d on, expected whole rows", n, k, len(values), row)
	}
	if f.Activations() != "" {
		return m.quantizeBlocks(row, values)
	}
	for first := 0; first < len(values); first += f.GroupK {
		g, group, at := (row*k+first)/f.GroupK, values[first:first+f.GroupK], 0
		if levels == nil {
			at = m.quantize(g, group)
		} else {
			at = m.quantizeLevels(g, group, levels)
		}
		if at >= 0 {
			return fmt.Errorf("quantize n%d k%d: weight (%d,%d) is %g, too large for scales of %s or no number",
				n, k, row+(first+at)/k, (first+at)%k, values[first+at], f.Scale)
		}
	}
	return nil
}

// quantize quantizes group g. It returns the index of a weight that has no code, or -1.
func (m *QuantizedMatrix) quantize(g int, weights []float64) int {
	most := int(1)<<m.Format.Bits - 1
	low, high := 0.0, 0.0
	for i, x := range weights {
		if x-x != 0 { // NaN, too
			return i
		}
		if x < low {
			low = x
		} else if x > high {
			high = x
		}
	}
	zero := 1 << (m.Format.Bits - 1)
	reach := 2 * max(-low, high)
	if m.Zeros != nil {
		reach = high - low
	}
	scale := roundTo(m.Format.Scale, reach/float64(most))
	switch {
	case math.IsInf(scale, 0):
		for i, x := range weights {
			if x == low && -low > high || x == high {
				return i
			}
		}
	case scale == 0:
		scale = 1 // zeros, or weights below the resolution of the scales' type
	}
	if m.Zeros != nil {
		zero = max(0, min(most, int(math.RoundToEven(-low/scale))))
		m.Zeros[g] = uint8(zero)
	}
	m.Scales[g] = scale
	codes := m.Codes[g*m.Format.GroupK:][:len(weights)]
	for i, x := range weights {
		codes[i] = uint8(max(0, min(most, int(math.RoundToEven(x/scale))+zero)))
	}
	return -1
}

// Values returns the weights [N,K] as kernels use them with activations of type d: (code − zero point) ·
// scale, or level · scale, rounded once. Values of formats with scaled activations are exact.
func (m *QuantizedMatrix) Values(d DType) []float64 {
	if m.Format.Activations() != "" {
		return m.blockValues()
	}
	out, levels := make([]float64, len(m.Codes)), m.Format.levels()
	zero := float64(int(1) << (m.Format.Bits - 1))
	for g, scale := range m.Scales {
		if m.Zeros != nil {
			zero = float64(m.Zeros[g])
		}
		first := g * m.Format.GroupK
		for i, code := range m.Codes[first : first+m.Format.GroupK] {
			level := float64(code) - zero
			if levels != nil {
				level = levels[min(int(code), len(levels)-1)]
			}
			out[first+i] = roundTo(d, level*scale)
		}
	}
	return out
}

// Raw returns the weights in the layout of [QuantizedProblem].
func (m *QuantizedMatrix) Raw() []byte {
	at := m.Format.rawWeights(m.N, m.K)
	out := make([]byte, at.Bytes)
	const part = 1 << 22 // codes: a whole number of bytes
	var wait sync.WaitGroup
	for first := 0; first < len(m.Codes); first += part {
		wait.Go(func() {
			putCodes(out[first*m.Format.Bits/8:], m.Codes[first:min(first+part, len(m.Codes))], m.Format.Bits)
		})
	}
	wait.Wait()
	for g, scale := range m.Scales {
		if m.Format.Scale == FP32 {
			binary.LittleEndian.PutUint32(out[at.Scales+int64(4*g):], math.Float32bits(float32(scale)))
			continue
		}
		bits := EncodeFP16(scale)
		if m.Format.Scale == BF16 {
			bits = EncodeBF16(scale)
		}
		binary.LittleEndian.PutUint16(out[at.Scales+int64(2*g):], bits)
	}
	if m.Zeros != nil {
		putCodes(out[at.Zeros:], m.Zeros, m.Format.ZeroPointBits)
	}
	return out
}

// putCodes writes codes of 4 or 8 bits, the first of a byte in its lower half.
func putCodes(to []byte, codes []uint8, bits int) {
	if bits == 8 {
		copy(to, codes)
		return
	}
	for i, code := range codes {
		to[i/2] |= code << (i % 2 * 4)
	}
}
