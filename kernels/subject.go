package kernels

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Dims are the dimensions that do not change along a curve over M. Which of them an
// operation has, [Operation.Dims] lists; the others are 0.
type Dims struct {
	N int `json:"n,omitempty"` // columns of C
	K int `json:"k,omitempty"` // the dimension that is summed over
	// Products is how many independent products of the same size one launch computes,
	// each with weights of its own; 0 for a single one.
	Products   int `json:"products,omitempty"`
	QueryHeads int `json:"query_heads,omitempty"`
	KVHeads    int `json:"kv_heads,omitempty"` // heads of keys and values
	HeadDim    int `json:"head_dim,omitempty"` // elements of a head
	Window     int `json:"window,omitempty"`   // how many tokens a token sees, 0 for all before it
	Hidden     int `json:"hidden,omitempty"`   // columns of a decoder's residual stream
	Inner      int `json:"inner,omitempty"`    // columns between the projections of a gated unit
	Layers     int `json:"layers,omitempty"`
	Vocab      int `json:"vocab,omitempty"`
	Columns    int `json:"columns,omitempty"` // of a row that is normalized
	Queries    int `json:"queries,omitempty"` // rows of a sequence under a causal mask, 0 for no mask
}

// WeightFormat is how weights are stored that are not plain elements of the activations'
// type. The zero value is plain.
type WeightFormat struct {
	Type   string `json:"type"` // of one weight: "int4"
	Bits   int    `json:"bits"` // of one weight
	GroupK int    `json:"group_k,omitempty"`
	GroupN int    `json:"group_n,omitempty"` // weights that share a scale, along each axis
	Scale  DType  `json:"scale,omitempty"`   // type of the scales; empty for none
	// ZeroPoint is the type of the zero points; empty for none.
	ZeroPoint string `json:"zero_point,omitempty"`
	// ZeroPointBits is the size of one.
	ZeroPointBits int `json:"zero_point_bits,omitempty"`
}

// bits is the size of k·n weights with their scales and zero points.
func (f WeightFormat) bits(k, n float64) float64 {
	all := k * n * float64(f.Bits)
	if f.GroupK > 0 && f.GroupN > 0 {
		groups := k / float64(f.GroupK) * n / float64(f.GroupN)
		all += groups * float64(f.Scale.Bits()+f.ZeroPointBits)
	}
	return all
}

// String names a format: "int4 g128x1 fp16".
func (f WeightFormat) String() string {
	if f == (WeightFormat{}) {
		return "plain"
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

// ParseWeightFormat reads what [WeightFormat.String] prints of quantised weights, "int4 g128x1 fp16 zint4",
// and "plain".
func ParseWeightFormat(s string) (WeightFormat, error) {
	var f WeightFormat
	if s == f.String() {
		return f, nil
	}
	for _, bits := range []int{4, 8} {
		for _, zeros := range []bool{false, true} {
			for _, scale := range []DType{FP16, BF16} {
				q := Quantisation{Bits: bits, ZeroPoints: zeros}
				if n, err := fmt.Sscanf(s, fmt.Sprintf("int%d g%%dx1 %s", bits, scale), &q.Group); err != nil || n != 1 || q.Group < 1 {
					continue
				}
				if f = q.format(scale, q.Group); f.String() == s {
					return f, nil
				}
			}
		}
	}
	return WeightFormat{}, fmt.Errorf("weights of format %q are not known to this program", s)
}

// Subject is what is computed along a curve over M: an operation with everything about
// its operands that does not change. It is comparable.
type Subject struct {
	Operation Operation `json:"operation"`
	// DType is the type of the activations.
	DType DType `json:"dtype"`
	Dims
	// Weights is the format of the weights, where it is not plain elements of DType.
	Weights WeightFormat `json:"weights,omitzero"`
	// Output and Accumulator are types that do not follow from DType; else they are empty.
	Output      DType `json:"output,omitempty"`
	Accumulator DType `json:"accumulator,omitempty"`
	// Layout is that of the weights, RowMajor where there are none; JSON leaves that out.
	Layout Layout `json:"layout,omitzero"`
}

// Product is a matrix product of plain operands with weights [K,N] of a type.
func Product(d DType, n, k int) Subject { return Subject{DType: d, Dims: Dims{N: n, K: k}} }

// OutputType is the type of what is written.
func (s Subject) OutputType() DType { return cmp.Or(s.Output, s.DType.Output()) }

// AccumulatorType is the type in which is summed.
func (s Subject) AccumulatorType() DType { return cmp.Or(s.Accumulator, s.DType.Accumulator()) }

// products is how many products one launch computes.
func (s Subject) products() float64 { return float64(max(1, s.Products)) }

// weightBits is the size of the weights of one product.
func (s Subject) weightBits() float64 {
	if s.Weights != (WeightFormat{}) {
		return s.Weights.bits(float64(s.K), float64(s.N))
	}
	return float64(s.K) * float64(s.N) * float64(s.DType.Bits())
}

// context is how many of m tokens the last one sees.
func (s Subject) context(m float64) float64 {
	if w := float64(s.Window); w > 0 {
		return min(m, w)
	}
	return m
}

// headWidth is the elements of one token's queries.
func (s Subject) headWidth() float64 { return float64(s.QueryHeads) * float64(s.HeadDim) }

// cacheBits is the keys and values of so many tokens.
func (s Subject) cacheBits(tokens float64) float64 {
	return 2 * tokens * float64(s.KVHeads) * float64(s.HeadDim) * float64(s.DType.Bits())
}

// seenPairs counts the pairs of a token and one that it sees, itself included, among m
// tokens with a window, 0 for none.
func seenPairs(m, window float64) float64 {
	if window <= 0 || window >= m {
		return m * (m + 1) / 2
	}
	return window*(window+1)/2 + (m-window)*window
}

// unmasked is how many elements of m rows are seen, see [SoftmaxProblem.Seen].
func (s Subject) unmasked(m float64) float64 {
	q := float64(s.Queries)
	if q == 0 {
		return m * float64(s.Columns)
	}
	whole := math.Floor(m / q)
	rest := m - whole*q
	return m*(float64(s.Columns)-q) + whole*q*(q+1)/2 + rest*(rest+1)/2
}

func checkQueries(s Subject) error {
	if s.Queries > s.Columns {
		return fmt.Errorf("queries is %d, expected at most the %d columns", s.Queries, s.Columns)
	}
	return nil
}

func checkHeads(s Subject) error { return s.Heads().Validate() }

// layerWeights and headWeights are how many weights the products of all layers of a decoder
// and its output projection have.
func (s Subject) layerWeights() float64 {
	h, q, kv := float64(s.Hidden), float64(s.QueryHeads)*float64(s.HeadDim), float64(s.KVHeads)*float64(s.HeadDim)
	return float64(s.Layers) * (2*h*q + 2*h*kv + 3*h*float64(s.Inner))
}

func (s Subject) headWeights() float64 { return float64(s.Hidden) * float64(s.Vocab) }

// decoderBits is the size of a decoder's weights as its products read them.
func decoderBits(s Subject, _ float64) float64 {
	return (s.layerWeights() + s.headWeights()) * float64(s.DType.Bits())
}

// Heads are the sizes of the heads of an attention.
func (s Subject) Heads() Heads {
	return Heads{Query: s.QueryHeads, KV: s.KVHeads, Dim: s.HeadDim}
}

// FLOPs is the number of operations of one execution at M = m: a multiply and an add
// count as two. The exponentials of attention are not counted, as nobody counts them.
func (s Subject) FLOPs(m int) float64 {
	if f := s.Operation.definition().flops; f != nil {
		return f(s, float64(m))
	}
	return 0
}

// Bytes is the least traffic of one execution at M = m: every operand read once, less what is
// masked of it, and the output written once.
func (s Subject) Bytes(m int) float64 {
	read := float64(s.InputElements(m))
	if f := s.Operation.definition().read; f != nil {
		read = f(s, float64(m))
	}
	in, out := read*float64(s.DType.Bits()), float64(s.OutputElements(m))*float64(s.OutputType().Bits())
	return (in+out)/8 + s.StoredBytes(m)
}

// InputElements is the number of elements of DType that are new to each execution at
// M = m: activations, queries.
func (s Subject) InputElements(m int) int64 {
	if f := s.Operation.definition().input; f != nil {
		return int64(f(s, float64(m)))
	}
	return 0
}

// OutputElements is the number of elements that one execution at M = m writes.
func (s Subject) OutputElements(m int) int64 {
	if f := s.Operation.definition().output; f != nil {
		return int64(f(s, float64(m)))
	}
	return 0
}

// StoredBytes is the part of [Subject.Bytes] that stays in memory from launch to launch
// and is read from there: weights, or keys and values of the tokens before.
func (s Subject) StoredBytes(m int) float64 {
	if f := s.Operation.definition().stored; f != nil {
		return f(s, float64(m)) / 8
	}
	return 0
}

// Paddable says that the rows are independent of each other, so that rows of padding may
// stand behind them.
func (s Subject) Paddable() bool { return s.Operation.definition().divisible }

// Divisible says that M rows may be computed as parts, one launch each. Those of a batch of
// products may not: the rows of a part lie apart in A and C, one stretch for each product,
// where the operands of a launch are contiguous. Nor may rows under a causal mask: a part would
// begin inside of a sequence.
func (s Subject) Divisible() bool { return s.Paddable() && s.Products == 0 && s.Queries == 0 }

// Validate returns an error that names the first field that can't be.
func (s Subject) Validate() error {
	def := s.Operation.definition()
	if def.dims == nil {
		return fmt.Errorf("%v is unknown", s.Operation)
	}
	rest := s.Dims
	for _, d := range def.dims {
		value := d.In(&s.Dims)
		if *value < 0 || *value == 0 && !d.Optional {
			return fmt.Errorf("%s is %d, expected at least 1", d.Name, *value)
		}
		*d.In(&rest) = 0
	}
	switch {
	case rest != (Dims{}):
		return fmt.Errorf("%s has dimensions of another operation: %+v", def.name, rest)
	case s.DType.Bits() == 0 || s.DType == INT32:
		return fmt.Errorf("dtype %q can't be an operand", s.DType)
	case !def.weights && (s.Layout != RowMajor || s.Weights != WeightFormat{}):
		return fmt.Errorf("%s has no weights, and so neither layout nor format of them", def.name)
	case int(s.Layout) >= len(layoutNames):
		return fmt.Errorf("%v is unknown", s.Layout)
	}
	if def.check != nil {
		return def.check(s)
	}
	return nil
}

// Size prints the dimensions as the field writes them: "n14336 k4096", "q32 kv8 d128".
func (s Subject) Size() string {
	var words []string
	for _, d := range s.Operation.Dims() {
		if v := *d.In(&s.Dims); v != 0 || !d.Optional {
			words = append(words, d.Short+strconv.Itoa(v))
		}
	}
	return strings.Join(words, " ")
}

// Traits prints what is not plain about a subject, each word with a space before it: the
// layout of weights stored as [N,K], their format, types that do not follow from DType.
func (s Subject) Traits() string {
	var b strings.Builder
	if s.Layout != RowMajor {
		b.WriteString(" " + s.Layout.String())
	}
	if s.Weights != (WeightFormat{}) {
		b.WriteString(" weights " + s.Weights.String())
	}
	if s.Output != "" {
		b.WriteString(" output " + string(s.Output))
	}
	if s.Accumulator != "" {
		b.WriteString(" accumulator " + string(s.Accumulator))
	}
	return b.String()
}

// String prints a subject: "bf16 n4096 k4096 nk"; an operation that is no matrix product
// stands first.
func (s Subject) String() string {
	text := string(s.DType) + " " + s.Size() + s.Traits()
	if s.Operation != GEMM {
		text = s.Operation.String() + " " + text
	}
	return text
}

// Compare orders subjects by their fields.
func (s Subject) Compare(o Subject) int {
	order := cmp.Or(cmp.Compare(s.Operation, o.Operation), cmp.Compare(s.DType, o.DType))
	for _, d := range s.Operation.Dims() {
		order = cmp.Or(order, cmp.Compare(*d.In(&s.Dims), *d.In(&o.Dims)))
	}
	return cmp.Or(order, cmp.Compare(s.Layout, o.Layout), cmp.Compare(s.Weights.String(), o.Weights.String()),
		cmp.Compare(s.Output, o.Output), cmp.Compare(s.Accumulator, o.Accumulator))
}
