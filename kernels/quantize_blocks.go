package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
)

// MaxFP8 is the largest fp8, e4m3.
const MaxFP8 = 448

// ScaleFP8 returns the scale of fp8 elements whose largest magnitude is amax: amax ÷ 448 in fp32, as engines compute it,
// and 1 for zeros. An element is x ÷ scale, rounded to nearest even.
func ScaleFP8(amax float64) float32 {
	if s := float32(amax) / MaxFP8; s > 0 {
		return s
	}
	return 1 // zeros, or elements below the resolution of scales
}

// quantizeBlocks quantizes whole blocks of rows of fp8 weights.
func (m *QuantizedMatrix) quantizeBlocks(row int, values []float64) error {
	f, k, rows := m.Format, m.K, len(values)/m.K
	if f.Type != "fp8" {
		return fmt.Errorf("quantize n%d k%d: no kernel of this program takes %s", m.N, k, f.Type)
	}
	if row%f.GroupN != 0 || rows%f.GroupN != 0 && row+rows != m.N {
		return fmt.Errorf("quantize n%d k%d: got rows %d to %d, expected whole groups of %d", m.N, k, row, row+rows-1, f.GroupN)
	}
	if at := quantizeFP8(values, k, f.GroupN, f.GroupK, m.Codes[row*k:], m.Scales[row/f.GroupN*ceilDiv(k, f.GroupK):]); at >= 0 {
		return fmt.Errorf("quantize n%d k%d: weight (%d,%d) is %g, no finite fp32", m.N, k, row+at/k, at%k, values[at])
	}
	return nil
}

// quantizeFP8 quantizes rows of k values in blocks of rows × columns, with the scales of a row of blocks side by side. It
// returns the index of a value that is no finite fp32, or -1.
func quantizeFP8(values []float64, k, rows, columns int, codes []uint8, scales []float64) (bad int) {
	n := len(values) / k
	for i0 := 0; i0 < n; i0 += rows {
		for k0 := 0; k0 < k; k0 += columns {
			amax := 0.0
			for i := i0; i < min(n, i0+rows); i++ {
				for j := k0; j < min(k, k0+columns); j++ {
					x := math.Abs(values[i*k+j])
					if !(x <= math.MaxFloat32) {
						return i*k + j
					}
					amax = max(amax, x)
				}
			}
			scale := float64(ScaleFP8(amax))
			scales[i0/rows*ceilDiv(k, columns)+k0/columns] = scale
			for i := i0; i < min(n, i0+rows); i++ {
				for j := k0; j < min(k, k0+columns); j++ {
					codes[i*k+j] = EncodeFP8(max(-MaxFP8, min(MaxFP8, values[i*k+j]/scale)))
				}
			}
		}
	}
	return -1
}

// blockValues returns element · scale of every weight.
func (m *QuantizedMatrix) blockValues() []float64 {
	out, groups := make([]float64, len(m.Codes)), ceilDiv(m.K, m.Format.GroupK)
	for i, code := range m.Codes {
		n, k := i/m.K, i%m.K
		out[i] = e4m3Values[code] * m.Scales[n/m.Format.GroupN*groups+k/m.Format.GroupK]
	}
	return out
}

// e4m3Values are the values of all fp8 elements.
var e4m3Values = func() (values [256]float64) {
	for code := range values {
		values[code] = DecodeFP8(uint8(code))
	}
	return values
}()

// blockColumns is [WeightFormat.columns] of a format with scaled activations.
func (f WeightFormat) blockColumns(raw Buffer, s Subject, columns []int) ([][]float64, error) {
	at, groups := f.rawWeights(s.N, s.K), ceilDiv(s.K, f.GroupK)
	codes, scales := make([]byte, s.K), make([]byte, 4*groups)
	out := make([][]float64, len(columns))
	for i, j := range columns {
		if err := raw.Download(int64(j)*int64(s.K), codes); err != nil {
			return nil, err
		}
		if err := raw.Download(at.Scales+int64(j/f.GroupN)*int64(len(scales)), scales); err != nil {
			return nil, err
		}
		out[i] = make([]float64, s.K)
		for k, code := range codes {
			scale := math.Float32frombits(binary.LittleEndian.Uint32(scales[k/f.GroupK*4:]))
			out[i][k] = e4m3Values[code] * float64(scale)
		}
	}
	return out, nil
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
