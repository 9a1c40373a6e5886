package kernels

import "fmt"

// columnsAtOnce is the number of bytes of weights [K,N] read at a time.
const columnsAtOnce = 64 << 20

// IsOneProduct reports whether the subject is a matrix product with one B, with or without an epilogue.
func (s Subject) IsOneProduct() bool {
	return (s.Operation.IsProduct() || s.Operation.HasEpilogue()) && s.Products == 0
}

// WeightColumns reads columns of a single product's B from raw, as [FillWeights] wrote it. Each column has
// the K values that kernels multiply; quantized weights are rounded to s.DType. It reads little of raw if K
// is contiguous.
func WeightColumns(raw Buffer, s Subject, columns []int) ([][]float64, error) {
	if !s.IsOneProduct() {
		return nil, fmt.Errorf("columns of weights: %v is no single product", s)
	}
	for _, j := range columns {
		if j < 0 || j >= s.N {
			return nil, fmt.Errorf("columns of weights: column %d of %d", j, s.N)
		}
	}
	if s.Weights != (WeightFormat{}) {
		return s.Weights.columns(raw, s, columns)
	}
	if s.Layout == Transposed {
		return contiguousColumns(raw, s, columns)
	}
	return stridedColumns(raw, s, columns)
}

// contiguousColumns reads columns of weights [N,K].
func contiguousColumns(raw Buffer, s Subject, columns []int) ([][]float64, error) {
	size := s.DType.Size()
	out, row := make([][]float64, len(columns)), make([]byte, s.K*size)
	for i, j := range columns {
		if err := raw.Download(int64(j)*int64(len(row)), row); err != nil {
			return nil, err
		}
		out[i] = make([]float64, s.K)
		if err := Decode(s.DType, row, out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// stridedColumns reads columns of weights [K,N].
func stridedColumns(raw Buffer, s Subject, columns []int) ([][]float64, error) {
	size := s.DType.Size()
	line := s.N * size
	rows := min(s.K, max(1, columnsAtOnce/line))
	out, part := make([][]float64, len(columns)), make([]byte, rows*line)
	for i := range out {
		out[i] = make([]float64, s.K)
	}
	for from := 0; from < s.K; from += rows {
		n := min(rows, s.K-from)
		if err := raw.Download(int64(from)*int64(line), part[:n*line]); err != nil {
			return nil, err
		}
		for k := range n {
			for i, j := range columns {
				at := k*line + j*size
				if err := Decode(s.DType, part[at:at+size], out[i][from+k:from+k+1]); err != nil {
					return nil, err
				}
			}
		}
	}
	return out, nil
}

// columns reads columns of quantized weights [N,K].
func (f WeightFormat) columns(raw Buffer, s Subject, columns []int) ([][]float64, error) {
	if err := f.check(s.K); err != nil {
		return nil, err
	}
	if f.Activations() != "" {
		return f.blockColumns(raw, s, columns)
	}
	at := f.rawWeights(s.N, s.K)
	groups := s.K / f.GroupK
	codes, scales := make([]byte, s.K*f.Bits/8), make([]byte, groups*f.Scale.Size())
	zeros := make([]byte, (groups*f.ZeroPointBits+7)/8+1)
	out := make([][]float64, len(columns))
	for i, j := range columns {
		if err := raw.Download(int64(j)*int64(len(codes)), codes); err != nil {
			return nil, err
		}
		if err := raw.Download(at.Scales+int64(j)*int64(len(scales)), scales); err != nil {
			return nil, err
		}
		firstZero := j * groups * f.ZeroPointBits // in bits
		if at.Zeros > 0 {
			last := (firstZero + groups*f.ZeroPointBits + 7) / 8
			if err := raw.Download(at.Zeros+int64(firstZero/8), zeros[:last-firstZero/8]); err != nil {
				return nil, err
			}
		}
		m := &QuantizedMatrix{Format: f, N: 1, K: s.K, Codes: make([]uint8, s.K), Scales: make([]float64, groups)}
		for k := range m.Codes {
			m.Codes[k] = codeAt(codes, k*f.Bits, f.Bits)
		}
		for g := range m.Scales {
			m.Scales[g] = f.scaleAt(scales, g)
		}
		if at.Zeros > 0 {
			m.Zeros = make([]uint8, groups)
			for g := range m.Zeros {
				m.Zeros[g] = codeAt(zeros, firstZero%8+g*f.ZeroPointBits, f.ZeroPointBits)
			}
		}
		out[i] = m.Values(s.DType)
	}
	return out, nil
}

// codeAt reads a code of 4 or 8 bits at a bit offset.
func codeAt(stream []byte, bit, bits int) uint8 {
	return stream[bit/8] >> (bit % 8) & uint8(1<<bits-1)
}
