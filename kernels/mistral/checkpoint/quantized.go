package checkpoint

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"

	"github.com/gemmaudit/gemmaudit/kernels"
)

// Quantized is a linear layer's weights as integers, [N, K] row by row. The weight in row n and column k is
// (Values[n*K+k] - zero) * scale, with its row's and group's scale and zero point.
type Quantized struct {
	Name  string // the weights' name, such as "lm_head.weight"
	N, K  int    // outputs and inputs
	Bits  int    // 4 or 8; values are below 1<<Bits
	Group int    // columns per scale, a divisor of K
	// Values are one byte each.
	Values []uint8
	// Scales are [N, K/Group], little-endian.
	Scales     []byte
	ScaleDType kernels.DType // fp32, fp16 or bf16
	// Zeros are [N, K/Group], from 0 to 1<<Bits. nil if all are 1<<(Bits-1).
	Zeros []int16

	path string
}

// Groups returns the number of groups per row.
func (q *Quantized) Groups() int { return q.K / q.Group }

// ScalesAs returns the scales [N, K/Group], rounded to d, a 16-bit type, if they have another. The error is
// an [*Error] that names a scale outside d's range, or a zero point outside the weights' integers.
func (q *Quantized) ScalesAs(d kernels.DType) ([]float64, error) {
	scales := make([]float64, len(q.Scales)/q.ScaleDType.Size())
	if err := kernels.Decode(q.ScaleDType, q.Scales, scales); err != nil {
		return nil, &Error{Path: q.path, Tensor: q.Name, Reason: "scales can't be read", Err: err}
	}
	for i, zero := range q.Zeros {
		if int(zero) >= 1<<q.Bits {
			return nil, &Error{Path: q.path, Tensor: q.Name,
				Reason: fmt.Sprintf("the zero point of row %d, group %d is %d, beyond %d bits", i/q.Groups(), i%q.Groups(), zero, q.Bits),
				Hint:   "--weights plain runs the numbers that they stand for"}
		}
	}
	if d == q.ScaleDType {
		return scales, nil
	}
	for i, s := range scales {
		rounded := kernels.DecodeFP16(kernels.EncodeFP16(s))
		if d == kernels.BF16 {
			rounded = kernels.DecodeBF16(kernels.EncodeBF16(s))
		}
		if math.IsInf(rounded, 0) && !math.IsInf(s, 0) {
			return nil, &Error{Path: q.path, Tensor: q.Name,
				Reason: fmt.Sprintf("the scale of row %d, group %d is %g, beyond %s", i/q.Groups(), i%q.Groups(), s, d),
				Hint:   "--weights plain runs the numbers that they stand for"}
		}
		scales[i] = rounded
	}
	return scales, nil
}

// Dense returns the weights as fp32: scale times distance from the zero point, exact for 16-bit scales.
func (q *Quantized) Dense() (Tensor, error) {
	groups := q.Groups()
	scales := make([]float64, q.N*groups)
	if err := kernels.Decode(q.ScaleDType, q.Scales, scales); err != nil {
		return Tensor{}, &Error{Path: q.path, Tensor: q.Name, Reason: "scales can't be read", Err: err}
	}
	out := make([]byte, 4*q.N*q.K)
	inParallel(q.N, 16, func(first, last int) {
		for i := first * groups; i < last*groups; i++ {
			zero, scale := int32(1)<<(q.Bits-1), float32(scales[i])
			if q.Zeros != nil {
				zero = int32(q.Zeros[i])
			}
			values := q.Values[i*q.Group:][:q.Group]
			to := out[4*i*q.Group:][:4*q.Group]
			for j, v := range values {
				binary.LittleEndian.PutUint32(to[4*j:4*j+4], math.Float32bits(float32(int32(v)-zero)*scale))
			}
		}
	})
	return Tensor{Name: q.Name, DType: kernels.FP32, Shape: []int{q.N, q.K}, Data: out, path: q.path}, nil
}

// inParallel calls do for parts of n items, in multiples of step, on all processors.
func inParallel(n, step int, do func(first, last int)) {
	part := (n/runtime.GOMAXPROCS(0)/step + 1) * step
	var group sync.WaitGroup
	for first := 0; first < n; first += part {
		group.Go(func() { do(first, min(first+part, n)) })
	}
	group.Wait()
}

// packing names the parts of quantized weights, after the layer's name.
type packing struct{ values, scales, zeros, order, shape string }

var packings = map[layout]packing{
	layoutGPTQ:   {"qweight", "scales", "qzeros", "g_idx", ""},
	layoutAWQ:    {"qweight", "scales", "qzeros", "", ""},
	layoutPacked: {"weight_packed", "weight_scale", "weight_zero_point", "weight_g_idx", "weight_shape"},
}

func layer(weight string) string { return strings.TrimSuffix(weight, "weight") }

// isPacked reports whether a weight is quantized. It looks at the tensors, because config.json has too many
// ways to express it.
func (c *Checkpoint) isPacked(name string) bool {
	q := c.config.Quantization
	return q != nil && q.layout != layoutFP8 && name != embedding &&
		c.tensors[name] == nil && c.tensors[layer(name)+packings[q.layout].values] != nil
}

// Packed reports whether a linear layer's weights are quantized and [Checkpoint.Quantized] returns them.
func (c *Checkpoint) Packed(name string) bool { return c.isPacked(name) }

// ScaleDType returns the stored scale type of a [Checkpoint.Packed] weight.
func (c *Checkpoint) ScaleDType(name string) kernels.DType {
	scales := layer(name) + packings[c.config.Quantization.layout].scales
	return readable[c.tensors[scales].tensors[scales].dtype]
}

// groups returns the group size of a weight and the number of groups per row.
func (q *Quantization) groups(columns int) (size, count int) {
	if q.Group == 0 {
		return columns, 1
	}
	return q.Group, columns / q.Group
}

// checkPacked checks the shapes of the parts of a weight [n, k] and returns their names.
func (c *Checkpoint) checkPacked(name string, n, k int) ([]string, error) {
	q := c.config.Quantization
	p, in := packings[q.layout], layer(name)
	size, groups := q.groups(k)
	refuse := func(format string, args ...any) error {
		return &Error{Path: c.tensors[in+p.values].path, Tensor: in + p.values, Reason: fmt.Sprintf(format, args...)}
	}
	words := func(n int) int { return (n*q.Bits + 31) / 32 }
	if k%size != 0 {
		return nil, refuse("%d columns, which groups of %d do not divide", k, size)
	}
	type part struct {
		name  string
		shape []int
		types []string
	}
	ints, floats := []string{"I32"}, []string{"F16", "BF16", "F32"}
	var parts []part
	switch q.layout {
	case layoutGPTQ, layoutAWQ:
		shape := []int{words(k), n}
		if q.layout == layoutAWQ {
			shape = []int{k, words(n)}
		}
		if q.layout == layoutGPTQ && k*q.Bits%32 != 0 || n*q.Bits%32 != 0 {
			return nil, refuse("shape [%d %d] of weights of %d bits, expected multiples of %d", n, k, q.Bits, 32/q.Bits)
		}
		parts = []part{{p.values, shape, ints}, {p.zeros, []int{groups, words(n)}, ints}, {p.scales, []int{groups, n}, floats}}
	case layoutPacked:
		parts = []part{{p.values, []int{n, words(k)}, ints}, {p.scales, []int{n, groups}, floats}, {p.shape, []int{2}, []string{"I64"}}}
		if q.Zeros {
			parts = append(parts, part{p.zeros, []int{words(n), groups}, ints})
		}
	}
	var names []string
	for _, part := range parts {
		if _, err := c.raw(in+part.name, part.shape, part.types...); err != nil {
			return nil, err
		}
		names = append(names, in+part.name)
	}
	if p.shape != "" {
		if err := c.checkShape(in+p.shape, n, k); err != nil {
			return nil, err
		}
	}
	if p.order != "" && c.tensors[in+p.order] != nil {
		names = append(names, in+p.order)
		if err := c.checkOrder(in+p.order, k, size); err != nil {
			return nil, err
		}
	}
	if c.tensors[in+"bias"] != nil { // older files have biases although the models have none
		names = append(names, in+"bias")
		if err := c.checkBias(in+"bias", n); err != nil {
			return nil, err
		}
	}
	return names, nil
}

func (c *Checkpoint) checkShape(name string, n, k int) error {
	e, err := c.raw(name, []int{2}, "I64")
	if err != nil {
		return err
	}
	rows, columns := int64(binary.LittleEndian.Uint64(e.data)), int64(binary.LittleEndian.Uint64(e.data[8:]))
	if rows != int64(n) || columns != int64(k) {
		return &Error{Path: c.tensors[name].path, Tensor: name, Reason: fmt.Sprintf("says [%d %d], expected [%d %d]", rows, columns, n, k)}
	}
	return nil
}

// checkOrder refuses groups of non-adjacent columns, as made by activation ordering.
func (c *Checkpoint) checkOrder(name string, k, size int) error {
	e, err := c.raw(name, []int{k}, "I32")
	if err != nil {
		return err
	}
	for i := range k {
		if group := int32(binary.LittleEndian.Uint32(e.data[4*i:])); int(group) != i/size {
			return &Error{
				Path: c.tensors[name].path, Tensor: name,
				Reason: fmt.Sprintf("column %d is in group %d, expected %d: act-order (desc_act, actorder group) is not supported", i,
					group, i/size),
				Hint: "quantize the model with desc_act false, or with static groups",
			}
		}
	}
	return nil
}

func (c *Checkpoint) checkBias(name string, n int) error {
	e, err := c.raw(name, []int{n}, "F16", "BF16", "F32")
	if err != nil {
		return err
	}
	values := make([]float64, n)
	if err := kernels.Decode(readable[e.dtype], e.data, values); err != nil {
		return &Error{Path: c.tensors[name].path, Tensor: name, Reason: "can't be read", Err: err}
	}
	for i, v := range values {
		if v != 0 {
			return &Error{Path: c.tensors[name].path, Tensor: name,
				Reason: fmt.Sprintf("element %d is %g: a %s model has no biases", i, v, c.config.ModelType)}
		}
	}
	return nil
}

func (c *Checkpoint) raw(name string, shape []int, types ...string) (entry, error) {
	e, err := c.shaped(name, shape)
	if err != nil {
		return entry{}, err
	}
	for _, t := range types {
		if e.dtype == t {
			return e, nil
		}
	}
	return entry{}, &Error{Path: c.tensors[name].path, Tensor: name,
		Reason: fmt.Sprintf("of type %q, expected %s", e.dtype, strings.Join(types, " or "))}
}

// Quantized returns the weights of a linear layer [n, k] as integers, or nil if they are not quantized.
func (c *Checkpoint) Quantized(name string, n, k int) (*Quantized, error) {
	if !c.isPacked(name) {
		return nil, nil
	}
	if _, err := c.checkPacked(name, n, k); err != nil {
		return nil, err
	}
	s := c.config.Quantization
	p, in := packings[s.layout], layer(name)
	size, groups := s.groups(k)
	f := c.tensors[in+p.values]
	scales := c.tensors[in+p.scales].tensors[in+p.scales]
	q := &Quantized{Name: name, N: n, K: k, Bits: s.Bits, Group: size, Values: make([]uint8, n*k), Scales: scales.data,
		ScaleDType: readable[scales.dtype], path: f.path}
	values := f.tensors[in+p.values].data
	var zeros []byte
	if s.Zeros {
		zeros = c.tensors[in+p.zeros].tensors[in+p.zeros].data
	}
	switch s.layout {
	case layoutGPTQ:
		q.unpackInputs(values)
		q.Scales = transposed(scales.data, groups, n, q.ScaleDType.Size())
		q.zeros(s.lag, func(n, g int) int { return sequential(zeros, g, q.N, n, q.Bits) })
	case layoutAWQ:
		q.unpackInterleaved(values)
		q.Scales = transposed(scales.data, groups, n, q.ScaleDType.Size())
		q.zeros(0, func(n, g int) int { return interleaved(zeros, g, q.N, n) })
	case layoutPacked:
		q.unpackRows(values)
		if zeros != nil {
			q.zeros(0, func(n, g int) int { return acrossRows(zeros, g, groups, n, q.Bits) })
		}
	}
	return q, nil
}

func (q *Quantized) zeros(lag int, stored func(n, g int) int) {
	groups := q.Groups()
	zeros := make([]int16, q.N*groups)
	middle := true
	for n := range q.N {
		for g := range groups {
			zero := stored(n, g) + lag
			zeros[n*groups+g] = int16(zero)
			middle = middle && zero == 1<<(q.Bits-1)
		}
	}
	if !middle {
		q.Zeros = zeros
	}
}

func word(data []byte, at int) uint32 { return binary.LittleEndian.Uint32(data[4*at:]) }

// sequential returns the integer at a row and column; words hold consecutive columns.
func sequential(data []byte, row, columns, column, bits int) int {
	per := 32 / bits
	return int(word(data, row*(columns/per)+column/per) >> (column % per * bits) & (1<<bits - 1))
}

// acrossRows is sequential for words of consecutive rows.
func acrossRows(data []byte, column, columns, row, bits int) int {
	per := 32 / bits
	return int(word(data, row/per*columns+column) >> (row % per * bits) & (1<<bits - 1))
}

// awqPlaces are the positions of a word's eight columns, lowest bits first.
var awqPlaces = [8]int{0, 4, 1, 5, 2, 6, 3, 7}

// interleaved is sequential in the order of AWQ.
func interleaved(data []byte, row, columns, column int) int {
	return int(word(data, row*(columns/8)+column/8) >> (awqPlaces[column%8] * 4) & 15)
}

// tile is the number of outputs and of inputs unpacked at a time if a word holds several outputs. Reads and
// writes of a tile stay in the L1 cache.
const tile = 128

// tiles calls do for the tiles of n outputs and k inputs, on all processors.
func tiles(n, k int, do func(firstN, lastN, firstK, lastK int)) {
	inParallel(n, tile, func(first, last int) {
		for in := first; in < last; in += tile {
			for ik := 0; ik < k; ik += tile {
				do(in, min(in+tile, last), ik, min(ik+tile, k))
			}
		}
	})
}

// unpackInputs reads values from words of consecutive inputs, [k, n].
func (q *Quantized) unpackInputs(data []byte) {
	per, mask := 32/q.Bits, uint32(1)<<q.Bits-1
	tiles(q.N, q.K, func(firstN, lastN, firstK, lastK int) {
		for k := firstK; k < lastK; k += per {
			for n := firstN; n < lastN; n++ {
				w := word(data, k/per*q.N+n)
				out := q.Values[n*q.K+k:][:per]
				for j := range out {
					out[j] = uint8(w & mask)
					w >>= q.Bits
				}
			}
		}
	})
}

// unpackInterleaved reads values from words of eight outputs, [k, n], in the order of AWQ.
func (q *Quantized) unpackInterleaved(data []byte) {
	tiles(q.N, q.K, func(firstN, lastN, firstK, lastK int) {
		for n := firstN; n < lastN; n += 8 {
			for k := firstK; k < lastK; k++ {
				w := word(data, (k*q.N+n)/8)
				for j, place := range awqPlaces {
					q.Values[(n+j)*q.K+k] = uint8(w >> (4 * place) & 15)
				}
			}
		}
	})
}

// unpackRows reads values from words of consecutive inputs, [n, k]. A row's last word may be partly unused.
func (q *Quantized) unpackRows(data []byte) {
	per, mask := 32/q.Bits, uint32(1)<<q.Bits-1
	words := (q.K + per - 1) / per
	inParallel(q.N, 1, func(first, last int) {
		for n := first; n < last; n++ {
			for i := range words {
				w := word(data, n*words+i)
				for j := i * per; j < min((i+1)*per, q.K); j++ {
					q.Values[n*q.K+j] = uint8(w & mask)
					w >>= q.Bits
				}
			}
		}
	})
}

// transposed transposes [rows, columns] of elements of size bytes.
func transposed(data []byte, rows, columns, size int) []byte {
	out := make([]byte, len(data))
	for r := range rows {
		for c := range columns {
			copy(out[(c*rows+r)*size:][:size], data[(r*columns+c)*size:][:size])
		}
	}
	return out
}
