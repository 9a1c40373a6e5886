package kernels

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
)

// The float64 form of a task's quantized operands, as a [Definition]'s Reference takes them. A is its elements [M,K] and, with
// [Task.ActivationScales], their scales [M, groups of K]. Weights are, for each group, codes [N,K], scales [groups of N, groups of K]
// and the zero points, if any. Codes of fp8 are its elements.

// weightGroups returns the groups of N and of K that have a scale.
func (s Subject) weightGroups() (n, k int) {
	return ceilDiv(s.N, s.Weights.GroupN), ceilDiv(s.K, s.Weights.GroupK)
}

// weightFloats returns the length of a group's weights in their float64 form.
func (s Subject) weightFloats() int {
	n, k := s.weightGroups()
	scales := n * k
	if s.Weights.ZeroPoint != "" {
		scales *= 2
	}
	return s.N*s.K + scales
}

// values returns A and the weights of all groups as they stand for, with the scales of a way.
func (w groupedWay) values(t Task, in, stored []float64) (a, b []float64) {
	f := t.Weights
	a = slices.Clone(in[:t.M*t.K])
	if t.Scaled() {
		groups, scales := t.scaleGroups(), in[t.M*t.K:]
		for i := range a {
			row, k := w.activation(i/t.K, i%t.K/f.GroupK)
			a[i] *= scales[row*groups+k]
		}
	}
	blocksN, blocksK := t.weightGroups()
	codes, blocks, each, levels := t.N*t.K, blocksN*blocksK, t.weightFloats(), f.levels()
	b = make([]float64, t.Groups*codes)
	for group := range t.Groups {
		for i, code := range stored[group*each:][:codes] {
			from, n, k := w.weight(group, i/t.K/f.GroupN, i%t.K/f.GroupK)
			at := from*each + codes + n*blocksK + k
			switch {
			case f.Activations() != "":
			case levels != nil:
				code = levels[min(int(code), len(levels)-1)]
			case f.ZeroPoint != "":
				code -= stored[at+blocks]
			default:
				code -= float64(int(1) << (f.Bits - 1))
			}
			b[group*codes+i] = code * stored[at]
		}
	}
	return a, b
}

// drawQuantizedOperands draws N(0,1) in blocks of unlike size, so that a scale of another block shows, and quantizes it.
func drawQuantizedOperands(t Task, rng *rand.Rand) (in, stored []float64, err error) {
	f := t.Weights
	draw := func(rows, perRow, perColumn int) []float64 {
		v := make([]float64, rows*t.K)
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		if perRow > 0 {
			spread(v, t.K, perRow, perColumn, rng)
		}
		return v
	}
	if t.Scaled() {
		m := NewQuantizedMatrix(WeightFormat{Type: "fp8", Bits: 8, GroupK: f.GroupK, GroupN: 1, Scale: FP32}, t.M, t.K)
		if err := m.QuantizeRows(0, draw(t.M, 1, f.GroupK)); err != nil {
			return nil, nil, err
		}
		in = m.floats()
	} else {
		for _, v := range draw(t.M, 0, 0) {
			in = append(in, roundTo(t.DType, v))
		}
	}
	for range t.Groups {
		m, err := Quantize(f, t.N, t.K, draw(t.N, f.GroupN, f.GroupK))
		if err != nil {
			return nil, nil, err
		}
		stored = append(stored, m.floats()...)
	}
	return in, stored, nil
}

// encodeQuantized writes operands as a kernel reads them. a begins with the first element of A. Bytes of NaN follow the weights.
func encodeQuantized(t Task, in, stored []float64, a []byte) (weights []byte, err error) {
	elements := t.M * t.K
	if err := Encode(t.DType, in[:elements], a[:elements*t.DType.Size()]); err != nil {
		return nil, err
	}
	if of, ok := t.ActivationScales(); ok {
		copy(a[of.At:], nans(of.Extent(t.M)*of.Type.Size()))
		for i, scale := range in[elements:] {
			row, k := i/of.Groups, i%of.Groups
			binary.LittleEndian.PutUint32(a[of.At+4*(k*of.LD+row):], math.Float32bits(float32(scale)))
		}
	}
	for one := range slices.Chunk(stored, t.weightFloats()) {
		weights = append(weights, quantizedOf(t.Weights, t.N, t.K, one).Raw()...)
	}
	return append(weights, nans(quantizedGuard)...), nil
}

// floats returns the matrix in its float64 form.
func (m *QuantizedMatrix) floats() []float64 {
	var out []float64
	for _, code := range m.Codes {
		v := float64(code)
		if m.Format.Activations() != "" {
			v = e4m3Values[code]
		}
		out = append(out, v)
	}
	out = append(out, m.Scales...)
	for _, zero := range m.Zeros {
		out = append(out, float64(zero))
	}
	return out
}

// quantizedOf is the inverse of [QuantizedMatrix.floats].
func quantizedOf(f WeightFormat, n, k int, floats []float64) *QuantizedMatrix {
	m := NewQuantizedMatrix(f, n, k)
	for i := range m.Codes {
		if m.Codes[i] = uint8(floats[i]); f.Activations() != "" {
			m.Codes[i] = EncodeFP8(floats[i])
		}
	}
	rest := floats[len(m.Codes):]
	copy(m.Scales, rest)
	for i := range m.Zeros {
		m.Zeros[i] = uint8(rest[len(m.Scales)+i])
	}
	return m
}

// readRaw is the inverse of [QuantizedMatrix.Raw].
func readRaw(f WeightFormat, n, k int, raw []byte) *QuantizedMatrix {
	at, m := f.rawWeights(n, k), NewQuantizedMatrix(f, n, k)
	for i := range m.Codes {
		m.Codes[i] = codeAt(raw, i*f.Bits, f.Bits)
	}
	for i := range m.Scales {
		m.Scales[i] = f.scaleAt(raw[at.Scales:], i)
	}
	for i := range m.Zeros {
		m.Zeros[i] = codeAt(raw[at.Zeros:], i*f.ZeroPointBits, f.ZeroPointBits)
	}
	return m
}

// scaleAt reads a scale.
func (f WeightFormat) scaleAt(scales []byte, i int) float64 {
	switch f.Scale {
	case FP32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(scales[4*i:])))
	case BF16:
		return DecodeBF16(binary.LittleEndian.Uint16(scales[2*i:]))
	}
	return DecodeFP16(binary.LittleEndian.Uint16(scales[2*i:]))
}

// readElements reads elements of a buffer from an offset.
func readElements(of Operand, elements int64, d DType) ([]float64, error) {
	content, out := make([]byte, elements*int64(d.Size())), make([]float64, elements)
	if err := of.Buffer.Download(int64(of.Offset)*int64(d.Size()), content); err != nil {
		return nil, err
	}
	return out, Decode(d, content, out)
}

// ReadScales reads the scales of a normalized task's activations a as [M, groups of K]; nil if they have none.
func ReadScales(t Task, a Operand) ([]float64, error) {
	of, ok := t.ActivationScales()
	if !ok {
		return nil, nil
	}
	at, err := t.ScalesOperand(a)
	if err != nil {
		return nil, err
	}
	stored, err := readElements(at, int64(of.Extent(t.M)), of.Type)
	if err != nil {
		return nil, err
	}
	var out []float64
	for row := range t.M {
		for k := range of.Groups {
			out = append(out, stored[k*of.LD+row])
		}
	}
	return out, nil
}

// ReadOperands reads a normalized task's operands from a kernel's buffers, in the form that its operation's Reference takes.
func ReadOperands(t Task, a Operand, raw Buffer) (in, stored []float64, err error) {
	if in, err = readElements(a, t.InputElements(t.M), t.DType); err != nil {
		return nil, nil, err
	}
	if n := t.ResidualElements(t.M); n > 0 {
		residual, err := readElements(t.ResidualOperand(a), n, t.DType)
		if err != nil {
			return nil, nil, err
		}
		in = append(in, residual...)
	}
	scales, err := ReadScales(t, a)
	if err != nil {
		return nil, nil, err
	}
	in = append(in, scales...)
	bytes := t.Stored(t.M)
	switch {
	case bytes == 0:
		return in, nil, nil
	case !t.Quantized():
		stored, err = readElements(Operand{Buffer: raw}, bytes/int64(t.DType.Size()), t.DType)
		return in, stored, err
	}
	content := make([]byte, bytes)
	if err := raw.Download(0, content); err != nil {
		return nil, nil, err
	}
	for one := range slices.Chunk(content, int(t.oneGroup().Stored(1))) {
		stored = append(stored, readRaw(t.Weights, t.N, t.K, one).floats()...)
	}
	return in, stored, nil
}
